"""Bind the built book into one EPUB, with its contents: `make epub`.

    python scripts/make_epub.py [HTML_FOLDER] [EPUB_FILE]

Each page becomes a chapter: its text, formulas as MathML, listings, outputs and figures. A widget
needs a browser, so its table stands in its place with a link to the published page. Links within
the book stay within it. An EPUB that stands beside the pages is then linked from them.
Needs: the built book (`make book`).
"""

import mimetypes
import re
import sys
import uuid
import zipfile
from datetime import UTC, datetime
from functools import partial
from html import escape
from itertools import count
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import yaml
from lxml import etree, html

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book"))
from build.pages.pages import (  # noqa: E402
    EPUB,
    download_sizes,
    link_downloads,
    rewrite,
)
from build.source.rooms import read_contents  # noqa: E402
from drawing.style import standalone  # noqa: E402

XHTML, MATHML, SVG = (
    "http://www.w3.org/1999/xhtml",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/2000/svg",
)
OPF_TYPE = "application/oebps-package+xml"
# What only a screen with scripts has a use for.
LEFT_OUT = (
    "//script|//noscript|//button|//input|//link|//style[not(ancestor::*[local-name()='svg'])]"
    "|//a[contains(@class, 'headerlink')]|//*[contains(@class, 'toctree-wrapper')]"
    "|//*[contains(@class, 'ask review') or contains(@class, 'review-missed')]"
    "|//*[contains(@class, 'set-up')]"
)
# Attributes of a page in a browser, and old ones, that an EPUB may not have.
STRANGE = re.compile(r"data-.*|loading|decoding|on\w+|align|valign|border|name|tabindex|download")


class Page:
    """A page of the built book on its way into the EPUB."""

    def __init__(self, folder: Path, name: str, address: str):
        self.name, self.address = name, urljoin(address, f"{name}.html")
        self.file = name.replace("/", "-") + ".xhtml"
        tree = html.document_fromstring((folder / f"{name}.html").read_text(encoding="utf-8"))
        (self.section,) = tree.xpath("//article[contains(@class, 'bd-article')]/section")
        for node in self.section.xpath(LEFT_OUT):
            node.drop_tree()
        heading = self.section.find("h1")
        self.title = " ".join(heading.text_content().split())

    def properties(self) -> str:
        """What the contents of the EPUB must say of this page."""
        found = {node.tag for node in self.section.iter() if isinstance(node.tag, str)}
        return " ".join(name for name, tag in (("mathml", "math"), ("svg", "svg")) if tag in found)


def settle_widgets(page: Page) -> None:
    """Leave each widget its table, and say where it lives."""
    for widget in page.section.xpath(".//*[contains(@class, 'book-widget-static')]/.."):
        note = html.fragment_fromstring(
            f'<p class="live">Live on the page: <a href="{escape(page.address)}">'
            f"{escape(page.title)}</a></p>"
        )
        widget.append(note)


def settle_folds(page: Page) -> None:
    """Leave of each test or listing at a page's end the line that says what it shows."""
    for fold in page.section.xpath(".//details[contains(@class, 'ask fold')]"):
        summary = fold.find("summary")
        summary.tag = "p"
        fold[:] = [summary]
        fold.tag = "div"


def settle_links(page: Page, pages: dict[str, Page]) -> None:
    """Lead links to pages of the book into the EPUB, and all others to the published book."""
    files = {other.address: other.file for other in pages.values()}
    for link in page.section.xpath(".//a[@href]"):
        whole, _, anchor = urljoin(page.address, link.get("href")).partition("#")
        inside = files.get(whole)
        link.set("href", (inside or whole) + (f"#{anchor}" if anchor else ""))


def settle_pictures(page: Page, folder: Path, pictures: dict[Path, str]) -> None:
    """Give each picture its place in the EPUB.

    Errors: SystemExit for one that is not in the built book.
    """
    for image in page.section.xpath(".//img[@src]"):
        path = (folder / page.name).parent / urlsplit(image.get("src")).path
        path = path.resolve()
        if not path.exists():
            sys.exit(f"expected the pictures of {page.name}, but {image.get('src')} is missing")
        image.set("src", pictures.setdefault(path, f"picture-{len(pictures) + 1}{path.suffix}"))


def settle_form(page: Page) -> None:
    """Make the section what XHTML allows: known attributes, identifiers once, plain summaries."""
    for summary in page.section.iter("summary"):
        text = next((" ".join(p.text_content().split()) for p in summary.iter("p")), None)
        if text is not None:  # of "Show" and "Hide", the first
            summary[:] = []
            summary.text = text
    for entry in page.section.xpath(".//*[@role='doc-biblioentry']"):
        del entry.attrib["role"]
    seen: set[str] = set()
    for node in page.section.iter():
        if not isinstance(node.tag, str):
            node.drop_tree()
            continue
        drawn = any(above.tag in ("svg", "math") for above in (node, *node.iterancestors()))
        for name in list(node.attrib):
            is_strange = not drawn and STRANGE.fullmatch(name)
            if is_strange or (name == "id" and node.get("id") in seen) or ":" in name:
                del node.attrib[name]
        seen.add(node.get("id", ""))


