"""Cuts the fonts of the published pages down to the characters that the pages show.

Two fonts: STIX Two Math (from the package ziamath) sets the formulas that `book_mathml` writes,
and the theme's icon fonts draw a dozen of their two thousand icons.
"""

import html
import re
from collections.abc import Iterable
from pathlib import Path

import ziamath
from fontTools import subset

MATH_FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
# A browser sets a one-letter identifier in the italic alphabet: (first, last, first in italic).
ITALICS = (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("Α", "Ω", 0x1D6E2), ("α", "ω", 0x1D6FC))


def cut_font(source: Path, target: Path, characters: Iterable[str], features: list[str]) -> None:
    """Write `source` with nothing but `characters` and the layout `features` to `target`."""
    options = subset.Options(flavor="woff2", layout_features=features, notdef_outline=True)
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(text="".join(characters))
    cutter.subset(font)
    target.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(target), options)


def math_characters(pages: Iterable[str]) -> set[str]:
    formulas = (part for page in pages for part in re.findall(r"<math.*?</math>", page, re.DOTALL))
    shown = {c for part in formulas for c in html.unescape(re.sub(r"<[^>]*>", "", part))}
    italic = {
        chr(start + ord(c) - ord(first))
        for c in shown
        for first, last, start in ITALICS
        if first <= c <= last
    }
    return shown | italic | set("ℎ√")  # h stands outside its alphabet; a root is an element


def icon_characters(pages: Iterable[str], styles: Iterable[str]) -> set[str]:
    """The icons in use: named by a class in a page, or written by its code in a style."""
    codes, used = {}, set()
    for style in styles:
        for selector, code in re.findall(r'([^{}]+)\{[^{}]*"\\([ef][0-9a-f]{3})"', style):
            names = re.findall(r"\.(fa-[a-z0-9-]+)", selector)
            codes |= dict.fromkeys(names, code)
            used |= set() if names else {code}
    for page in pages:
        used |= {codes[name] for name in re.findall(r"fa-[a-z0-9-]+", page) if name in codes}
    return {chr(int(code, 16)) for code in used}


def cut_all(app, exception) -> None:
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    pages = [path.read_text(encoding="utf-8") for path in Path(app.outdir).rglob("*.html")]
    styles = [path.read_text(encoding="utf-8") for path in static.rglob("*.css")]
    formulas = sorted(math_characters(pages))
    cut_font(MATH_FONT, static / "fonts" / "math.woff2", formulas, features=["ssty", "dtls"])
    icons = sorted(icon_characters(pages, styles))
    for path in (static / "vendor" / "fontawesome" / "webfonts").glob("*.woff2"):
        cut_font(path, path, icons, features=[])


def setup(app):
    app.connect("build-finished", cut_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
