"""Makes the published figures light, keeps their place while they load, and loads them when needed.

256 colours are plenty for lines, text and one colour scale. Each picture's size stands in the page,
so that the text below does not jump; a picture further down loads when the reader comes near.
The notebooks keep their pictures as they were drawn; only the built pages change.
"""

import re
from pathlib import Path

from PIL import Image

IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^"]*)"[^>]*>')
FIRST_PART = re.compile(r"<h2\b")  # what stands above it may be seen at once


def lighten(path: Path) -> None:
    """Write the picture at `path` with at most 256 colours, if that makes it smaller."""
    smaller = path.with_suffix(".small")
    with Image.open(path) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        palette.save(smaller, format="PNG", optimize=True)
    if smaller.stat().st_size < path.stat().st_size:
        smaller.replace(path)
    else:
        smaller.unlink()


def place_images(text: str, folder: Path) -> str:
    """Give every picture of a page its size, and make those below the first heading load late.

    Args: text, the page; folder, where it stands, to find the pictures.
    Pictures of another host, or without a size of their own (SVG), keep theirs.
    """
    first = FIRST_PART.search(text)
    late = first.start() if first else len(text)

    def tag(match: re.Match) -> str:
        whole, path = match.group(), folder / match.group(1)
        added = ""
        if " width=" not in whole and path.suffix in (".png", ".jpg") and path.is_file():
            with Image.open(path) as image:
                added += f' width="{image.width}" height="{image.height}"'
        if match.start() > late and " loading=" not in whole:
            added += ' loading="lazy" decoding="async"'
        return whole.replace("<img", f"<img{added}", 1)

    return IMAGE.sub(tag, text)


def lighten_all(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for path in (out / "_images").glob("*.png"):
        lighten(path)
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            text = path.read_text(encoding="utf-8")
            path.write_text(place_images(text, path.parent), encoding="utf-8")


def setup(app):
    app.connect("build-finished", lighten_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
