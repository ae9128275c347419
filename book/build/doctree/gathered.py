"""Gathers at a page's end what is no running text: tests, listings, and what the code needs first.

A cell tagged `proof` shows that the sentence before it holds. On the page a small mark stands at
the end of that sentence's paragraph, or where the role {check}`label` stands if the cell's metadata
has `"check": "label"`; the cell is an entry of "Checked in this chapter", the last section, with a
way back. A cell tagged `listing` that shows a part of the library becomes a mark that leads to its
listing on the page of the library; any other is an entry under "Listings". The cells of the set-up
stand below them, and a line above the first open cell leads there.

`static/checks.js` opens a test below its paragraph. Without scripts, on paper and in the EPUB a
mark leads to its entry. The notebooks keep their cells where they are.
"""

import ast
import functools
import itertools
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxRole
from sphinx_exercise.nodes import exercise_node, solution_node

from build.directives import library
from build.directives.questions import ask, ask_line, folded, line, part, place
from build.doctree.evidence import evidence
from build.doctree.folds import MARKS, fold_of, spoken, words
from build.doctree.outputs import is_cell

PAGE = "book/library"
SECTION, SETUP = "checked-in-this-chapter", "set-up"
TITLE = "Checked in this chapter"
TOLD = (
    "Each mark in the text stands for a test that ran when this chapter was made. "
    "These are the tests, in the order of the text."
)
LISTED = "Listings"
NEEDED = "What this chapter’s code needs first"
NEEDED_LINK = "imports and set-up"
SET_UP = "hide-input"
UNSHOWN = {SET_UP, "remove-input", "remove-cell", "hide-cell"}
# What is passed on the way back to the text that a cell proves.
PASSED = (nodes.Invisible, nodes.sidebar)
HOLDERS = (nodes.Admonition, exercise_node, solution_node, nodes.block_quote, evidence)


class check_mark(nodes.General, nodes.Inline, nodes.Element):
    """The mark of an entry: `anchor`, where it leads, and `said`, its name; it has no text."""


class check_place(nodes.Inline, nodes.Element):
    """Where the role {check} wants the mark of the cell with this `label`."""


