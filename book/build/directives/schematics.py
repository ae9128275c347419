"""Puts schematics into the pages themselves, so that they follow the theme, and on paper.

A notebook stores a schematic as a drawing that stands alone (`drawing.schematic`): with a light
panel, colours and a title. In a page it has the page's ground, the colours of one style sheet, and
its description as a label, since a browser shows a title as a tip wherever the pointer rests.

The directive `{schematic} transformer.pictures.across` draws one on a page without code: the name
of a room, of a module there, and of a function in it.
"""

import inspect
import os.path
import re
from html import escape, unescape
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from drawing.schematic import Schematic
from drawing.style import page

SHEET = "schematics.css"
DRAWN = re.compile(
    r'<svg xmlns="http://www\.w3\.org/2000/svg" class="sch" viewBox="(?P<box>0 0 (?P<width>[\d.]+) '
    r'[\d.]+)"[^>]*>\s*<title>(?P<alt>.*?)</title>\s*<style>.*?</style>\s*'
    r'<rect class="paper"[^>]*/>\s*(?P<body>.*)</svg>\s*',
    re.DOTALL,
)
LARGEST = 1.5  # pixels for a unit: 600 for the widest


def inline(drawing: str) -> str:
    """A schematic for a page. Errors: ValueError for a drawing that is none."""
    found = DRAWN.fullmatch(drawing)
    if not found:
        raise ValueError(f"expected a schematic, got {drawing[:60]!r}; draw it with Schematic")
    width = LARGEST * float(found["width"])
    return element(found["body"].strip(), found["box"], unescape(found["alt"]), width)


def element(body: str, box: str, alt: str, width: float, role: str = "img") -> str:
    """A drawing as an element of a page, at most `width` pixels wide; it has no ids to clash."""
    return (
        f'<svg class="sch" viewBox="{box}" role="{role}" aria-label="{escape(alt)}" '
        f'style="max-width:{width:g}px">{body}</svg>'
    )


def drawn(name: str) -> tuple[Schematic, Path]:
    """The schematic called ROOM.MODULE.FUNCTION, and the file in which it is described.

    Errors: ValueError if there is none.
    """
    place, _, function = name.rpartition(".")
    try:
        module = import_module(f"chapters.{place}")
        schematic = getattr(module, function)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"expected ROOM.MODULE.FUNCTION, got {name!r}: {error}") from None
    if not isinstance(schematic, Schematic):
        raise ValueError(f"expected a function that returns a Schematic, got {name!r}")
    return schematic, Path(inspect.getfile(module))


class Drawn(SphinxDirective):
    """Draws a schematic: `{schematic} ROOM.MODULE.FUNCTION`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        [name] = self.arguments
        try:
            schematic, described = drawn(name)
        except ValueError as error:
            raise self.error(f"{{schematic}}: {error}") from None
        self.env.note_dependency(str(described))
        path = Path(self.env.doctreedir).parent / "drawn" / f"{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schematic.svg(), encoding="utf-8")
        address = Path(os.path.relpath(path, self.env.srcdir)).as_posix()
        return [nodes.figure("", nodes.image(uri=f"/{address}", alt=schematic.alt))]


def on_builder(app) -> None:
    """Write the style sheet of the schematics beside the other ones of the pages."""
    if app.builder.format == "html":
        target = Path(app.outdir) / "_static" / SHEET
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), encoding="utf-8")


def on_resolved(app, doctree: nodes.document, name: str) -> None:
    """Put the drawing itself in the place of each picture that is a schematic."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".svg" and path.is_file():
            drawing = path.read_text(encoding="utf-8")
            if 'class="sch"' in drawing:
                image.parent.replace(image, nodes.raw("", inline(drawing), format="html"))
