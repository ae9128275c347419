"""Cuts the fonts of the published pages down to the characters that the pages show.

Source Serif Pro (from the package font-source-serif-pro) sets the text, STIX Two Math (from the
package ziamath) the formulas that `mathml` writes, and the theme's icon fonts draw a dozen of
their two thousand icons.

The text's letters stand in two files each: those that the pages show, and the rest of those with
which Latin languages are written, which comes when a reader writes one of them.
"""

import html
import importlib.util
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.ttLib.tables._g_l_y_f import USE_MY_METRICS

from build.doctree.mathml import styled


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported: only its files are wanted."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ValueError(f"expected the package {name}, found none; run make setup")
    return Path(spec.origin).parent


MATH_FONT = package("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
THEME = package("pydata_sphinx_theme") / "theme" / "pydata_sphinx_theme" / "static"
ICON_FONTS = Path("vendor", "fontawesome", "webfonts")
TEXT_FONTS = package("font_source_serif_pro") / "files"
TEXT_FACES = {"text": "Regular", "text-italic": "It", "text-bold": "Semibold"}
ASCII = {chr(code) for code in range(0x20, 0x7F)}
LATIN = {chr(code) for code in range(0xA0, 0x180)}
RANGE = re.compile(r"unicode-range:[^;]*;")


def cut_font(source: Path, target: Path, characters: Iterable[str], features: list[str]) -> None:
    """Write `source` with nothing but `characters` and the layout `features` to `target`."""
    options = subset.Options(
        flavor="woff2", layout_features=features, notdef_outline=True, hinting=False
    )
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(text="".join(characters))
    cutter.subset(font)
    keep_widths(font)
    target.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(target), options)


def keep_widths(font: TTFont) -> None:
    """Give each glyph that is made of others its own width, as the font's table of widths says.

    In Source Serif Pro, double quotes ask for the width of a single one as well. Most browsers read
    the table; WebKit on Linux follows the glyph, and words ran into the quotes.
    """
    if "glyf" not in font:
        return
    for name in font.getGlyphOrder():
        glyph = font["glyf"][name]
        for part in glyph.components if glyph.isComposite() else ():
            part.flags &= ~USE_MY_METRICS


def math_characters(pages: Iterable[str]) -> set[str]:
    """Those that formulas hold, and their italics, in which a browser sets a name of one letter."""
    formulas = (part for page in pages for part in re.findall(r"<math.*?</math>", page, re.DOTALL))
    shown = {c for part in formulas for c in html.unescape(re.sub(r"<[^>]*>", "", part))}
    italic = {styled("italic", c) for c in shown}
    return shown | italic | set("ℎ√")  # h stands outside its alphabet; a root is an element


def icon_characters(styles: list[str]) -> set[str]:
    """The icons that the styles draw, written by code or as such."""
    codes = {code for style in styles for code in re.findall(r'"\\([ef][0-9a-f]{3})"', style)}
    written = {c for style in styles for c in style if "\ue000" <= c <= "\uf8ff"}
    return written | {chr(int(code, 16)) for code in codes}


def give_range(style: str, characters: Iterable[str]) -> str:
    """The style sheet in which the faces with a range of characters are for these alone."""
    codes = enumerate(sorted(map(ord, characters)))
    runs = [[code for _, code in run] for _, run in groupby(codes, lambda one: one[1] - one[0])]
    ranges = ", ".join(f"U+{run[0]:X}-{run[-1]:X}" for run in runs)
    return RANGE.sub(f"unicode-range: {ranges};", style)


def cut_all(static: Path, pages: list[str]) -> None:
    """Write to the built folder `static` the fonts that the pages need, whose styles are there."""
    styles = [path.read_text(encoding="utf-8") for path in static.rglob("*.css")]
    shown = ASCII | {c for page in pages for c in html.unescape(page) if c > "\x7f"}
    rest = LATIN - shown
    for name, face in TEXT_FACES.items():
        source = TEXT_FONTS / f"SourceSerifPro-{face}.ttf"
        for file, letters in ((name, shown), (f"{name}-rest", rest)):
            target = static / "fonts" / f"{file}.woff2"
            cut_font(source, target, sorted(letters), features=["kern", "liga"])
    sheet = static / "book.css"
    sheet.write_text(give_range(sheet.read_text(encoding="utf-8"), rest), encoding="utf-8")
    formulas = sorted(math_characters(pages))
    cut_font(MATH_FONT, static / "fonts" / "math.woff2", formulas, features=["ssty", "dtls"])
    icons = sorted(icon_characters(styles))
    for source in (THEME / ICON_FONTS).glob("*.woff2"):
        cut_font(source, static / ICON_FONTS / source.name, icons, features=[])
