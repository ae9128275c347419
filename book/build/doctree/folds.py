"""What a folded cell says: a test (`proof`) or a listing, by the one line in its metadata.

The line stands where myst-nb looks for a cell's prompt:
`{"mystnb": {"code_prompt_show": "Equal to the loop, within 1e-10."}}`. It may begin with the name
of its kind, "Tested:" or "Listing:", which is not shown. `gathered` says what becomes of it on a
page.
"""

import re

from docutils import nodes

from build.source.latex import plain
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
    text = re.sub(rf"^{mark}\b[:.,]?\s*", "", said).strip()
    if not text:
        raise ValueError(
            f"a cell tagged {kind!r} needs its one visible line in its metadata: "
            f'{{"mystnb": {{"code_prompt_show": "{mark}: ..."}}}}'
        )
    return kind, mark, text[0].upper() + text[1:]


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


def spoken(summary: list[nodes.Node]) -> str:
    """A line as a screen reader is to read it."""
    return "".join(
        plain(node.astext()) if isinstance(node, nodes.math) else node.astext() for node in summary
    ).rstrip(".")