def written(page: Page) -> str:
    """The page as XHTML."""
    for tag, space in (("math", MATHML), ("svg", SVG)):
        for node in page.section.iter(tag):
            node.set("xmlns", space)
            if "viewbox" in node.attrib:  # HTML knows no capitals here, XML does
                node.set("viewBox", node.attrib.pop("viewbox"))
    text = etree.tostring(page.section, method="xml", encoding="unicode")
    return document(page.title, text)


def drawn(path: Path) -> bytes:
    """The picture; in a drawing each identifier once, as two equal pictures in it have one."""
    if path.suffix != ".svg":
        return path.read_bytes()
    tree, seen = etree.parse(path), set()
    for node in tree.iter():
        name = node.get("id")
        if name in seen:
            del node.attrib["id"]
        elif name:
            seen.add(name)
    return etree.tostring(tree)


def document(title: str, body: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n<html xmlns="{XHTML}" '
        'xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en"><head>'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="epub.css"/></head>'
        f"<body>{body}</body></html>\n"
    )


def contents(parts: list[tuple[str, list[str]]], pages: dict[str, Page]) -> str:
    """The table of contents."""
    items = []
    for caption, names in parts:
        inner = "".join(
            f'<li><a href="{pages[name].file}">{escape(pages[name].title)}</a></li>'
            for name in names
        )
        items.append(
            f"<li><span>{escape(caption)}</span><ol>{inner}</ol></li>" if caption else inner
        )
    nav = f'<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>{"".join(items)}</ol></nav>'
    return document("Contents", nav)


def package(settings: dict, pages: dict[str, Page], pictures: dict[Path, str]) -> str:
    """What the EPUB holds, in which order, and what it says of itself."""
    address = settings["html"]["baseurl"]
    numbers = count(1)
    entries: tuple[tuple[str, str, str], ...] = (
        *((page.file, "application/xhtml+xml", page.properties()) for page in pages.values()),
        *((file, mimetypes.guess_type(file)[0] or "", "") for file in pictures.values()),
    )
    items = "".join(
        f'<item id="i{next(numbers)}" href="{file}" media-type="{kind}"'
        + (f' properties="{properties}"' if properties else "")
        + "/>"
        for file, kind, properties in entries
    )
    spine = "".join(f'<itemref idref="i{number}"/>' for number in range(1, len(pages) + 1))
    said = {
        "title": settings["title"],
        "creator": settings["author"],
        "language": "en",
        "rights": "Text and figures: CC BY 4.0. Code: MIT.",
        "source": address,
    }
    identifier = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, address)}"
    metadata = f'<dc:identifier id="book">{identifier}</dc:identifier>'
    metadata += "".join(f"<dc:{name}>{escape(text)}</dc:{name}>" for name, text in said.items())
    facts = {
        "dcterms:modified": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "schema:accessMode": "textual",
        "schema:accessModeSufficient": "textual",
        "schema:accessibilityFeature": "alternativeText",
        "schema:accessibilityHazard": "none",
        "schema:accessibilitySummary": "Figures have alternative texts, formulas are MathML, and "
        "a table stands in the place of each interactive widget.",
    }
    metadata += "".join(f'<meta property="{k}">{escape(v)}</meta>' for k, v in facts.items())
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<package xmlns="http://www.idpf.org/2007/opf" '
        'version="3.0" unique-identifier="book" xml:lang="en">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">{metadata}</metadata>'
        '<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" '
        'properties="nav"/><item id="css" href="epub.css" media-type="text/css"/>'
        f"{items}</manifest><spine>{spine}</spine></package>\n"
    )


CONTAINER = (
    '<?xml version="1.0"?>\n<container version="1.0" '
    'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    f'<rootfile full-path="book/book.opf" media-type="{OPF_TYPE}"/></rootfiles></container>\n'
)


def main(folder: Path, target: Path) -> None:
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    parts = read_contents(ROOT)
    names = [name for _, group in parts for name in group]
    missing = [name for name in names if not (folder / f"{name}.html").exists()]
    if missing:
        sys.exit(f"expected the built book, but {missing[0]}.html is missing: run make book first")
    pages = {name: Page(folder, name, settings["html"]["baseurl"]) for name in names}
    pictures: dict[Path, str] = {}
    for page in pages.values():
        settle_widgets(page)
        settle_folds(page)
        settle_links(page, pages)
        settle_pictures(page, folder, pictures)
        settle_form(page)
    files = {
        "META-INF/container.xml": CONTAINER,
        "book/book.opf": package(settings, pages, pictures),
        "book/nav.xhtml": contents(parts, pages),
        "book/epub.css": (ROOT / "scripts" / "epub.css").read_text(encoding="utf-8") + standalone(),
        **{f"book/{page.file}": written(page) for page in pages.values()},
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)  # the first, plain
        for name, text in files.items():
            archive.writestr(name, text)
        for path, name in pictures.items():
            archive.writestr(f"book/{name}", drawn(path))
    print(f"{target}: {len(pages)} pages, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:3]]
    built = given[0] if given else ROOT / "_build" / "html"
    main(built, given[1] if len(given) > 1 else built / EPUB)
    rewrite(built, [partial(link_downloads, sizes=download_sizes(built))])
