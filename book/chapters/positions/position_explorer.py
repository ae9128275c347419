"""An explorer of positions: the encoding as a picture, scores by offset, the shift as a turn."""

import math
from collections.abc import Iterator

from traitlets import Enum, Int

from widgets import domain
from widgets.base import BookWidget, static_table

SCHEMES = ("sinusoidal", "learned", "rotary", "alibi")
WIDTHS = (4, 7, 8, 16, 32, 64, 128, 256, 512)
LONGEST = 64
BASES = (10, 100, 1000, 10_000, 100_000, 1_000_000)


class PositionExplorer(BookWidget):
    """Set scheme, dimension, length and base; see the encoding, scores by offset, and M_k at work.

    The browser computes everything, with the formulas of `lib.positions`. A learned table is shown
    before training: random rows. Rotary is shown on a vector of ones, ALiBi for eight heads.

    Args: scheme, one of `SCHEMES`; d_model, one of `WIDTHS` (rotary: of those that are even, as
        d_k); length, 2 to 64 positions; base, one of `BASES`; position and shift, below 64;
        pair, the pair of entries to watch; head, 1 to 8, for ALiBi.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.5, made to move.
    """

    _module = "position_explorer"
    _positional = 2
    scheme = Enum(SCHEMES, "sinusoidal")
    d_model = Enum(WIDTHS, 64)
    length = Int(LONGEST, min=2, max=LONGEST)
    base = Enum(BASES, 10_000)
    position = Int(10, min=0, max=LONGEST - 1)
    shift = Int(7, min=0, max=LONGEST - 1)
    pair = domain.Place(3)
    head = Int(1, min=1, max=8)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "pair", self.d_model // 2 - 1

    def summary(self) -> str:
        size = f"d_model {self.d_model}, {self.length} positions, base {self.base}"
        return f"PositionExplorer: {self.scheme}, {size}"

    def static_html(self) -> str:
        pairs = self.d_model // 2
        shown = sorted({0, 1, pairs // 4, pairs // 2, pairs - 1})
        rows = []
        for pair in shown:
            rate = self.base ** (-2 * pair / self.d_model)
            angle = rate * self.position
            values = (2 * math.pi / rate, math.sin(angle), math.cos(angle))
            rows.append((pair, *(f"{value:.4g}" for value in values)))
        caption = (
            f"Sinusoidal encoding, d_model = {self.d_model}, base {self.base}: the wavelength of "
            f"some pairs in positions, and their entries at position {self.position}"
        )
        return static_table(caption, ("pair", "wavelength", "sine", "cosine"), rows)
