"""The figures of the assembled Transformer: its wiring, and ranges that should overlap."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from drawing.axes import COLOURS, new_axes, new_panels

INK, SOFT = "#1b242d", "#52606e"
SELF, CROSS, FORWARD, NEUTRAL = "#cfe4f1", "#f6d9c4", "#cdebdf", "#eceff2"
TOP, BOTTOM = 8.3, 2.4  # height of the two residual streams
RISE = 1.55  # of a sub-layer above its residual stream


def plot_architecture() -> Axes:
    """Draw the encoder-decoder: two residual streams, what is added to them, and the memory.

    A residual stream runs from left to right and keeps its shape. A sub-layer takes a copy of it
    and adds its output to it, at a plus sign; then comes a norm, as in the paper (post-norm). The
    memory goes from the end of the encoder to every cross-attention of the decoder.
    """
    (axes,) = new_panels(1, 1, (7.6, 5.4))
    axes.set(xlim=(0.2, 16.1), ylim=(0.5, 11.2))
    axes.set_axis_off()
    for y, end, last, tokens in (
        (TOP, 12.3, 10.75, "source"),
        (BOTTOM, 15.9, 13.1, "target,\nshifted right"),
    ):
        axes.plot([0.4, end], [y, y], color=COLOURS[0], linewidth=3.5, solid_capstyle="butt")
        dashed = {"facecolor": "none", "edgecolor": SOFT, "linestyle": (0, (4, 3))}
        _rounded(axes, (4.75, y - 0.75), last - 4.75, 3.45, 0.25, **dashed)
        axes.text(last - 0.1, y - 1.15, "N layers in sequence", ha="right", color=SOFT)
        axes.text(0.35, y + 0.7, tokens, va="bottom", color=INK)
        _box(axes, 2.35, y, 1.9, "embedding", NEUTRAL)
        _plus(axes, 4.1, y)
        axes.annotate(
            "positions", (4.1, y + 0.2), (4.1, y + 1.25), ha="center", color=SOFT, fontsize=9,
            arrowprops={"arrowstyle": "->", "color": SOFT},
        )  # fmt: skip
    for x, y, text, colour in (
        (6.2, TOP, "self-attention\n(padding mask)", SELF),
        (9.0, TOP, "feed-forward", FORWARD),
        (6.2, BOTTOM, "self-attention\n(causal mask)", SELF),
        (8.85, BOTTOM, "cross-attention\n(padding mask)", CROSS),
        (11.4, BOTTOM, "feed-forward", FORWARD),
    ):
        _sublayer(axes, x, y, text, colour)
    _box(axes, 14.25, BOTTOM, 1.75, "projection", NEUTRAL)
    axes.text(15.9, BOTTOM + 0.55, "logits", ha="right", va="bottom", color=INK)
    axes.text(12.6, TOP, "memory", va="center", color=INK, weight="bold")
    bend = BOTTOM + RISE + 1.95
    axes.plot([12.3, 12.3, 8.85], [TOP, bend, bend], color=COLOURS[1], linewidth=1.8)
    axes.annotate(
        "", (8.85, BOTTOM + RISE + 0.55), (8.85, bend + 0.03),
        arrowprops={"arrowstyle": "->", "color": COLOURS[1], "linewidth": 1.8},
    )  # fmt: skip
    axes.text(9.1, bend - 0.15, "keys and values of every cross-attention", va="top", fontsize=9,
              color=COLOURS[1])  # fmt: skip
    for x, y, shape in (
        (0.35, TOP - 0.75, "(batch, source_time)"),
        (12.6, TOP - 0.4, "(batch, source_time,\nd_model)"),
        (0.35, BOTTOM - 0.75, "(batch, target_time)"),
        (13.2, BOTTOM - 0.75, "(batch, target_\ntime, vocab)"),
    ):
        axes.text(x, y, shape, va="top", fontsize=8, color=SOFT)
    return axes


def _rounded(
    axes: Axes, corner: tuple[float, float], width: float, height: float, radius: float, **look: Any
) -> None:
    style = f"round,pad=0,rounding_size={radius}"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, **look))


def _box(
    axes: Axes, x: float, y: float, width: float, text: str, colour: str,
    *, height: float = 1.0, fontsize: float = 9.0,
) -> None:  # fmt: skip
    look = {"facecolor": colour, "edgecolor": INK, "zorder": 3}
    _rounded(axes, (x - width / 2, y - height / 2), width, height, 0.18, **look)
    axes.text(x, y, text, ha="center", va="center", color=INK, fontsize=fontsize, zorder=4)


def _plus(axes: Axes, x: float, y: float) -> None:
    axes.plot([x], [y], "o", color="white", markeredgecolor=INK, markersize=12, zorder=3)
    axes.text(x, y - 0.02, "+", ha="center", va="center", color=INK, fontsize=11, zorder=4)


def _sublayer(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    """A box above its residual stream: up its left goes a copy, down its right the change."""
    _box(axes, x, y + RISE, 2.3, text, colour)
    for at, start, end in ((x - 0.75, y, y + RISE - 0.5), (x + 0.75, y + RISE - 0.5, y + 0.25)):
        arrow = {"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (at, end), (at, start), arrowprops=arrow, zorder=2)
    _plus(axes, x + 0.75, y)
    _box(axes, x + 1.24, y, 0.5, "LN", "white", height=0.8, fontsize=7.0)


def plot_ranges(
    ranges: Mapping[str, tuple[float, float]],
    shared: tuple[float, float],
    marked: Mapping[str, float],
    xlabel: str,
) -> Axes:
    """Draw a range a row; those that overlap `shared`, which is shaded, are filled circles.

    Args: marked, values to mark by a line, by name.
    Errors: ValueError for a range whose end comes before its start.
    """
    axes = new_axes(6.4, 0.9 + 0.3 * len(ranges))
    axes.axvspan(*shared, color=COLOURS[2], alpha=0.35, linewidth=0, zorder=0)
    for row, (name, (low, high)) in enumerate(ranges.items()):
        if high < low:
            raise ValueError(f"expected a start before the end of {name!r}, got {low} and {high}")
        meets = low <= shared[1] and shared[0] <= high
        colour, face = (COLOURS[0], COLOURS[0]) if meets else (COLOURS[1], "white")
        axes.plot([low, high], [row, row], "-o", color=colour, markerfacecolor=face, linewidth=2.5)
    for name, value in marked.items():
        axes.axvline(value, color=SOFT, linestyle="--", linewidth=1)
        axes.annotate(
            name, (value, 1.0), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", color=SOFT, fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(ranges)), list(ranges))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(xlabel)
    return axes
