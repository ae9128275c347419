"""Folds the tests and the listings of a chapter to one line, which says what they show.

A code cell with the tag `proof` or `listing` has that line in its metadata, where myst-nb looks for
a cell's prompt: `{"mystnb": {"code_prompt_show": "Tested: equal to the loop, within 1e-10."}}`. The
page shows the line, and a click opens the whole cell with its output; on paper and in the EPUB the
line stands alone. To a notebook program it is a cell like any other.
"""

import re

from docutils import nodes
from sphinx.errors import ExtensionError

from build.directives.questions import folded, line, place
from build.source.myst import PARSER

MARKS = {"proof": "Tested", "listing": "Listing"}


def fold_of(tags: list[str], metadata: dict) -> tuple[str, str, str] | None:
    """Which fold a cell has, its mark, and the line without the mark; None for an open cell.

    Errors: ValueError for a fold without its line.
    """
    kinds = [kind for kind in MARKS if kind in tags]
    if not kinds:
        return None
    kind, mark = kinds[0], MARKS[kinds[0]]
    said = metadata.get("mystnb", {}).get("code_prompt_show", "")
    text = re.sub(rf"^{mark}\b[:.]?\s*", "", said).strip()
    if not text:
        raise ValueError(
            f"a cell tagged {kind!r} needs its one visible line in its metadata: "
            f'{{"mystnb": {{"code_prompt_show": "{mark}: ..."}}}}'
        )
    return kind, mark, text


def words(text: str) -> list[nodes.Node]:
    """A line of Markdown as nodes. Errors: ValueError for more than code, formulas and stress."""
    made = {"code_inline": nodes.literal, "math_inline": nodes.math, "text": nodes.Text}
    found: list[nodes.Node] = []
    for token in PARSER.parseInline(text)[0].children or ():
        if token.type not in made:
            raise ValueError(f"expected text, code and formulas in {text!r}, got {token.type}")
        node = made[token.type]
        is_text = node is nodes.Text
        found.append(node(token.content) if is_text else node("", token.content))
    return found


def on_read(app, doctree: nodes.document) -> None:
    """Fold the cells of a page. Errors: ExtensionError, which names the cell."""
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code":
            continue
        metadata = cell["cell_metadata"]
        try:
            fold = fold_of(metadata.get("tags", []), metadata)
            summary = words(fold[2]) if fold else []
        except ValueError as error:
            raise ExtensionError(f"{place(cell)}: {error}") from error
        if fold:
            mark = line("span", nodes.Text(fold[1]), classes=("ask-label",))
            inside, cell.children = cell.children, []
            cell += folded("fold", [mark, nodes.Text(" "), *summary], inside)
