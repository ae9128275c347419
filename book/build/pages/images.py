"""Makes the published figures light; the notebooks keep their pictures as they were drawn.

256 colours are plenty for lines, text and one colour scale.
"""

import io
from pathlib import Path

from PIL import Image


def lighten(path: Path) -> None:
    """Write the picture at `path` with at most 256 colours, if that makes it smaller."""
    smaller = io.BytesIO()
    with Image.open(path) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        palette.save(smaller, format="PNG", optimize=True)
    if smaller.tell() < path.stat().st_size:
        path.write_bytes(smaller.getvalue())


def picture_sizes(out: Path) -> dict[str, tuple[int, int]]:
    """The width and height of each picture in the folder `out`, by its path there."""
    sizes = {}
    for path in (*out.rglob("*.png"), *out.rglob("*.jpg")):
        with Image.open(path) as image:
            sizes[path.relative_to(out).as_posix()] = image.size
    return sizes
