"""Makes of a chapter the notebook that readers open: plain Markdown, no errors of empty answers.

The chapters are written for the build, whose markup and whose cell metadata no notebook program
knows. This makes the same chapter for JupyterLab, Colab, VS Code and GitHub: the text in plain
Markdown (see `plain`), hints and solutions folded, the code as it is, with tests, listings and
set-up folded to a title, and the outputs of experiments as they were stored. The check of an
exercise that nobody has answered shows no error, and says which cells to run before it.

The built book offers these notebooks for download, and its Colab buttons open those of a branch.
Both fetch the version of the book that they were made from.
"""

import re
import subprocess
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbformat import NotebookNode

from build.doctree.folds import fold_of, spoken, words
from build.readers.plain import Chapter, caption, to_plain
from build.source.places import Places, UnknownMarkup, figure_of

BRANCH = "notebooks"  # of the repository; .github/workflows/pages.yml pushes it
STUB, FAILS = "exercise", "raises-exception"
# Cells whose code is folded in readers' notebooks beside tests and listings, and what says so.
FOLDED = {"hide-input": "Set-up: run this cell first", "remove-input": "The code of this figure"}
TITLE = "# @title "  # as Colab marks the title of a cell whose code it hides
NO_ANSWER = "Write your answer in the cell above, then run this cell to check it."
RUN_FIRST = (
    "# Is a name not defined? Run the first two code cells of this notebook, then your answer."
)
NEWEST = "main"  # the version that a chapter's set-up cell names; a reader's notebook has its own
RUN_WIDGET = "Run this cell to use the widget."
COLAB = re.compile(
    r'(href="https://colab\.research\.google\.com/github/[^"]*/blob/)(?!notebooks/)[^"/]+/book/'
)
SETUP_NOTE = """\
> **Run the next two cells first.** The first does nothing where Python finds the library of this \
book. Elsewhere, as on Colab or where you have downloaded this notebook alone, it fetches \
[the book]({repository}) into the folder `{folder}` beside this notebook, and installs {packages} \
into the Python that runs it. PyTorch, NumPy, SciPy, scikit-learn, matplotlib, tokenizers and tqdm \
must be there already, as they are on Colab.
>
> [This chapter on the web]({page}) needs no set-up: its widgets run in the page."""


def chapters(root: Path) -> list[Path]:
    """The chapters' files, in their order."""
    return sorted((root / "book").glob("[0-9]*.ipynb"))


def version_of(root: Path) -> str:
    """The commit that the files of `root` are; NEWEST where git knows none."""
    asked = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        return subprocess.run(
            asked, cwd=root, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return NEWEST


def reader_notebook(path: Path, places: Places, version: str = NEWEST) -> NotebookNode:
    """The chapter `path` as readers open it; its set-up cell fetches this version of the book.

    Errors: UnknownMarkup, which names the chapter, the cell and the markup without a plain form.
    """
    source = nbformat.read(path, as_version=4)
    chapter = Chapter(places, f"book/{path.stem}", int(path.stem[:2]))
    cells, answering = [], False
    for cell in source.cells:
        try:
            if cell.cell_type == "code":
                cells.append(code_cell(cell, unanswered=answering))
                answering = answering or STUB in cell.metadata.get("tags", ())
                if text := figure_of(cell).get("caption"):
                    name = f"{cell.id}-caption"
                    cells.append(nbformat.v4.new_markdown_cell(caption(text, chapter), id=name))
            else:
                text, answering = to_plain(cell.source, chapter), False
                cells.append(nbformat.v4.new_markdown_cell(text, id=cell.id))
        except UnknownMarkup as error:
            raise UnknownMarkup(f"{path.name}, cell {cell.id}: {error}") from error
    title = cells[0]
    title.source = re.sub(r"^# ", f"# {chapter.number}. ", title.source, count=1)
    note = nbformat.v4.new_markdown_cell(setup_note(chapter, version), id="before-the-setup")
    first_code = next(i for i, cell in enumerate(cells) if cell.cell_type == "code")
    setup = cells[first_code]
    setup.source = setup.source.replace(f'VERSION = "{NEWEST}"', f'VERSION = "{version}"')
    cells.insert(first_code, note)
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=source.metadata)
    nbformat.validate(notebook)
    return notebook


