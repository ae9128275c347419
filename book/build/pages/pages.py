"""What is done to the text of each built page: figures keep their place, a page loads what it uses.

Each function takes a page's text and returns it changed; what it needs besides is an argument. A
page may pass twice. `rewrite` applies them: it reads each page once, and writes it once if it
changed. The notebooks, and the figures in them, stay as they are.
"""

import re
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path

IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^"]*)"[^>]*>')
FIRST_PART = re.compile(r"<h2\b")  # what stands above it may be seen at once

SCRIPT = re.compile(r'[ \t]*<script\b([^>]*?)\bsrc="([^"]*)"([^>]*)></script>\n?')
SHEET = re.compile(r'[ \t]*<link\b[^>]*\bhref="([^"]*\.css[^"]*)"[^>]*>\n?')
BOOTSTRAP = "bootstrap.js"
# What a page must hold for a file to be of use on it.
NEEDED = {
    **dict.fromkeys(
        # Sphinx's own search, whose place the page of search.py takes.
        ("searchtools.js", "language_data.js", "searchindex.js", "sphinx_highlight.js"),
        r"(?!)",
    ),
    "fontawesome.js": r"(?!)",  # an empty stand-in: the icons come from a font
    BOOTSTRAP: r"(?!)",  # page.js loads it: see `load_later`
    "sphinx-design.min.css": r'class="(?:[^"]* )?sd-',
    "design-tabs.js": r'class="(?:[^"]* )?sd-tab',
    "clipboard.min.js": r'class="highlight',
    "copybutton.js": r'class="highlight',
    "copybutton.css": r'class="highlight',
    "checks.js": r'<a class="check ',
    "figures.js": r'<a class="figure"',
    "questions.css": r'class="ask ',
    "questions.js": r'class="ask (?:predict|outcome|recall|review)',
    "schematics.css": r'<svg class="sch',
    "exercise.css": r'class="(?:[^"]* )?(?:exercise|solution)',
    "mystnb.css": r'class="(?:[^"]* )?cell[ _"]',
    **dict.fromkeys(
        ("togglebutton.css", "togglebutton.js"),
        r'class="(?:(?=[^"]*\badmonition\b)[^"]*\bdropdown\b|(?:[^"]* )?toggle[ "])',
    ),
}
# Until a script says which theme it is, it is the light one: without scripts there were no colours.
PLAIN = re.compile(r'(<html\b[^>]*\bdata-theme=)"auto"')
PRELOAD = re.compile(r'[ \t]*<link rel="preload" as="script" href="([^"]*)" />\n?')
MENUS = '<meta name="menus" content="{address}">\n'
HASH = re.compile(r"\.[0-9a-f]{64}(?=\.)")
OPTIONS = "documentation_options.js"  # 0.3 kB that a script inside the page asks for at once

PDF, EPUB = (f"the-transformer-piece-by-piece.{ending}" for ending in ("pdf", "epub"))
DOWNLOADS = {"PDF": PDF, "EPUB": EPUB}
MARK, END = "<!-- downloads -->", "<!-- /downloads -->"
SITE_ROOT = re.compile(r'<html\b[^>]*\bdata-content_root="([^"]*)"')
# The theme's own button, which prints the one page that is open.
PRINT_BUTTON = re.compile(
    r'<li>\s*<button (?:onclick="window\.print\(\)"|data-action="print").*?</li>', re.DOTALL
)
OLD_LINK = re.compile(f"{MARK}.*?{END}", re.DOTALL)
ITEM = (
    '<li><a href="{address}" class="btn btn-sm btn-download-book-button dropdown-item" download>'
    '<span class="btn__icon-container"><i class="fas fa-file"></i></span>'
    '<span class="btn__text-container">{text}</span></a></li>'
)
LINK = '<a class="book-download" href="{address}" title="{told}" download>{name}</a>'


