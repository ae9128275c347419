"""What must hold for every chapter notebook, so that strict nbval really compares it.

Each guard takes a notebook and returns the problems that it found, an empty list if none.
`test_notebooks.py` runs them on the chapters, and on spoilt copies that they must reject.
"""

import ast
import re
from collections.abc import Callable, Iterator

from nbformat import NotebookNode

Guard = Callable[[NotebookNode], list[str]]
GUARDS: list[Guard] = []
IGNORE = "nbval-ignore-output"
RAISES = "raises-exception"
CELL_METADATA = {"tags", "mystnb", "check"}


def guard(function: Guard) -> Guard:
    GUARDS.append(function)
    return function


def code_cells(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code":
            yield f"cell {number} ({cell.get('id', 'no id')})", cell


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def images(cell: NotebookNode) -> list[NotebookNode]:
    return [o for o in cell.outputs if {"image/png", "image/svg+xml"} & {*o.get("data", {})}]


def described(cell: NotebookNode) -> str:
    """What the cell says of its figure: in its metadata, or in the schematic itself."""
    drawn = [o.data["image/svg+xml"] for o in images(cell) if "image/svg+xml" in o.data]
    titles = re.findall(r"<title>(.*?)</title>", "".join(drawn), re.DOTALL)
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    return " ".join(titles) if drawn else alt


@guard
def counts_run_from_one(notebook: NotebookNode) -> list[str]:
    """A cell without its count is not compared by nbval: a stripped notebook would pass."""
    counts = [cell.execution_count for _, cell in code_cells(notebook)]
    if counts == list(range(1, len(counts) + 1)):
        return []
    return [f"execution counts are {counts}, not 1 to {len(counts)}: run scripts/refresh.py"]


@guard
def outputs_are_stored(notebook: NotebookNode) -> list[str]:
    """A chapter prints and draws; one with hardly any output has been stripped."""
    cells = [cell for _, cell in code_cells(notebook)]
    with_output = sum(bool(cell.outputs) for cell in cells)
    if with_output * 2 >= len(cells):
        return []
    return [f"only {with_output} of {len(cells)} code cells have an output"]


@guard
def no_hidden_values(notebook: NotebookNode) -> list[str]:
    """A last `;` hides a value, and `_` and `Out` depend on what ran before."""
    problems = []
    for name, cell in code_cells(notebook):
        if cell.source.rstrip().endswith(";"):
            problems.append(f"{name}: ends with ';'")
        if re.search(r"\bOut\[|^\s*_\s*$|clear_output|%%|^\s*[!%]", cell.source, re.MULTILINE):
            problems.append(f"{name}: depends on the notebook's history or is not plain Python")
    return problems


@guard
def errors_are_announced(notebook: NotebookNode) -> list[str]:
    problems = []
    for name, cell in code_cells(notebook):
        fails = any(o.output_type == "error" for o in cell.outputs)
        if fails != (RAISES in tags(cell)):
            problems.append(f"{name}: error output and the tag {RAISES} do not go together")
        if any(o.output_type == "stream" and o.name == "stderr" for o in cell.outputs):
            problems.append(f"{name}: writes to stderr")
    return problems


@guard
def figures_have_alt_text(notebook: NotebookNode) -> list[str]:
    problems = []
    for name, cell in code_cells(notebook):
        if images(cell) and len(described(cell).split()) < 5:
            problems.append(f"{name}: its figure has no alt text that describes it")
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            problems.append(f"cell {number}: an image without alt text")
    return problems


@guard
def figures_have_captions(notebook: NotebookNode) -> list[str]:
    """The build numbers a figure that has a caption; its name is what a link to it leads to."""
    problems = []
    for name, cell in code_cells(notebook):
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        caption = figure.get("caption", "")
        if images(cell) and not (5 <= len(caption.split()) <= 25 and caption.endswith(".")):
            problems.append(f"{name}: its figure has no caption, a sentence of at most 25 words")
        if images(cell) and not re.fullmatch(r"fig(-[a-z0-9]+){2,}", figure.get("name", "")):
            problems.append(f"{name}: its figure has no name such as fig-masks-combine")
    return problems


@guard
def schematics_hide_their_code(notebook: NotebookNode) -> list[str]:
    """A schematic is drawn by one line, which says nothing to a reader of the page."""
    return [
        f"{name}: its schematic is drawn by other than one line with the tag remove-input"
        for name, cell in code_cells(notebook)
        if any("image/svg+xml" in o.data for o in images(cell))
        and (len(cell.source.splitlines()) > 1 or "remove-input" not in tags(cell))
    ]


@guard
def no_foreign_metadata(notebook: NotebookNode) -> list[str]:
    """Widget state, kernel versions and editor settings say nothing about the chapter."""
    problems = [
        f"metadata {key!r}" for key in {*notebook.metadata} - {"kernelspec", "language_info"}
    ]
    for name, cell in code_cells(notebook):
        problems += [f"{name}: metadata {key!r}" for key in {*cell.metadata} - CELL_METADATA]
    return problems


@guard
def ignored_cells_assert(notebook: NotebookNode) -> list[str]:
    """A cell whose output may differ asserts what matters in it, or a fold beside it does."""
    cells = list(code_cells(notebook))

    def asserts(cell: NotebookNode) -> bool:
        return bool(re.search(r"^\s*assert\b|assert_same|check_", cell.source, re.M))

    def is_fold(cell: NotebookNode) -> bool:
        return bool({"proof", "listing"} & set(tags(cell)))

    return [
        f"{name}: tagged {IGNORE}, but asserts nothing"
        for i, (name, cell) in enumerate(cells)
        if IGNORE in tags(cell) and not asserts(cell)
        if not any(is_fold(near) and asserts(near) for _, near in cells[max(i - 1, 0) : i + 2])
    ]


@guard
def cells_are_short(notebook: NotebookNode) -> list[str]:
    """A cell does one thing: the median cell has at most ten lines."""
    lengths = sorted(len(cell.source.splitlines()) for _, cell in code_cells(notebook))
    median = lengths[len(lengths) // 2]
    return [] if median <= 10 else [f"the median code cell has {median} lines, more than ten"]


def definitions(notebook: NotebookNode) -> dict[str, str]:
    """The functions and classes that a notebook defines, with their source."""
    found = {}
    for _, cell in code_cells(notebook):
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = ast.unparse(node)
    return found