def reader_text(path: Path, places: Places, version: str = NEWEST) -> str:
    """The notebook that readers open as the text of its file."""
    return nbformat.writes(reader_notebook(path, places, version)) + "\n"


def setup_note(chapter: Chapter, version: str) -> str:
    """What the set-up cell is about to do, said before it does it."""
    lines = (chapter.places.root / "requirements/colab.txt").read_text(encoding="utf-8")
    *names, last = re.findall(r"^[\w-]+", lines, re.MULTILINE)
    return SETUP_NOTE.format(
        repository=chapter.places.repository,
        folder=f"the-book-{version[:7]}",
        packages=f"{', '.join(names)} and {last}",
        page=chapter.places.address(chapter.page),
    )


def title_of(cell: NotebookNode) -> str:
    """The line that stands for a folded cell; empty for one that stays open."""
    tags = cell.metadata.get("tags", [])
    if fold := fold_of(tags, cell.metadata):
        _, mark, text = fold
        return f"{mark}: {spoken(words(text))}"
    return next((title for tag, title in FOLDED.items() if tag in tags), "")


def code_cell(cell: NotebookNode, unanswered: bool) -> NotebookNode:
    """The same code; of its metadata what a notebook program uses; the outputs for readers.

    A folded cell begins with its title: Colab shows that line in the place of the code, JupyterLab
    as what is left of it. What a test or a listing prints is folded too.
    A cell whose exercise is `unanswered` begins with what to do where a name is not defined: Python
    shows that line in the error itself.
    """
    tags = cell.metadata.get("tags", [])
    metadata: dict = {"tags": [FAILS]} if FAILS in tags else {}
    source, title = cell.source, title_of(cell)
    if title:
        metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
        source = f"{TITLE}{title}\n{source}"
    if title and cell.outputs and not {*FOLDED} & {*tags}:
        metadata["collapsed"] = metadata["jupyter"]["outputs_hidden"] = True
    if unanswered and any(output.output_type == "error" for output in cell.outputs):
        count, outputs = None, [shown(NO_ANSWER)]
        source = f"{RUN_FIRST}\n{source}"
    else:
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
        count, outputs = cell.execution_count, [reader_output(o, alt) for o in cell.outputs]
    return nbformat.v4.new_code_cell(
        source, id=cell.id, metadata=metadata, execution_count=count, outputs=outputs
    )


def shown(text: str) -> NotebookNode:
    data = {"text/markdown": f"*{text}*", "text/plain": text}
    return nbformat.v4.new_output("display_data", data=data)


def reader_output(output: NotebookNode, alt: str | None) -> NotebookNode:
    """The stored output. A figure has its description with it, a widget stands still."""
    data = output.get("data", {})
    if "image/png" in data and alt:
        output.metadata["image/png"] = {"alt": alt}
    widget = BeautifulSoup(data.get("text/html", ""), "html.parser").select_one(".book-widget")
    if widget:
        still = widget.select_one(".book-widget-static")
        shown = still.decode_contents() if still else ""
        data["text/html"] = f"<p><em>{RUN_WIDGET}</em></p>\n{shown}"
        data["text/plain"] += f"\n{RUN_WIDGET}"
    return output


# --- in the built book ------------------------------------------------------------------------


def write_downloads(root: Path, out: Path) -> None:
    """Put the readers' notebooks where the pages of the built book offer theirs for download."""
    places, version = Places(root), version_of(root)
    for path in chapters(root):
        copy = out / "_sources" / "book" / path.name
        if copy.exists():
            copy.write_text(reader_text(path, places, version), encoding="utf-8")


def link_colab(text: str) -> str:
    """Let a page's Colab button open the reader's notebook."""
    return COLAB.sub(rf"\g<1>{BRANCH}/", text)
