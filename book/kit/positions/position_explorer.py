"""An explorer of positions: the encoding as a picture, scores by offset, the shift as a turn."""

import math

import traitlets

from kit.shared import validate
from kit.shared.widget import BookWidget, static_table

SCHEMES = ("sinusoidal", "learned", "rotary", "alibi")
WIDTHS = (4, 7, 8, 16, 32, 64, 128, 256, 512)
BASES = (10, 100, 1000, 10_000, 100_000, 1_000_000)
LONGEST = 64
N_HEADS = 8


class PositionExplorer(BookWidget):
    """Turn scheme, width, length and base; see the encoding, scores by offset, and M_k at work.

    The browser computes everything, with the formulas of `lib.positions`. A learned table is shown
    before training: random rows. Rotary is shown on a vector of ones, ALiBi for eight heads.

    Args: scheme, one of `SCHEMES`; d_model, one of `WIDTHS` (rotary: of those that are even, as
        width d_k); length, 2 to 64 positions; base, one of `BASES`; position and shift, below 64;
        pair, the pair of entries to watch; head, 1 to 8, for ALiBi.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.5, made to move.
    """

    _module = "position_explorer"
    widths = traitlets.List().tag(sync=True)
    bases = traitlets.List().tag(sync=True)
    longest = traitlets.Int(LONGEST).tag(sync=True)
    n_heads = traitlets.Int(N_HEADS).tag(sync=True)
    scheme = traitlets.Unicode().tag(sync=True)
    d_model = traitlets.Int().tag(sync=True)
    length = traitlets.Int().tag(sync=True)
    base = traitlets.Int().tag(sync=True)
    position = traitlets.Int().tag(sync=True)
    shift = traitlets.Int().tag(sync=True)
    pair = traitlets.Int().tag(sync=True)
    head = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        scheme: str = "sinusoidal",
        d_model: int = 64,
        *,
        length: int = 64,
        base: int = 10_000,
        position: int = 10,
        shift: int = 7,
        pair: int = 3,
        head: int = 1,
    ):
        validate.one_of(scheme, SCHEMES, "scheme")
        validate.one_of(d_model, WIDTHS, "d_model")
        validate.one_of(base, BASES, "base")
        limits = {
            "length": (length, 2, LONGEST),
            "position": (position, 0, LONGEST - 1),
            "shift": (shift, 0, LONGEST - 1),
            "pair": (pair, 0, d_model // 2 - 1),
            "head": (head, 1, N_HEADS),
        }
        for name, (value, low, high) in limits.items():
            validate.whole(value, low, high, name)
        super().__init__(
            widths=list(WIDTHS),
            bases=list(BASES),
            scheme=scheme,
            d_model=d_model,
            length=length,
            base=base,
            position=position,
            shift=shift,
            pair=pair,
            head=head,
        )

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
