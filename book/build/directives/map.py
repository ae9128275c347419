"""Puts the map of the book on the first page, and at the head of each chapter with its part lit.

The map is `drawing.book_map`; here its parts get the numbers, titles and addresses of the
chapters. On a chapter it is folded: a small picture and a line say where the chapter stands. It is
a plain `<details>`, and its parts are links: it works by keyboard, without scripts, and on paper.
"""

from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from build.directives.schematics import element
from build.source.places import Places
from build.source.rooms import PAGE, rooms
from drawing.book_map import HEIGHT, WIDTH, Chapter, small_map, translator_map

WIDEST = 500  # pixels


def chapters(root: Path) -> dict[str, Chapter]:
    """Each chapter of the contents by its name, which is its concept."""
    places = Places(root)
    return {
        room.name: Chapter(
            room.number, places.title(room.page), f"{room.notebook.stem}.html", room.words.here
        )
        for room in rooms(root)
    }


def whole_map(known: dict[str, Chapter], lit: str = "") -> str:
    """The map as an element of a page in the folder `book`."""
    drawn = translator_map(known, lit)
    return element(drawn.body(), f"0 0 {WIDTH} {HEIGHT}", drawn.alt, WIDEST, role="group")


def folded_map(known: dict[str, Chapter], lit: str) -> str:
    """The map of a chapter: a small picture and a line, which open the whole."""
    line = f"Where chapter {known[lit].number} fits: <strong>{escape(known[lit].here)}</strong>"
    summary = f"<summary>{small_map(known, lit)}<span>{line}</span></summary>"
    return f'<details class="chapter-map">{summary}{whole_map(known, lit)}</details>'


class BookMap(SphinxDirective):
    """Shows the map in full: `{book-map}`."""

    def run(self) -> list[nodes.Node]:
        text = whole_map(chapters(Path(self.env.srcdir)))
        return [nodes.raw("", f'<div class="book-map">{text}</div>', format="html")]


def on_builder(app) -> None:
    """Read once where the chapters are. A book none of whose chapters says what it is on the map
    has no map.

    Errors: ValueError if some of the chapters say so and others do not, or are not on the map.
    """
    found = chapters(Path(app.srcdir))
    silent = [name for name, chapter in found.items() if not chapter.here]
    app.env.book_chapters = {} if len(silent) == len(found) else found
    if app.env.book_chapters:
        if silent:
            raise ValueError(f"expected `here` in each chapter's words.yml, got none in {silent}")
        translator_map(app.env.book_chapters)


def on_outdated(app, env, added, changed, removed) -> list[str]:
    """The pages with the map, which a build must write again, if it is another than on them."""
    seal = [folded_map(env.book_chapters, concept) for concept in env.book_chapters]
    old, env.book_map = getattr(env, "book_map", None), seal
    mapped = (n for n in env.found_docs if n == app.config.root_doc or PAGE.fullmatch(n))
    return [] if seal == old else sorted(mapped)


def on_resolved(app, doctree: nodes.document, page: str) -> None:
    """Put the map below the title of a chapter."""
    found = PAGE.fullmatch(page)
    if found and found["name"] in app.env.book_chapters and app.builder.format == "html":
        text = folded_map(app.env.book_chapters, found["name"])
        doctree.next_node(nodes.section).insert(1, nodes.raw("", text, format="html"))
