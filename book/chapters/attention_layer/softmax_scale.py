"""An explorer of the softmax over dot products: long vectors saturate it, the scale undoes that."""

import math
from statistics import NormalDist

from traitlets import Bool, Enum, Int

from widgets.base import BookWidget, static_table

WIDTHS = tuple(2**power for power in range(11))  # 1 to 1024
TEMPERATURES = (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)


class SoftmaxScaleExplorer(BookWidget):
    """Widen a random query and random keys; see the softmax saturate, and the scale prevent it.

    The browser draws the entries of the query and of the keys, all of variance 1, from the seed.

    Args: d_k, the dimension of query and keys at the start: a power of 2 up to 1024; scaled,
        whether the scores are divided by sqrt(d_k); temperature, what they are divided by besides,
        one of `TEMPERATURES`; n_keys, 2 to 64; seed, which draw; curve, "sensitivity" or
        "entropy", what the curve over the dimensions shows.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.2.1, note 4, made to move.
    """

    _module = "softmax_scale"
    _positional = 1
    d_k = Enum(WIDTHS, 64)
    scaled = Bool()
    temperature = Enum(TEMPERATURES, 1.0)
    n_keys = Int(8, min=2, max=64)
    seed = Int(55, min=0, max=9999)  # its largest weight rises with the width, as most do
    curve = Enum(("sensitivity", "entropy"), "sensitivity")

    def summary(self) -> str:
        scale = "with" if self.scaled else "without"
        return f"SoftmaxScaleExplorer: {self.n_keys} keys, d_k = {self.d_k}, {scale} the scale"

    def static_html(self) -> str:
        """The same story without chance: scores that stand where a normal draw has its quantiles.

        With the scale their standard deviation is 1 in every dimension.
        """
        named = [("any d_k, divided by √d_k", 1.0)]
        named += [(f"d_k = {width}, not divided", math.sqrt(width)) for width in WIDTHS[::2]]
        rows = [
            (name, f"{deviation:g}", *_softmax_figures(self.n_keys, deviation / self.temperature))
            for name, deviation in named
        ]
        caption = (
            f"The softmax of {self.n_keys} typical scores, temperature {self.temperature:g} "
            f"(entropy is at most {math.log(self.n_keys):.2f})"
        )
        header = ("scores q·k", "standard deviation", "largest weight", "entropy", "sensitivity")
        return static_table(caption, header, rows)


def _softmax_figures(n_keys: int, deviation: float) -> tuple[str, str, str]:
    """Largest weight, entropy and trace of the Jacobian, for evenly spread normal scores."""
    normal = NormalDist(sigma=deviation)
    scores = [normal.inv_cdf((i + 0.5) / n_keys) for i in range(n_keys)]
    powers = [math.exp(score - scores[-1]) for score in scores]
    weights = [power / sum(powers) for power in powers]
    entropy = -sum(w * math.log(w) for w in weights if w > 0)
    sensitivity = sum(w * (1 - w) for w in weights)
    return f"{100 * max(weights):.0f} %", f"{entropy:.2f}", f"{sensitivity:.3f}"
