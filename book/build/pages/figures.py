"""Keeps each figure of a chapter as a drawing beside the picture that its notebook stores.

A notebook stores pixels, which every front end shows and which are not compared when it is run
again. The pages show the same figure as a drawing (SVG): sharp at any size, on paper too, and
without a ground of its own. `scripts/refresh.py` writes both in one run, the drawing under the
picture's digest, so that the two cannot belong to different runs.
"""

import re
import shutil
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "figures"
PICTURE, DRAWING = "image/png", "image/svg+xml"
# A figure on a page, and what is before it once it links to itself.
FIGURE = re.compile(
    r'(?P<linked><a class="figure"[^>]*>)?'
    r'(?P<image><img\b[^>]*?\bsrc="(?P<address>[^"]*_images/(?P<name>[^"/]*)\.\w+)"[^>]*>)'
)

# What a drawing says about itself, and the words that matplotlib notes above their glyphs.
NOTES = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<\?xml.*?\?>|<!DOCTYPE.*?>", re.DOTALL)
COORDINATES = re.compile(r'\bd="[^"]*"|\b[xy]="[^"]*"|translate\([^)]*\)')
NUMBER = re.compile(r"-?\d+\.\d+")
GROUND = re.compile(r'(<g id="patch_\d+">\s*<path [^>]*style="fill: )#ffffff("/>)')


def digest(picture: str) -> str:
    """The name of a picture that a notebook stores as base64: myst-nb names its file like this."""
    return sha256(b64decode(picture)).hexdigest()


def outline(drawing: str) -> str:
    """Take the white ground, remarks and needless digits out of a drawing by matplotlib."""

    def rounded(match: re.Match) -> str:
        short = NUMBER.sub(lambda n: f"{float(n.group()):.2f}".rstrip("0").rstrip("."), match[0])
        return " ".join(short.split())

    clear = GROUND.sub(r"\1none\2", NOTES.sub("", drawing))
    lines = (line.strip() for line in COORDINATES.sub(rounded, clear).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def take_drawings(notebook: Any) -> dict[str, str]:
    """Take the drawings out of a notebook's outputs: each by its picture's digest.

    A schematic is a drawing without a picture, and stays (see `schematics`).
    """
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if PICTURE in data and DRAWING in data:
                found[digest(data[PICTURE])] = outline(data.pop(DRAWING))
    return found


def write_drawings(folder: Path, drawings: dict[str, str]) -> None:
    """Make `drawings` the only ones of the chapter whose folder this is."""
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, text in drawings.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")


def place_drawings(images: Path) -> set[str]:
    """Put the drawings of the pictures in the folder `images` beside them; return their names."""
    known = {path.stem: path for path in FOLDER.glob("*/*.svg")}
    drawn = {path.stem for path in images.glob("*.png")} & known.keys()
    for name in drawn:
        shutil.copyfile(known[name], images / f"{name}.svg")
    return drawn


def open_large(text: str, drawn: set[str]) -> str:
    """Show drawings in place of pictures, and make each figure of a page a link to itself.

    A script opens the link in place (`static/figures.js`); without it the browser does.
    """

    def link(match: re.Match) -> str:
        if match["linked"]:
            return match[0]
        address, image = match["address"], match["image"]
        if match["name"] in drawn:
            svg = address.rsplit(".", 1)[0] + ".svg"
            address, image = svg, image.replace(f'src="{address}"', f'src="{svg}"')
        return f'<a class="figure" href="{address}">{image}</a>'

    return FIGURE.sub(link, text)
