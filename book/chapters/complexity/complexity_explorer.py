"""An explorer of Table 1: what four kinds of layer cost at any length and dimension."""

from traitlets import Bool, Enum

from measure.costs import (
    Cost,
    convolution_cost,
    recurrent_cost,
    restricted_cost,
    self_attention_cost,
)
from widgets.base import BookWidget, static_table

LENGTHS = tuple(sorted([2**i for i in range(3, 17)] + [3 * 2**i for i in range(2, 15)]))
DIMENSIONS = tuple(sorted([2**i for i in range(4, 13)] + [3 * 2**i for i in range(3, 11)]))
RADII = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KERNELS = range(2, 16)
MEASURES = ("work", "memory", "path")
LAYERS = ("attention", "recurrent", "convolution", "restricted")


class ComplexityExplorer(BookWidget):
    """Set length, dimension, kernel and window; see work, memory and paths of four kinds of layer.

    Args: n, the length, one of `LENGTHS`; d, the dimension, one of `DIMENSIONS`; k, the
        kernel of the convolution, 2 to 15; radius of the restricted attention's window, one of
        `RADII`; dilated, a convolution whose steps grow by k from layer to layer; projections,
        count those of attention too; measure, what the curves show: "work", "memory" or "path";
        pick, the layer that the reader has chosen, one of `LAYERS`, or "none".
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, table 1; `measure.costs`.
    """

    _module = "complexity_explorer"
    _positional = 2
    n = Enum(LENGTHS, 64)
    d = Enum(DIMENSIONS, 512)
    k = Enum(KERNELS, 3)
    radius = Enum(RADII, 16)
    dilated = Bool()
    projections = Bool()
    measure = Enum(MEASURES, "work")
    pick = Enum(("none", *LAYERS), "none")

    def costs(self) -> dict[str, Cost]:
        """What each layer costs at the sizes set, from `measure.costs`."""
        return {
            "attention": self_attention_cost(self.n, self.d, projections=self.projections),
            "recurrent": recurrent_cost(self.n, self.d),
            "convolution": convolution_cost(self.n, self.d, self.k, dilated=self.dilated),
            "restricted": restricted_cost(
                self.n, self.d, self.radius, projections=self.projections
            ),
        }

    def summary(self) -> str:
        return (
            f"ComplexityExplorer: n {self.n}, d {self.d}, k {self.k}, "
            f"r {2 * self.radius + 1}, {self.measure}"
        )

    def static_html(self) -> str:
        names = {
            "attention": "self-attention",
            "recurrent": "recurrent",
            "convolution": f"convolution, k = {self.k}",
            "restricted": f"restricted, r = {2 * self.radius + 1}",
        }
        rows = [
            (names[name], f"{c.flops:,}", f"{c.memory:,}", f"{c.sequential:,}", f"{c.path:,}")
            for name, c in self.costs().items()
        ]
        caption = (
            f"What a layer costs for n = {self.n:,} vectors of dimension d = {self.d:,}"
            f"{', projections counted' if self.projections else ''}"
            f"{', convolution dilated' if self.dilated else ''}"
        )
        header = ("layer", "FLOPs", "memory, numbers", "sequential operations", "longest path")
        return static_table(caption, header, rows)