class Check(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        node = check_place(label=self.text)
        self.set_source_info(node)
        return [node], []


def tags(cell: nodes.container) -> list[str]:
    return cell["cell_metadata"].get("tags", []) if "cell_metadata" in cell else []


@functools.cache
def public_names(book: Path) -> frozenset[str]:
    """The names that the page of the library lists, as "masks.fit_mask"."""
    return frozenset(
        f"{path.stem}.{node.name}"
        for path in library.sources(book)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    )


# --- where a mark stands ------------------------------------------------------------------------


def is_folded(node: nodes.Node) -> bool:
    return is_cell(node) and bool({*MARKS} & {*tags(node)})


def last_text(node: nodes.Node) -> nodes.Element | None:
    """The text that ends a part of the page; a new paragraph behind what ends in none.

    None if the part is passed on the way back.
    """
    if isinstance(node, PASSED):
        return None
    if is_cell(node):
        captions = list(node.findall(nodes.caption))
        return captions[-1] if captions else None
    if isinstance(node, ask) and node.get("asks") == "predict":
        return None
    if isinstance(node, nodes.paragraph):
        return node
    if isinstance(node, nodes.figure):
        captions = [child for child in node.children if isinstance(child, nodes.caption)]
        return captions[-1] if captions else behind(node)
    lists = (nodes.bullet_list, nodes.enumerated_list, nodes.list_item)
    if isinstance(node, (*lists, *HOLDERS, ask, nodes.section)) and len(node):
        inner = node.children[-1]
        if isinstance(inner, nodes.Element) and not isinstance(inner, nodes.title):
            return last_text(inner) or behind(inner)
    return behind(node)


def behind(node: nodes.Node) -> nodes.paragraph:
    """A new paragraph behind a part of the page, for marks alone."""
    paragraph = nodes.paragraph(classes=["checks"])
    node.parent.insert(node.parent.index(node) + 1, paragraph)
    return paragraph


def text_before(cell: nodes.Node) -> nodes.Element:
    """The text that a cell proves: before it, else behind it, else a paragraph in its place.

    Between a cell and what was to be seen in it (`{seen}`), that is what it proves.
    """
    siblings = cell.parent.children
    at = siblings.index(cell)
    before, after = (
        siblings[max(at - 1, 0)],
        [n for n in siblings[at + 1 :] if not is_folded(n)][:1],
    )
    if is_cell(before) and after and isinstance(after[0], ask) and after[0].get("asks") == "seen":
        return last_text(after[0]) or behind(cell)
    for node in reversed(siblings[:at]):
        if isinstance(node, nodes.title | nodes.section):
            break
        if (found := last_text(node)) is not None:
            return found
    if isinstance(cell.parent, evidence):
        for node in siblings[at + 1 :]:
            if isinstance(node, ask) and (found := last_text(node)) is not None:
                return found
    return behind(cell)


# --- the marks and the entries ------------------------------------------------------------------


class Gather(SphinxTransform):
    """Moves the cells of a page, and leaves marks in the text."""

    default_priority = 841

    def apply(self, **kwargs) -> None:
        if self.config.root_doc == self.env.docname:
            return
        self.places = {node["label"]: node for node in self.document.findall(check_place)}
        cells = [node for node in self.document.findall(nodes.container) if is_code(node)]
        opening = self.set_up(cells)
        tests: list[nodes.Node] = []
        listings: list[nodes.Node] = []
        for cell in cells:
            try:
                fold = fold_of(tags(cell), cell["cell_metadata"])
                summary = words(fold[2]) if fold else []
            except ValueError as error:
                raise ExtensionError(f"{place(cell)}: {error}") from error
            if not fold:
                continue
            if fold[0] == "proof":
                tests.append(self.entry(cell, summary, "check", len(tests) + 1))
            elif not self.linked(cell, summary):
                listings.append(self.entry(cell, summary, "shown", len(listings) + 1))
        if self.places:
            node = next(iter(self.places.values()))
            raise ExtensionError(
                f"{place(node)}: expected a proof with the metadata "
                f'{{"check": "{node["label"]}"}} on this page'
            )
        if opening:
            self.lead_to_set_up()
        for note in list(self.document.findall(nodes.sidebar)):
            put_beside_text(note)
        self.gather(tests, listings, opening)

    def text_of(self, cell: nodes.Node) -> nodes.Element:
        """Where the marks of a cell go: to the place of a role, else to the text before it."""
        wanted = self.places.pop(cell["cell_metadata"].get("check"), None)
        if wanted is None:
            return text_before(cell)
        here = nodes.inline(classes=["check-here"])
        wanted.parent.replace(wanted, here)
        return here

    def entry(self, cell: nodes.Node, summary: list[nodes.Node], kind: str, number: int) -> ask:
        """Take a cell from the text to an entry, and leave its mark."""
        anchor, named = f"{kind}-{number}", {"check": "Check", "shown": "Listing"}[kind]
        mark = check_mark(
            anchor=anchor, kind=kind, number=number, said=f"{named} {number}: {spoken(summary)}"
        )
        text = self.text_of(cell)
        text += mark
        cell.parent.remove(cell)
        back = nodes.reference("", "", nodes.Text("↑"), refid=f"{anchor}-mark", internal=True)
        way = named_link(back, f"Back to the text of {named.lower()} {number}")
        fold = folded("fold", summary, [cell])
        item = part("li", fold, way, classes=("check-entry",))
        item["ids"] = [anchor]
        return item

    def linked(self, cell: nodes.Node, summary: list[nodes.Node]) -> bool:
        """Leave in the place of a listing the ways to the library, if it shows nothing else."""
        source = cell.next_node(nodes.literal_block)
        shown = library.SHOWN.findall(source.astext()) if source else []
        if not shown or PAGE not in self.env.found_docs:
            return False
        path = Path(self.env.doc2path(self.env.docname))
        names = library.shown_names(source.astext(), library.imported_names(path))
        if len(names) < len(shown) or not {*names.values()} <= public_names(path.parent):
            return False
        text = self.text_of(cell)
        for thing, full in names.items():
            said = f"Listing of {thing}, in the library"
            text += check_mark(anchor=full, kind="library", said=said, ids=[library.anchor(thing)])
        cell.parent.remove(cell)
        return True

    def set_up(self, cells: list[nodes.Node]) -> list[nodes.Node]:
        """Take the cells out that are the set-up, the first ones; their fold."""
        first = list(itertools.takewhile(lambda cell: SET_UP in tags(cell), cells))
        for cell in first:
            cell.parent.remove(cell)
            cell["hide_mode"] = None  # one fold is enough
        fold = folded("fold", [nodes.Text(NEEDED)], first)
        fold["classes"].append("set-up")
        fold["ids"] = [SETUP]
        return [fold] if first else []

    def lead_to_set_up(self) -> None:
        """Put a line that leads there above the first open cell."""
        for cell in filter(is_code, self.document.findall(nodes.container)):
            if not {*tags(cell)} & UNSHOWN and not isinstance(cell.parent, evidence):
                way = nodes.reference("", NEEDED_LINK, refid=SETUP, internal=True)
                link = line("p", way, classes=("set-up-link",))
                cell.parent.insert(cell.parent.index(cell), link)
                break

    def gather(self, tests: list, listings: list, opening: list) -> None:
        """Put the entries into the last section of the page."""
        top = self.document.next_node(nodes.section)
        if top is None or not (tests or listings or opening):
            return
        if not (tests or listings):
            top += part("div", *opening, classes=("checked",))
            return
        section = nodes.section("", nodes.title("", TITLE), ids=[SECTION], classes=["checked"])
        if tests:
            section += nodes.paragraph("", TOLD)
            section += part("ol", *tests)
        if listings:
            section += line("p", nodes.Text(LISTED), classes=("ask-label",))
            section += part("ol", *listings)
        section += opening
        top += section


def is_code(node: nodes.Node) -> bool:
    return node.get("nb_element") == "cell_code"


def put_beside_text(note: nodes.sidebar) -> None:
    """Put a margin note that nothing follows any more beside the paragraph before it."""
    siblings = note.parent.children
    at = siblings.index(note)
    after = [node for node in siblings[at + 1 :] if not isinstance(node, nodes.Invisible)]
    before = [i for i in range(at) if isinstance(siblings[i], nodes.paragraph)]
    if before and (not after or isinstance(after[0], nodes.section)):
        note.parent.remove(note)
        note.parent.insert(before[-1], note)


def named_link(link: nodes.reference, name: str) -> ask_line:
    """A link of one sign, with the name that a screen reader reads."""
    sign = line("span", *link.children, aria_hidden="true")
    link.children = []
    link += [sign, line("span", nodes.Text(name), classes=("visually-hidden",))]
    return line("p", link, classes=("check-back",))


def visit(translator, node: check_mark) -> None:
    kind, said = node["kind"], escape(node["said"], quote=True)
    if kind == "library":
        page = translator.builder.get_relative_uri(translator.builder.current_docname, PAGE)
        address, sign = f"{page}#{node['anchor']}", ""
        name = node["ids"][0]
    else:
        address, sign = f"#{node['anchor']}", str(node["number"])
        name = f"{node['anchor']}-mark"
    translator.body.append(
        f'&#160;<a class="check {kind}" id="{name}" href="{escape(address)}" '
        f'title="{said}" aria-label="{said}"><span>{sign}</span></a>'
    )
    raise nodes.SkipNode


def setup(app) -> None:
    app.add_node(check_mark, html=(visit, None))
    app.add_role("check", Check())
    app.add_transform(Gather)
