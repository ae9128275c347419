"""The chapters as readers open them: no raw markup, nothing lost, code as it is, errors of empty
answers gone; and a folder of them in which what a reader has changed stays.
"""

import ast
import html
import json
import re
from itertools import pairwise

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from build.readers.reader import (
    BRANCH,
    NEWEST,
    NO_ANSWER,
    RUN_FIRST,
    RUN_WIDGET,
    TITLE,
    link_colab,
    reader_notebook,
    reader_text,
    version_of,
)
from build.source.myst import PARSER, directive
from build.source.places import Places, UnknownMarkup, figure_of
from scripts import reader_notebooks
from tests.notebooks.guards import code_cells, tags
from tests.paths import BOOK, ROOT

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
PLACES = Places(ROOT)
RAW_ROLE = re.compile(r"\{[a-z:]+\}$")
RAW_TEXT = re.compile(r"^:[a-z_-]+:(?: |$)|^:::|^\([\w-]+\)=|\{\{")
# Markdown with formulas and tables, as notebook programs read it: MyST's forms are text to it.
PLAIN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


@pytest.fixture(scope="module", params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request):
    """A chapter as it is written, and as readers open it."""
    source = nbformat.read(request.param, as_version=4)
    return source, reader_notebook(request.param, PLACES)


def texts(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def raw_markup(text):
    """What a notebook program would show as text or not at all, and what leads nowhere there."""
    found, folds = [], 0
    for token in PLAIN.parse(text):
        if token.type == "fence" and (token.info.startswith("{") or ":label:" in token.content):
            found.append(token.info)
        if token.type == "html_block":
            folds += token.content.count("<details>") - token.content.count("</details>")
            if not re.fullmatch(
                r"<details>\n<summary>.*</summary>\s*|</details>\s*", token.content
            ):
                found.append(token.content)
        for here, then in pairwise([*(token.children or ()), None]):
            if here.type == "text" and RAW_TEXT.search(here.content):
                found.append(here.content)
            if here.type == "text" and then is not None and then.type == "code_inline":
                found += RAW_ROLE.findall(here.content)
            if here.type == "link_open" and not here.attrs["href"].startswith("https://"):
                found.append(here.attrs["href"])
            if here.type == "math_inline" and here.content != here.content.strip():
                found.append(here.content)  # to VS Code it is no formula
    return found + ["<details> without its end"] * abs(folds)


def test_no_raw_markup_is_left(chapter):
    assert [found for text in texts(chapter[1]) for found in raw_markup(text)] == []


def test_each_chapter_as_written_would_be_rejected(chapter):
    assert [found for text in texts(chapter[0]) for found in raw_markup(text)]


@pytest.mark.parametrize(
    "text",
    [
        "```{hint}\nx\n```",
        "A {cite:t}`key` here",
        "```python\n:label: ex-a\n```",
        ":class: dropdown\ntext",
        "(a-target)=\n",
        "{{ name }}",
        ":::{note}\nx\n:::",
        "[a](03_attention_layer.ipynb)",
        "a formula $ x $ here",
        "<details>\n<summary>Hint</summary>\n\nx",
        "<div class='x'>y</div>",
    ],
)
def test_raw_markup_is_found(text):
    assert raw_markup(text)


def directives(text):
    """The directives in a text, those within others included."""
    for fence in filter(None, map(directive, PARSER.parse(text))):
        yield fence
        yield from directives(fence.body)


def test_every_exercise_hint_solution_and_note_is_there(chapter):
    source, reader = chapter
    fences = [fence for text in texts(source) for fence in directives(text)]
    names = [fence.name for fence in fences]
    folded = [f for f in fences if f.name == "admonition" and "dropdown" in f.options["class"]]
    written, read = "\n\n".join(texts(source)), "\n\n".join(texts(reader))
    shown = PLAIN.parse(read)
    titles = [fence.argument for fence in fences if fence.name == "exercise"]
    headings = r"^### Exercise [\d.]+: (.*) \([a-z]+, \d+ minutes.*\)$"
    assert re.findall(headings, read, re.MULTILINE) == titles
    assert read.count("<summary>Hint</summary>") == names.count("hint")
    assert read.count("<summary>Solution of exercise ") == names.count("solution")
    details = sum(names.count(n) for n in ("hint", "solution", "outcome", "seen", "recall"))
    assert read.count("<details>") == details + len(folded)
    quotations = sum(token.type == "blockquote_open" for token in shown)
    notes = sum(names.count(n) for n in ("margin", "admonition", "predict"))
    assert quotations == 1 + notes - len(folded)
    roles = re.findall(r"\{cite(?::[pt])?\}`([^`]*)`", written)
    cited = [key for keys in roles for key in keys.split(",")]
    links = re.findall(r"\]\((https:[^)\s]*)\)", read)
    assert sum(links.count(address) for address in {PLACES.paper(k) for k in cited}) == len(cited)


def prose(text):
    """The words, code and formulas of a text, in their order, those in directives included."""
    for token in PARSER.parse(text):
        fence = directive(token)
        if fence:
            yield fence.argument if fence.name in ("exercise", "admonition") else ""
            yield from prose(fence.body)
        elif token.type in ("fence", "math_block"):
            yield token.content
        for part in token.children or ():
            if part.type in ("text", "code_inline", "math_inline"):
                yield part.content


def folded_letters(text):
    """The text without what only sets it: letters and signs, in small letters."""
    plain = str.maketrans("", "", "\\>*`$|#-()[]{}.:,;& \n\"'“”‘’–—…")
    return html.unescape(text).translate(plain).lower()


def test_no_word_and_no_formula_is_lost(chapter):
    source, reader = chapter
    read, at = folded_letters("".join(texts(reader))), 0
    for piece in (folded_letters(piece) for text in texts(source) for piece in prose(text)):
        at = read.find(piece, at)
        assert at >= 0, piece
        at += len(piece)


def test_code_is_the_same_and_the_set_up_comes_first(chapter):
    source, reader = chapter
    hint = f"{RUN_FIRST}\n"
    codes = [
        re.sub(rf"^{TITLE}.*\n", "", cell.source.removeprefix(hint))
        for _, cell in code_cells(reader)
    ]
    assert codes == [cell.source for _, cell in code_cells(source)]
    assert [c.id for _, c in code_cells(reader)] == [c.id for _, c in code_cells(source)]
    first = next(i for i, cell in enumerate(reader.cells) if cell.cell_type == "code")
    assert reader.cells[first].id == "setup"
    note = reader.cells[first - 1].source
    assert note.startswith("> **Run the next two cells first.**")
    for named in (PLACES.repository, "`the-book-main`", "sacrebleu"):
        assert named in note
    assert PLACES.base in note


def test_the_second_cell_has_the_imports_of_every_check(chapter):
    """So that the line above each check, and the note, send a reader to the right two cells."""
    (_, _), (_, imports), *others = code_cells(chapter[1])
    names = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(imports.source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    checks = [cell.source for _, cell in others if cell.source.startswith(RUN_FIRST)]
    assert checks
    for check in checks:
        assert names & {n.id for n in ast.walk(ast.parse(check)) if isinstance(n, ast.Name)}


def test_a_check_that_runs_first_says_which_cells_to_run(chapter):
    """The error shows the line: Jupyter prints the lines about the one that failed."""
    check = next(
        cell.source for _, cell in code_cells(chapter[1]) if cell.source.startswith(RUN_FIRST)
    )
    shell = InteractiveShell()
    with pytest.raises(NameError), capture_output() as shown:
        shell.run_cell(check, store_history=False).raise_error()
    assert RUN_FIRST in re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)


def test_metadata_is_what_notebook_programs_use(chapter):
    for cell in chapter[1].cells:
        assert {*cell.metadata} <= {"tags", "jupyter", "cellView", "collapsed"}
        assert {*tags(cell)} <= {"raises-exception"}


def test_no_test_and_no_set_up_stands_open(chapter):
    """Folded as JupyterLab and as Colab do it, behind a title; what a test prints is folded too."""
    source, reader = chapter
    folded = 0
    for (_, before), (_, after) in zip(code_cells(source), code_cells(reader), strict=True):
        kinds = {*tags(before)} & {"proof", "listing", "hide-input", "remove-input"}
        hidden = after.metadata.get("jupyter", {})
        assert hidden.get("source_hidden", False) is bool(kinds)
        assert ("cellView" in after.metadata) is bool(kinds)
        assert after.source.startswith(TITLE) is bool(kinds)
        prints = bool(kinds & {"proof", "listing"} and after.outputs)
        assert (
            hidden.get("outputs_hidden", False) is after.metadata.get("collapsed", False) is prints
        )
        folded += bool(kinds)
    assert folded >= 2
    assert not re.search(r"^\*\*(Tested|Listing):", "\n".join(texts(reader)), re.MULTILINE)


def test_an_empty_answer_shows_no_error_and_an_experiment_keeps_its_outputs(chapter):
    source, reader = chapter
    stubs = 0
    for (_, before), (_, after), (_, above) in zip(
        list(code_cells(source))[1:],
        list(code_cells(reader))[1:],
        code_cells(source),
        strict=False,
    ):
        kinds = [output.output_type for output in after.outputs]
        if "exercise" in tags(above):
            stubs += 1
            assert [output.data["text/plain"] for output in after.outputs] == [NO_ANSWER]
            assert after.execution_count is None
            assert before.outputs[0].output_type == "error"
            continue
        assert kinds == [output.output_type for output in before.outputs]
        for old, new in zip(before.outputs, after.outputs, strict=True):
            if "book-widget" in old.get("data", {}).get("text/html", ""):
                assert RUN_WIDGET in new.data["text/html"]
                assert "<table>" in new.data["text/html"]
                assert "<script" not in new.data["text/html"]
            else:
                assert new.get("data") == old.get("data")
                assert new.get("text") == old.get("text")
    assert stubs == sum("exercise" in tags(cell) for _, cell in code_cells(source)) > 0


def test_figures_keep_their_description(chapter):
    source, reader = chapter
    for (_, before), (_, after) in zip(code_cells(source), code_cells(reader), strict=True):
        alt = before.metadata.get("mystnb", {}).get("image", {}).get("alt")
        pictures = [o for o in after.outputs if "image/png" in o.get("data", {})]
        assert [o.metadata["image/png"]["alt"] for o in pictures] == [alt] * len(pictures)


def test_figures_keep_their_captions_and_count(chapter):
    source, reader = chapter
    captions = [figure_of(cell)["caption"] for _, cell in code_cells(source) if figure_of(cell)]
    below = [b.source for a, b in pairwise(reader.cells) if b.id == f"{a.id}-caption"]
    number = reader.cells[0].source.split()[1]
    assert below == [f"**Figure {number}{i}.** {text}" for i, text in enumerate(captions, start=1)]


def test_an_error_names_chapter_cell_and_markup(tmp_path):
    notebook = nbformat.read(CHAPTERS[0], as_version=4)
    cell = next(cell for cell in notebook.cells[1:] if cell.cell_type == "markdown")
    cell.source += "\n\n```{unheard-of}\n```\n"
    nbformat.write(notebook, tmp_path / CHAPTERS[0].name)
    with pytest.raises(UnknownMarkup) as error:
        reader_notebook(tmp_path / CHAPTERS[0].name, PLACES)
    assert str(error.value).startswith(f"{CHAPTERS[0].name}, cell {cell.id}: ")
    assert "{unheard-of}" in str(error.value)


def test_the_set_up_fetches_the_version_that_the_notebook_came_from():
    commit = version_of(ROOT)
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    notebook = reader_notebook(CHAPTERS[0], PLACES, commit)
    assert f'VERSION = "{commit}"\n' in next(code_cells(notebook))[1].source
    (note,) = [text for text in texts(notebook) if "Run the next two cells first" in text]
    assert f"`the-book-{commit[:7]}`" in note


def test_without_git_the_set_up_fetches_the_newest_version(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert version_of(tmp_path) == NEWEST
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version_of(ROOT) == NEWEST
    setup = next(code_cells(reader_notebook(CHAPTERS[0], PLACES)))[1]
    assert f'VERSION = "{NEWEST}"\n' in setup.source


def test_the_colab_button_opens_the_notebook_of_readers():
    site = 'href="https://colab.research.google.com/github/some/book/blob/'
    page = f'<a {site}main/book/01_seq2seq.ipynb">'
    assert link_colab(page) == f'<a {site}notebooks/01_seq2seq.ipynb">'
    assert link_colab(link_colab(page)) == link_colab(page)


def test_the_workflow_pushes_the_branch_that_the_colab_buttons_open():
    workflow = (ROOT / ".github" / "workflows" / "pages.yml").read_text(encoding="utf-8")
    assert f"--initial-branch={BRANCH}\n" in workflow
    assert re.search(rf"git push --force .* {BRANCH}\n", workflow)


# --- the folder -------------------------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
    """A small book with two chapters."""
    book = tmp_path / "root" / "book"
    book.mkdir(parents=True)
    (book.parent / "requirements").mkdir()
    for name in ("_config.yml", "_toc.yml", "requirements/colab.txt", "book/references.bib"):
        (book.parent / name).write_bytes((ROOT / name).read_bytes())
    for path in CHAPTERS[:2]:
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = notebook.cells[:2]
        notebook.cells[0].source = "# A title"
        nbformat.write(notebook, book / path.name)
    return book.parent


def rewrite(path, old, new):
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


def test_the_folder_holds_what_the_chapters_give(house, tmp_path):
    folder = tmp_path / "folder"
    assert reader_notebooks.make(house, folder) == []
    assert {path.name for path in folder.glob("*.ipynb")} == {path.name for path in CHAPTERS[:2]}
    for path in folder.glob("*.ipynb"):
        text = reader_text(house / "book" / path.name, Places(house))
        assert path.read_text(encoding="utf-8") == text
    assert PLACES.repository in (folder / "README.md").read_text(encoding="utf-8")


def test_what_a_reader_changed_stays_and_is_named(house, tmp_path):
    folder = tmp_path / "folder"
    reader_notebooks.make(house, folder)
    mine, other = (folder / path.name for path in CHAPTERS[:2])
    rewrite(mine, "import sys", "import sys  # mine")
    assert reader_notebooks.make(house, folder) == []  # the book has nothing new
    for path in CHAPTERS[:2]:
        rewrite(house / "book" / path.name, "import sys", "import sys  # new")
    for _ in range(2):
        assert reader_notebooks.make(house, folder) == [mine.name]
        assert "# mine" in mine.read_text(encoding="utf-8")
        assert "# new" in other.read_text(encoding="utf-8")
    mine.unlink()
    assert reader_notebooks.make(house, folder) == []
    assert "# new" in mine.read_text(encoding="utf-8")


def test_a_file_that_was_not_made_here_stays(house, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / CHAPTERS[0].name).write_text("{}", encoding="utf-8")
    assert reader_notebooks.make(house, folder) == [CHAPTERS[0].name]
    assert (folder / CHAPTERS[0].name).read_text(encoding="utf-8") == "{}"
    assert json.loads((folder / ".made.json").read_text(encoding="utf-8")).keys() == {
        CHAPTERS[1].name,
        "README.md",
    }
