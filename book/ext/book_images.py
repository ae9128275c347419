"""Makes the published figures light: 256 colours are plenty for lines, text and one colour scale.

The notebooks keep their pictures as they were drawn; only the copies in the built pages change.
"""

from pathlib import Path

from PIL import Image


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


def lighten_all(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        for path in (Path(app.outdir) / "_images").glob("*.png"):
            lighten(path)


def setup(app):
    app.connect("build-finished", lighten_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