def rewrite(out: Path, steps: Iterable[Callable[[str], str]]) -> list[str]:
    """Apply `steps`, in this order, to every page in the folder `out`; return the pages' texts."""
    texts = []
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            before = path.read_text(encoding="utf-8")
            text = reduce(lambda text, step: step(text), steps, before)
            if text != before:
                path.write_text(text, encoding="utf-8")
            texts.append(text)
    return texts


def place_images(text: str, sizes: dict[str, tuple[int, int]]) -> str:
    """Give pictures their size, so that no text jumps, and load those below the first part late.

    Args: sizes, the width and height of each picture of the book, by its path in the built folder.
    Pictures of another host, or without a size of their own (SVG), keep theirs.
    """
    first = FIRST_PART.search(text)
    late = first.start() if first else len(text)

    def tag(match: re.Match) -> str:
        whole, size = match.group(), sizes.get(re.sub(r"^(\.\.?/)+", "", match.group(1)))
        added = ""
        if size and " width=" not in whole:
            added += f' width="{size[0]}" height="{size[1]}"'
        if match.start() > late and " loading=" not in whole:
            added += ' loading="lazy" decoding="async"'
        return whole.replace("<img", f"<img{added}", 1)

    return IMAGE.sub(tag, text)


def keep_used(text: str, options: str) -> str:
    """Take out files that the page does not use, and let no script hold up its text.

    The theme loads on every page what only some need, and its scripts before the first paint.
    Args: options, the text of `documentation_options.js`.
    """

    def wanted(address: str) -> bool:
        needed = NEEDED.get(file_name(address))
        return needed is None or re.search(needed, text) is not None

    def script(match: re.Match) -> str:
        before, address, after = match.groups()
        if file_name(address) == OPTIONS:
            return f"<script>{options.strip()}</script>\n"
        if not wanted(address):
            return ""
        held = re.search(r"\b(?:defer|async)\b", before + after)
        return match.group() if held else match.group().replace("<script", "<script defer", 1)

    lighter = PLAIN.sub(r'\1"light"', SCRIPT.sub(script, text), count=1)
    return SHEET.sub(lambda match: match.group() if wanted(match.group(1)) else "", lighter)


def load_later(text: str) -> str:
    """Name Bootstrap's script in the page, and load no script before its turn.

    It draws the theme's menus and tooltips, and nothing before a reader reaches for one: page.js
    loads it then.
    """

    def named(match: re.Match) -> str:
        address = match.group(1)
        return MENUS.format(address=address) if file_name(address) == BOOTSTRAP else ""

    return PRELOAD.sub(named, text)


def file_name(address: str) -> str:
    """The name of a file without its version, whether behind the name or inside it."""
    return HASH.sub("", address.split("?")[0].rsplit("/", 1)[-1])


def link_downloads(text: str, sizes: dict[str, int]) -> str:
    """Link the book in other formats, or take the links out if there are none.

    The links stand on the first page, at the mark `<!-- downloads -->`, and in each menu of
    downloads.
    Args: sizes, the bytes of each format that there is.
    """
    text = OLD_LINK.sub(lambda m: "" if m.group().startswith(f"{MARK}<li>") else MARK, text)
    if not sizes:
        return text
    root = SITE_ROOT.search(text)
    links = items = ""
    for name, size in sizes.items():
        address = f"{root.group(1) if root else ''}{DOWNLOADS[name]}"
        told = f"{name} ({size / 1e6:.0f} MB)"
        links += LINK.format(address=address, told=told, name=name)
        items += ITEM.format(address=address, text=f"The whole book as {told}")
    text = text.replace(MARK, f"{MARK}{links}{END}")
    return PRINT_BUTTON.sub(lambda m: f"{m.group()}{MARK}{items}{END}", text, count=1)


def download_sizes(out: Path) -> dict[str, int]:
    """The bytes of the formats that stand beside the pages, made by `make pdf` and `make epub`."""
    return {
        name: (out / file).stat().st_size
        for name, file in DOWNLOADS.items()
        if (out / file).exists()
    }
