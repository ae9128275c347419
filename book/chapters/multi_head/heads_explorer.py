"""An explorer of heads and dimensions: the shapes after each step, the cost, the attention maps."""

from traitlets import Enum, Int

from widgets.base import BookWidget, static_table

WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
HEAD_WIDTHS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)


class HeadsExplorer(BookWidget):
    """Turn d_model, the number of heads, their dimension and the length; see what it costs.

    The browser computes the maps from random tokens and random matrices, the same at every visit.

    Args: d_model, one of `WIDTHS`; n_heads, 1 to 16; d_k, the dimension of a head, one of
        `HEAD_WIDTHS`, or None for d_model / n_heads (it may then be impossible, which the widget
        explains; the trait is 0 then); time, the length of the sequence, 1 to 64.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.2.2, made to move.
    """

    _module = "heads_explorer"
    d_model = Enum(WIDTHS, 64)
    n_heads = Int(4, min=1, max=16)
    d_k = Enum((0, *HEAD_WIDTHS), 0)  # 0 stands for d_model / n_heads
    time = Int(12, min=1, max=64)

    def __init__(
        self, d_model: int = 64, n_heads: int = 4, *, d_k: int | None = None, time: int = 12
    ):
        d_k = 0 if d_k is None else d_k
        super().__init__(d_model=d_model, n_heads=n_heads, d_k=d_k, time=time)

    def summary(self) -> str:
        return f"HeadsExplorer: d_model {self.d_model}, {self.n_heads} heads, {self.time} tokens"

    def static_html(self) -> str:
        n, d, h = self.time, self.d_model, self.n_heads
        d_k = self.d_k or d / h
        if d_k != int(d_k):
            rows = [("d_model / n_heads", f"{d} / {h} is not whole", "choose other sizes")]
        else:
            d_k = int(d_k)
            rows = [
                ("input", "X", f"{n} x {d}"),
                ("queries, and keys and values alike", "X W^Q", f"{n} x {h * d_k}"),
                ("queries by head", "split", f"{h} x {n} x {d_k}"),
                ("weights", "softmax(Q K^T / sqrt(d_k))", f"{h} x {n} x {n}"),
                ("output of the heads", "weights V", f"{h} x {n} x {d_k}"),
                ("heads side by side", "concat", f"{n} x {h * d_k}"),
                ("output", "concat W^O", f"{n} x {d}"),
            ]
        caption = f"Shapes for d_model = {d}, {h} heads and {n} tokens"
        return static_table(caption, ("step", "formula", "shape"), rows)
