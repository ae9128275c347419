"""Makes the index of the search page, _static/search-index.js, from the pages as they were built.

What is found is a section, an exercise, an entry of the glossary or of the library's page, or a
reference. The text of each is its prose: no code, no outputs, no navigation. The glossary and the
index say which section explains a word, and book/aliases.yml what else readers call it. The script
search.js reads all this and ranks it.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import yaml
from sphinx.errors import ExtensionError

from build.source.latex import plain

ALIASES = "book/aliases.yml"
GLOSSARY, INDEX = "book/glossary", "book/genindex"
CHAPTER = re.compile(r"book/\d")
ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
CODE = re.compile(r"<(pre|script|style|svg)\b.*?</\1>", re.DOTALL)  # most of a page, and no prose
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
ASIDE = {
    *("cell", "highlight", "math-block", "book-widget", "solution", "hint", "headerlink"),
    *("predict", "recall", "missed", "ask-label", "ask-right"),
    *("toctree-wrapper", "index-letters", "library-links", "library-signature", "sidebar-title"),
    *("chapter-map", "check", "checked", "set-up-link"),
}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


@dataclass
class Paragraph:
    """Its text, the part of it outside links, where the links lead, and in how many lists it is.

    A row of a table is one too.
    """

    depth: int
    row: bool
    text: str = ""
    own: str = ""
    links: list[str] = field(default_factory=list)


@dataclass
class Entry:
    """What a search can find on a page: an anchor, a title (or none), and prose."""

    anchor: str
    title: str = ""
    paragraphs: list[Paragraph] = field(default_factory=list)


class PageReader(HTMLParser):
    """Reads the article of a page: `entries` has what a search can find there, in its order."""

    def __init__(self, page: str):
        super().__init__()
        self.entries: list[Entry] = []
        self.open: list[tuple[str, str]] = []  # of each open element its name, and what it is to us
        # Of each open section, exercise or list of terms, the entry that its text belongs to.
        self.rooms = [Entry("")]
        self.anchor = ""  # of the section whose heading comes next
        self.hidden = 0  # how many elements are open when one begins that is left out
        self.paragraph: Paragraph | None = None
        article = ARTICLE.search(page)
        self.feed(CODE.sub("", article.group()) if article else "")
        self.close()

    def begin(self, anchor: str) -> None:
        """From here on, text belongs to a new entry, until the room ends."""
        self.rooms[-1] = Entry(anchor)
        self.entries.append(self.rooms[-1])

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        values = {name: value or "" for name, value in attributes}
        self.open.append((tag, "" if self.hidden else self.role(tag, values)))
        if self.open[-1][1] == "aside":
            self.hidden = len(self.open)

    def role(self, tag: str, values: dict[str, str]) -> str:
        """Enter an element: what it is to us. Text within an "aside" is left out."""
        classes, anchor = set(values.get("class", "").split()), values.get("id", "")
        if tag == "math" and values.get("display") != "block":
            self.handle_data(plain(values.get("alttext", "")))
        if tag in ("math", "nav", "button") or "hidden" in values or classes & ASIDE:
            return "aside"
        if tag in ("section", "dl"):
            self.rooms.append(self.rooms[-1])
            self.anchor = anchor
            return "room"
        if anchor and classes & {"exercise", "citation"}:
            self.rooms.append(self.rooms[-1])
            self.begin(anchor)
            return "room"
        if tag in HEADINGS or (tag == "dt" and anchor):
            self.begin(anchor if tag == "dt" else self.anchor)
            return "title"
        if "admonition-title" in classes:
            return "aside" if self.rooms[-1].title else "title"
        if tag in ("p", "tr") and not self.paragraph:
            depth = sum(name in ("ul", "ol") for name, _ in self.open)
            self.paragraph = Paragraph(depth, row=tag == "tr")
            self.rooms[-1].paragraphs.append(self.paragraph)
            return "paragraph"
        if tag == "a" and self.paragraph:
            self.paragraph.links.append(values.get("href", ""))
            return "link"
        if tag in ("td", "th") and self.paragraph and self.paragraph.text.strip():
            self.paragraph.text += " · "
        return ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in (name for name, _ in self.open):
            return
        name = ""
        while name != tag:
            if len(self.open) == self.hidden:
                self.hidden = 0
            name, role = self.open.pop()
            if role == "room":
                self.rooms.pop()
            elif role == "paragraph":
                self.paragraph = None

    def handle_data(self, data: str) -> None:
        roles = {role for _, role in self.open}
        if self.hidden:
            return
        if "title" in roles:
            self.rooms[-1].title += data
        elif self.paragraph:
            self.paragraph.text += data
            self.paragraph.own += "" if "link" in roles else data


def squeeze(text: str) -> str:
    return " ".join(text.split())


def read_page(page: str) -> list[Entry]:
    """The entries of a built page; what says nothing is left out."""
    entries = PageReader(page).entries
    for entry in entries:
        entry.title = squeeze(entry.title)
        for paragraph in entry.paragraphs:
            paragraph.text, paragraph.own = squeeze(paragraph.text), squeeze(paragraph.own)
        entry.paragraphs = [one for one in entry.paragraphs if one.text]
    return [entry for entry in entries if entry.title or entry.paragraphs]


def glossary_terms(entries: list[Entry]) -> Iterable[tuple[str, list[str]]]:
    """Each word of the glossary, and the links of its entry."""
    for entry in entries:
        if links := [link for paragraph in entry.paragraphs for link in paragraph.links]:
            yield entry.title, links


def index_terms(entries: list[Entry]) -> Iterable[tuple[str, list[str]]]:
    """Each word of the index, a narrower one behind its word, and where it leads."""
    word = ""
    for paragraph in (one for entry in entries for one in entry.paragraphs):
        own = paragraph.own.strip(" ,")
        word = own if paragraph.depth == 1 else word
        if paragraph.depth and paragraph.links:
            yield (word if paragraph.depth == 1 else f"{word} {own}"), paragraph.links


def collect_terms(
    found: Iterable[tuple[str, list[str]]], places: dict[str, int], aliases: dict[str, list[str]]
) -> list[tuple[list[str], list[int]]]:
    """For each term its names, and the numbers of the sections that explain it, the best first.

    Args: found, terms and addresses; places, the number of each address; aliases, other names by
    term. Errors: ExtensionError if a term of `aliases` is not among those found.
    """
    terms: dict[str, tuple[list[str], list[int]]] = {}
    for name, links in found:
        numbers = terms.setdefault(name.lower(), ([name], []))[1]
        numbers += [places[link] for link in links if places.get(link) not in (None, *numbers)]
    if unknown := sorted(term for term in aliases if term.lower() not in terms):
        raise ExtensionError(
            f"{ALIASES}: expected words of the glossary or of the index, got {unknown}"
        )
    for term, others in aliases.items():
        terms[term.lower()][0].extend(others)
    return [(names, numbers) for names, numbers in terms.values() if numbers]


def make_index(pages: dict[str, str], aliases: dict[str, list[str]]) -> dict[str, list]:
    """All that the search page knows, ready for JSON.

    Args: pages, the HTML of each page by its name; aliases, other names of words, by word.
    Returns: pages (address, title, whether it is a chapter), sections (number of the page, anchor,
    title, paragraphs, rows of tables), terms (names, numbers of sections).
    """
    read = {page: read_page(text) for page, text in pages.items()}
    table: list[tuple[str, str, int]] = []
    sections: list[tuple[int, str, str, str, str]] = []
    places: dict[str, int] = {}
    for page, entries in read.items():
        if not entries or page == INDEX:
            continue
        address = f"{page}.html"
        for entry in entries:
            places[f"{address}#{entry.anchor}"] = len(sections)
            lines = {
                row: "\n".join(
                    one.own if page == GLOSSARY else one.text  # there the links say "Chapter 6"
                    for one in entry.paragraphs
                    if one.row == row
                )
                for row in (False, True)
            }
            sections.append((len(table), entry.anchor, entry.title, lines[False], lines[True]))
        table.append((address, entries[0].title, int(bool(CHAPTER.match(page)))))
    found = [
        (name, [urljoin(f"{page}.html", link) for link in links])
        for page, reader in ((GLOSSARY, glossary_terms), (INDEX, index_terms))
        for name, links in reader(read.get(page, []))
    ]
    return {
        "pages": table,
        "sections": sections,
        "terms": collect_terms(found, places, aliases),
    }


def write_index(out: Path, pages: Iterable[str], source: Path) -> None:
    """Write the index of the built `pages` in the folder `out`; `source` is the book's root."""
    texts = {page: (out / f"{page}.html").read_text(encoding="utf-8") for page in sorted(pages)}
    aliases = yaml.safe_load((source / ALIASES).read_text(encoding="utf-8"))
    index = json.dumps(make_index(texts, aliases), ensure_ascii=False, separators=(",", ":"))
    script = f"window.bookIndex = {index};\n"
    (out / "_static" / "search-index.js").write_text(script, encoding="utf-8")


def on_builder(app) -> None:
    """Our page takes the place of Sphinx's own search, whose index is not made."""
    app.builder.search = False
