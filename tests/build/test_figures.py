"""Figures: a drawing for each stored picture, colours that stand out on both grounds, links."""

import base64
import re

import nbformat
import pytest

from build.pages import figures
from build.source.rooms import folder_of
from drawing.axes import COLOURS, GREY
from tests.paths import BOOK

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
DRAWN = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "a"
  "b">
<svg viewBox="0 0 5.123456 5"><metadata>2026</metadata>
 <g id="patch_1">
  <path d="M 0.123456 7.000001
L 5.555555 -0.25 z" style="fill: #ffffff"/>
 </g>
 <!-- a word -->
 <g id="patch_9"><path d="M 1 1" style="fill: #ffffff; stroke: #000000"/></g>
 <g transform="translate(1.234567 2) scale(0.015625 -0.015625)"/>
</svg>
"""


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    data = (output.get("data", {}) for output in outputs)
    return [one[figures.PICTURE] for one in data if figures.PICTURE in one]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_each_picture_of_a_chapter_has_the_drawing_of_the_same_run(path):
    stored = {figures.digest(one) for one in pictures(nbformat.read(path, as_version=4))}
    drawn = {drawing.stem for drawing in (folder_of(path) / "figures").glob("*.svg")}
    assert stored == drawn, "run scripts/refresh.py"


def test_drawings_load_nothing_and_run_nothing():
    for path in figures.CHAPTERS.glob("*/figures/*.svg"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script|<foreignObject|\bon\w+=", text), path.name
        addresses = re.findall(r'href="([^"]{1,30})|url\(([^)]{1,30})', text)
        kept = ("#", "data:image/png;base64,")
        assert all("".join(one).startswith(kept) for one in addresses), path.name


def test_a_drawing_loses_its_ground_its_remarks_and_needless_digits():
    text = figures.outline(DRAWN)
    assert 'd="M 0.12 7 L 5.56 -0.25 z" style="fill: none"' in text
    assert 'style="fill: #ffffff; stroke: #000000"' in text
    assert 'viewBox="0 0 5.123456 5"' in text
    assert "translate(1.23 2) scale(0.015625 -0.015625)" in text
    assert not re.search(r"metadata|DOCTYPE|\?xml|a word", text)


def test_drawings_leave_the_notebook_and_the_old_ones_the_folder(tmp_path):
    picture = base64.b64encode(b"a picture").decode() + "\n"
    data = {figures.PICTURE: picture, figures.DRAWING: DRAWN}
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data=data)])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    drawings = figures.take_drawings(notebook)
    assert list(cell.outputs[0].data) == [figures.PICTURE]
    assert list(drawings) == [figures.digest(picture)]

    (tmp_path / "old.svg").write_text("<svg/>", encoding="utf-8")
    figures.write_drawings(tmp_path, drawings)
    assert [path.stem for path in tmp_path.iterdir()] == list(drawings)


def test_a_figure_becomes_a_link_to_itself_once():
    text = (
        '<img width="3" alt="x &gt; y" src="../_images/aa.png" /><img src="../_images/bb.png">'
        '<img src="../_static/images/logo.png">'
    )
    page = figures.open_large(text, {"aa"})
    assert page == (
        '<a class="figure" href="../_images/aa.svg"><img width="3" alt="x &gt; y" '
        'src="../_images/aa.svg" /></a><a class="figure" href="../_images/bb.png">'
        '<img src="../_images/bb.png"></a><img src="../_static/images/logo.png">'
    )
    assert figures.open_large(page, {"aa"}) == page


# --- colours ----------------------------------------------------------------------------------

STYLE = (BOOK / "static" / "book.css").read_text(encoding="utf-8")
WHITE = (1.0, 1.0, 1.0)


def channels(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def in_the_dark(colour: tuple[float, ...]) -> tuple[float, ...]:
    """What the style sheet's filter makes of a colour, as CSS defines the two functions."""
    (share,) = re.findall(r"filter: invert\(([\d.]+)\) hue-rotate\(180deg\)", STYLE)
    turned = [float(share) + one * (1 - 2 * float(share)) for one in colour]
    grey = sum(weight * one for weight, one in zip((0.213, 0.715, 0.072), turned, strict=True))
    return tuple(min(1.0, max(0.0, 2 * grey - one)) for one in turned)


def luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", [*COLOURS, GREY])
def test_a_line_stands_out_on_white_and_in_the_dark(colour):
    """WCAG 2.2, 1.4.11: graphics need a contrast of 3 to 1."""
    (ground,) = re.findall(r"--pst-color-background: (#\w{6})", STYLE)
    assert contrast(channels(colour), WHITE) >= 3
    assert contrast(in_the_dark(channels(colour)), channels(ground)) >= 3


def test_white_becomes_the_ground_of_the_dark_theme_and_black_its_letters():
    (ground,) = re.findall(r"--pst-color-background: (#\w{6})", STYLE)
    assert contrast(in_the_dark(WHITE), channels(ground)) < 1.05
    assert contrast(in_the_dark((0.0, 0.0, 0.0)), channels(ground)) > 12
