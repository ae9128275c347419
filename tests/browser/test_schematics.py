"""Every schematic of the book, in a real browser: its letters have room and its size is small."""

import gzip
import inspect
from collections.abc import Iterator
from importlib import import_module

import pytest

from build.directives.map import chapters
from drawing.book_map import translator_map
from drawing.schematic import SMALLEST, Schematic
from tests.paths import BOOK, ROOT

pytestmark = pytest.mark.browser
MODULES = ("schematics", "pictures")
LARGEST = 12_000  # bytes, packed
# Each label's text, the smallest of its letters, and its box, less what is free above and below.
LABELS = """(svg) => [...svg.querySelectorAll("text")].map((text) => {
  const { x, y, width, height } = text.getBBox();
  const sizes = [text, ...text.querySelectorAll("tspan")]
    .map((node) => parseFloat(getComputedStyle(node).fontSize));
  return { text: text.textContent, size: Math.min(...sizes),
    left: x, right: x + width, top: y + 0.15 * height, bottom: y + 0.85 * height };
})"""


def schematics() -> Iterator:
    paths = (path for name in MODULES for path in (BOOK / "chapters").glob(f"*/{name}.py"))
    for path in sorted(paths):
        module = import_module(f"chapters.{path.parent.name}.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            signature = inspect.signature(function)
            is_drawing = signature.return_annotation is Schematic and not signature.parameters
            if is_drawing and function.__module__ == module.__name__:
                yield pytest.param(function, id=f"{path.parent.name}-{name}")


def the_map() -> Schematic:
    return translator_map(chapters(ROOT), "self_attention")


def faults(page, schematic: Schematic) -> list[str]:
    """What cannot be read: small letters, labels outside or upon one another."""
    page.set_content(f'<body style="margin:0">{schematic.svg()}')
    labels = page.locator("svg").evaluate(LABELS)
    found = [f"small: {one['text']}" for one in labels if one["size"] < SMALLEST]
    for i, one in enumerate(labels):
        across = one["left"] < 0 or one["right"] > schematic.width
        if across or one["top"] < 0 or one["bottom"] > schematic.height:
            found.append(f"outside: {one['text']}")
        for other in labels[:i]:
            beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            if not beside and one["top"] < other["bottom"] and other["top"] < one["bottom"]:
                found.append(f"on one another: {other['text']} and {one['text']}")
    return found


@pytest.mark.parametrize("draw", [*schematics(), pytest.param(the_map, id="map")])
def test_a_schematic_can_be_read_on_a_phone(page, draw):
    schematic = draw()
    assert faults(page, schematic) == []
    assert schematic.width <= 400
    assert len(gzip.compress(schematic.svg().encode(), mtime=0)) <= LARGEST
    assert draw().svg() == schematic.svg()
    assert schematic.shapes is not None


def test_labels_that_cannot_be_read_are_found(page):
    bad = Schematic(200, 100, alt="Two labels that stand upon one another in a small box.")
    bad.text("one label", at=(100, 50))
    bad.text("another one", at=(110, 55))
    bad._body.append('<text x="195" y="20" style="font-size: 9px">far out</text>')
    assert sorted(faults(page, bad)) == [
        "on one another: one label and another one",
        "outside: far out",
        "small: far out",
    ]
