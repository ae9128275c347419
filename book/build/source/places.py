"""Where things stand in the published book and outside it, for what is read away from its pages.

A chapter that is opened as a notebook has no pages beside it. So a link leads to the published
page, a citation to the paper itself where its DOI or its number at arXiv is known.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import urljoin

import yaml
from docutils.nodes import make_id
from pybtex.database import Entry, Person, parse_file
from pybtex.richtext import Text

from build.source.myst import labels
from build.source.rooms import read_contents

BIBLIOGRAPHY, GLOSSARY = "book/bibliography", "book/glossary"


class UnknownMarkup(ValueError):
    """Something in a chapter that plain Markdown has no form for, or that leads nowhere."""


@dataclass(frozen=True)
class Place:
    """A labelled place: its page and its anchor there, and its title, if it has one."""

    page: str
    anchor: str
    title: str


@dataclass(frozen=True)
class Places:
    """The book in the folder `root`, with the settings of its `_config.yml`."""

    root: Path

    @cached_property
    def config(self) -> dict:
        return yaml.safe_load((self.root / "_config.yml").read_text(encoding="utf-8"))

    @property
    def base(self) -> str:
        return self.config["html"]["baseurl"]

    @property
    def repository(self) -> str:
        return self.config["repository"]["url"]

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The entries of the bibliography by their keys."""
        files = (self.root / name for name in self.config["bibtex_bibfiles"])
        return {key: entry for file in files for key, entry in parse_file(file).entries.items()}

    @cached_property
    def pages(self) -> list[str]:
        """The pages that stand in the contents."""
        return [name for _, names in read_contents(self.root) for name in names]

    @cached_property
    def texts(self) -> dict[str, str]:
        """The Markdown of each page."""
        return {page: markdown(self.root, page) for page in self.pages}

    @cached_property
    def labels(self) -> dict[str, Place]:
        """Each label of the book and the place that it names."""
        found = {
            name: Place(page, make_id(anchor), title)
            for page, text in self.texts.items()
            for name, (anchor, title) in labels(text).items()
        }
        for page in self.pages:
            names = (figure_of(cell).get("name") for cell in notebook_cells(self.root, page))
            found |= {name: Place(page, make_id(name), "") for name in names if name}
        return found

    def document(self, name: str, page: str) -> str:
        """The page that `name` means on a page. Errors: UnknownMarkup if there is none."""
        found = normpath(name.lstrip("/") if name[0] == "/" else PurePosixPath(page).parent / name)
        if found not in self.texts:
            raise UnknownMarkup(f"expected a page of the book, got {name!r}")
        return found

    def title(self, page: str) -> str:
        """The heading of a page. Errors: UnknownMarkup for a page without one."""
        found = re.search(r"^# +(.*)", self.texts[page], re.MULTILINE)
        if found is None:
            raise UnknownMarkup(f"expected a heading, # Title, on {page}, got none")
        return found[1]

    def address(self, page: str, anchor: str = "") -> str:
        """Where a page, or a place on it, is published."""
        return urljoin(self.base, f"{page}.html") + (f"#{anchor}" if anchor else "")

    def follow(self, link: str, page: str) -> str:
        """Where a link on a page of the book leads, as an address that holds everywhere.

        Errors: UnknownMarkup for a link to a file that is no page.
        """
        if re.match(r"[a-z]+:", link):
            return link
        path, _, anchor = link.partition("#")
        if not path and anchor in self.labels:  # a label of any page
            return self.address(self.labels[anchor].page, self.labels[anchor].anchor)
        name, _, suffix = path.rpartition(".")
        if path and suffix not in ("md", "ipynb"):
            raise UnknownMarkup(f"expected a link to a page of the book, got {link!r}")
        return self.address(self.document(name, page) if path else page, anchor)

    def place(self, label: str) -> Place:
        """What a label names. Errors: UnknownMarkup for a label that stands on no page."""
        if label not in self.labels:
            raise UnknownMarkup(f"expected a label of the book, got {label!r}")
        return self.labels[label]

    def paper(self, key: str) -> str:
        """Where a work can be read: at arXiv, by DOI, at its address, else our list of sources."""
        fields = self.entries[key].fields
        if "eprint" in fields:
            return f"https://arxiv.org/abs/{fields['eprint']}"
        if "doi" in fields:
            return f"https://doi.org/{fields['doi']}"
        return fields.get("url") or self.address(BIBLIOGRAPHY, key)

    def cite(self, keys: str, in_text: bool) -> str:
        """Citations as links: "A and B (2017)" in the text, else "(A and B, 2017; C, 2019)".

        Args: keys, separated by commas. Errors: UnknownMarkup for a key without an entry.
        """
        links = []
        for key in keys.replace(" ", "").split(","):
            if key not in self.entries:
                raise UnknownMarkup(f"expected a key of the bibliography, got {key!r}")
            entry = self.entries[key]
            names, year = authors(entry.persons["author"]), entry.fields["year"]
            text = f"{names} ({year})" if in_text else f"{names}, {year}"
            links.append(f"[{text}]({self.paper(key)})")
        return ", ".join(links) if in_text else f"({'; '.join(links)})"


def notebook_cells(root: Path, page: str) -> list[dict]:
    """The cells of a chapter; none of a page that is no notebook."""
    path = root / f"{page}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []


def figure_of(cell: dict) -> dict[str, str]:
    """What the build makes of a cell's picture: a figure with a caption and a name."""
    return cell["metadata"].get("mystnb", {}).get("figure", {})


def markdown(root: Path, page: str) -> str:
    """The text of a page, of a chapter without its code."""
    cells = notebook_cells(root, page)
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return "\n\n".join(texts) if cells else (root / f"{page}.md").read_text(encoding="utf-8")


def last_name(person: Person) -> str:
    parts = person.prelast_names + person.last_names
    return " ".join(str(Text.from_latex(part)) for part in parts)


def authors(persons: list[Person]) -> str:
    """As the book's pages name them: both of two authors, the first of more."""
    names = [last_name(person) for person in persons]
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
