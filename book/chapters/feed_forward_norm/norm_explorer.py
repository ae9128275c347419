"""An explorer of norm and residual: how large vectors and gradients are through a deep stack."""

import math

from traitlets import Bool, Enum, Int

from widgets import domain
from widgets.base import BookWidget, static_table

WIDTHS = (8, 16, 32, 64)
SCALES = (0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0)
NORMS = ("none", "pre", "post")
TIME = 4  # positions: what is shown is a mean over them


class NormExplorer(BookWidget):
    """Stack feed-forward sub-layers, with and without norm and residual; see sizes and gradients.

    The browser draws the input, the weights and the gradient at the top from the seed, and runs
    the stack forward and backward. At scale 1 a sub-layer keeps the size of its input, in the mean.

    Args: n_layers, 1 to 24; norm, "none", "pre" or "post"; residual, whether the input of each
        sub-layer is added to its output; scale, what all weights are multiplied by, one of
        `SCALES`; d_model, one of `WIDTHS`, with d_ff = 4 d_model; seed, which draw.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.1, and Xiong et al. 2020, made to move.
    """

    _module = "norm_explorer"
    _positional = 1
    n_layers = Int(12, min=1, max=24)
    norm = Enum(NORMS, "none")
    residual = Bool()
    scale = Enum(SCALES, 0.7)
    d_model = Enum(WIDTHS, 32)
    seed = Int(0, min=0, max=9999)
    positions = domain.Fixed(TIME)

    def summary(self) -> str:
        beside = "with" if self.residual else "without"
        norm = "no norm" if self.norm == "none" else f"{self.norm}-norm"
        return f"NormExplorer: {self.n_layers} layers, {norm}, {beside} residual connections"

    def static_html(self) -> str:
        """Typical sizes, from the expected squares; the browser shows one random draw."""
        rows = []
        for norm in NORMS:
            for residual in (True, False):
                named = f"{norm}, {'with' if residual else 'without'} residual"
                sizes = typical_sizes(self.n_layers, norm, residual, self.scale)
                rows.append((named, *(f"{size:.2g}" for size in sizes)))
        caption = (
            f"Typical sizes in a stack of {self.n_layers} feed-forward sub-layers, scale "
            f"{self.scale:g}; the input has size 1, and so has the gradient at the top"
        )
        return static_table(caption, ("norm", "vectors at the top", "gradient at the input"), rows)


def typical_sizes(n_layers: int, norm: str, residual: bool, scale: float) -> tuple[float, float]:
    """Root mean squares of the last output and of the gradient at the input, by expectation.

    A sub-layer multiplies the mean square of vectors and of gradients by scale^4, and what the
    residual path adds is independent of it. A norm divides vectors and gradients alike; what it
    takes away besides, 2 of d_model directions, is left out here.
    """
    square = gradient = 1.0
    for _ in range(n_layers):
        inside = 1.0 if norm == "pre" else square
        after = scale**4 * inside + (square if residual else 0.0)
        gradient *= after / square  # the gradient grows or shrinks as the vectors do
        if norm == "post":
            gradient /= after / square
            after = 1.0
        square = after
    return math.sqrt(square), math.sqrt(gradient)
