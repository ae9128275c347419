"""Makes the index: the directive `{book-index}` sets the table book/index.yml as a list of links.

The table maps a word, or "word; narrower word", to the sections that explain it, each written as
chapter#title, as in `6#Nothing leaks`. Nothing of it stands in the notebooks. A section that no
chapter has stops the build.
"""

import itertools
import re
from pathlib import Path
from typing import NamedTuple

import yaml
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

TABLE = "book/index.yml"


class Place(NamedTuple):
    """A section of a chapter: the chapter's page and number, the section's title and identifier."""

    page: str
    number: int
    title: str
    section: str


class index_list(nodes.General, nodes.Element):
    """Stands for the index until every page has been read."""


def read_table(path: Path) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """For (word, narrower word or nothing), the number and the section's title of each place."""
    table = {}
    for words, places in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        word, _, narrower = (part.strip() for part in words.partition(";"))
        pairs = (place.split("#", 1) for place in places)
        table[word, narrower] = [(int(number), title) for number, title in pairs]
    return table


def sort_key(word: str) -> str:
    """Letters and digits alone: a name of the library stands among the words."""
    return re.sub(r"[^a-z0-9 ]", "", word.lower())


def sections(doctree: nodes.document) -> dict[str, str]:
    """The title of each section of a page, without marks, and its identifier."""
    found = ((s.next_node(nodes.title), s["ids"]) for s in doctree.findall(nodes.section))
    return {title.astext(): ids[0] for title, ids in found if title is not None}


def find_places(
    places: list[tuple[int, str]], pages: dict[int, str], known: dict[int, dict[str, str]]
) -> list[Place]:
    """Look up places; `pages` has each chapter's page, `known` its sections.

    Errors: ExtensionError for a chapter or a section that is not there.
    """
    found = []
    for number, title in places:
        plain = {re.sub(r"[’']", "'", name): name for name in known.get(number, {})}
        if title not in plain:
            raise ExtensionError(
                f"{TABLE}: expected a section of chapter {number}, got {title!r}; "
                f"it has {sorted(plain)}"
            )
        name = plain[title]
        found.append(Place(pages[number], number, name, known[number][name]))
    return found


def reference(place: Place, app, page: str) -> nodes.reference:
    """A link that tells the chapter's number, and the section's title too."""
    uri = f"{app.builder.get_relative_uri(page, place.page)}#{place.section}"
    number = nodes.inline(text=f"{place.number}", classes=["index-number"])
    title = re.sub(r"\\cdot ?", "· ", place.title)
    title = re.sub(r"[{}$]", "", title.replace("10^{18}", "10¹⁸")).replace("M_k", "Mₖ")
    return nodes.reference("", "", number, nodes.Text(f" {title}"), refuri=uri, internal=True)


def entry(word: str, places: list[Place], app, page: str) -> list[nodes.Node]:
    """The word, as code if it stands in backticks, and its links."""
    parts: list[nodes.Node] = []
    for piece in re.split(r"(`[^`]*`)", word):
        if piece:
            code = piece.startswith("`")
            parts.append(nodes.literal(text=piece[1:-1]) if code else nodes.Text(piece))
    for place in places:
        parts += [nodes.Text(", "), reference(place, app, page)]
    return [nodes.paragraph("", "", *parts)]


def build(app, page: str) -> list[nodes.Node]:
    """The letters as links, then a section for each: a list of words, in it the narrower ones."""
    env = app.env
    names = {int(Path(name).name[:2]): name for name in env.found_docs if name[5:7].isdigit()}
    known = {number: sections(env.get_doctree(name)) for number, name in names.items()}
    table = read_table(Path(app.srcdir, TABLE))
    order = sorted(table, key=lambda words: (sort_key(words[0]), words[0], sort_key(words[1])))
    jump, result = nodes.paragraph(classes=["index-letters"]), []
    for letter, group in itertools.groupby(order, key=lambda words: sort_key(words[0])[0].upper()):
        words = nodes.bullet_list(classes=["index-words"])
        for word, forms in itertools.groupby(group, key=lambda pair: pair[0]):
            item, narrower = nodes.list_item(), nodes.bullet_list()
            own = find_places(table.get((word, ""), []), names, known)
            item += entry(word, own, app, page)
            for _, form in forms:
                if form:
                    places = find_places(table[word, form], names, known)
                    narrower += nodes.list_item("", *entry(form, places, app, page))
            if narrower.children:
                item += narrower
            words += item
        name = f"index-{letter.lower()}"
        jump += nodes.reference(text=letter, refid=name, internal=True)
        result.append(nodes.section("", nodes.title(text=letter), words, ids=[name]))
    return [jump, *result]


class BookIndex(SphinxDirective):
    """Leaves a place for the index, which can be set only when every page has been read."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        return [index_list()]


def on_resolved(app, doctree, page) -> None:
    for place in list(doctree.findall(index_list)):
        place.replace_self(build(app, page))


def setup(app):
    app.add_node(index_list)
    app.add_directive("book-index", BookIndex)
    app.connect("doctree-resolved", on_resolved)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
