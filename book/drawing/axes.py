"""The figures that more than one chapter draws, and the parts that all figures are made of.

Each function of a figure returns the Axes it drew on. A chapter shows it with `plt.show()` and
gives its cell an alt text. Colours are those of Okabe and Ito, which colour-blind readers can tell
apart, the pale ones darkened until they stand out from white paper; lines differ in marker or style
as well. Queries are rows, keys columns in every map."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
from jaxtyping import Bool, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
from torch import Tensor

from lib.metrics import LengthBin

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C4679B", "#A07C00", "#3C93CC")
MARKERS = ("o", "s", "^", "D", "v", "P")
STYLES = ("-", "--", ":", "-.")
GREY = "#555555"  # of lines that mark a value, and of what is written beside them
PANELS = 3  # in a row, so that labels stay legible on a phone
Numbers = Sequence[float | int]


def new_axes(width: float = 6.0, height: float = 3.2) -> Axes:
    """Return empty axes on a white figure, in the book's style: no frame above and to the right."""
    (axes,) = new_panels(1, 1, (width, height))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def new_panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    margin: tuple[float, float] = (0.0, 0.0),
    **options: Any,
) -> list[Axes]:
    """Return `count` empty panels on one white figure, in rows of `columns`.

    Args: size, width and height of a panel, and margin, of what the figure needs besides, in
        inches; options, what `plt.subplots` takes besides.
    Errors: ValueError for no panel.
    """
    if count < 1:
        raise ValueError("expected at least one panel to draw, got none")
    rows = -(-count // columns)
    _, grid = plt.subplots(
        rows,
        columns,
        figsize=(size[0] * columns + margin[0], size[1] * rows + margin[1]),
        layout="constrained",
        facecolor="white",
        squeeze=False,
        **options,
    )
    for axes in grid.flat[count:]:
        axes.remove()
    return list(grid.flat[:count])


def draw_curves(
    axes: Axes,
    curves: Mapping[str, tuple[Numbers, Numbers]],
    xlabel: str,
    ylabel: str,
    *,
    markers: bool = True,
    styles: bool = False,
    log: str = "",
    legend: Literal["best", "center right", "beside"] | None = None,
    **look: Any,
) -> Axes:
    """Draw curves, each its x and its y, in colours and, if wanted, markers or styles of their own.

    Args: log names the axes with a logarithmic scale, "", "x", "y" or "xy"; legend, its place in
        the axes or "beside" them: unless given, a single curve has none; look, what `Axes.plot`
        takes besides.
    Errors: ValueError for no curve, more than can be told apart, a y that is not as long as x, or
        numbers that a logarithmic axis cannot show.
    """
    if not 1 <= len(curves) <= len(COLOURS):
        raise ValueError(
            f"expected one to {len(COLOURS)} curves, as many as can be told apart, "
            f"got {len(curves)}; draw the others in a figure of their own"
        )
    for number, (name, (x, y)) in enumerate(curves.items()):
        if len(y) != len(x):
            raise ValueError(f"expected {len(x)} values in {name!r}, one for each x, got {len(y)}")
        shown = (*(x if "x" in log else ()), *(y if "y" in log else ()))
        if not all(value > 0 for value in shown):
            raise ValueError(
                f"expected numbers above 0 on a logarithmic axis, got {name!r}: {shown}"
            )
        own = {"color": COLOURS[number], "label": name}
        if markers:
            own["marker"] = MARKERS[number]
        if styles:
            own["linestyle"] = STYLES[number % len(STYLES)]
        axes.plot(x, y, **own | look)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if "x" in log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    if "y" in log:
        axes.set_yscale("log")
    if legend == "beside":
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif legend or len(curves) > 1:
        axes.legend(frameon=False, loc=legend)
    return axes


def draw_map(
    axes: Axes,
    numbers: Shaped[Tensor, "row column"],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str = "",
    **look: Any,
) -> AxesImage:
    """Draw a matrix as a picture, from white for 0 to blue for 1, with labels if there are some.

    Args: look, what `Axes.imshow` takes besides, such as other colours or another scale.
    Errors: ValueError for labels that are not one for each row and each column.
    """
    picture = numbers.detach().cpu().numpy()
    plain: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 1, "interpolation": "none"}
    image = axes.imshow(picture, **plain | look)
    for axis, word, labels, size in (
        (axes.yaxis, "row", rows, len(picture)),
        (axes.xaxis, "column", columns, len(picture.T)),
    ):
        if labels is None:
            continue
        if len(labels) != size:
            where = f" of {title!r}" if title else ""
            raise ValueError(
                f"expected {size} labels{where}, one for each {word}, got {len(labels)}"
            )
        axis.set_ticks(range(size), labels)
    axes.set_title(title)
    return image


def draw_cells(
    axes: Axes,
    filled: Bool[Tensor, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    **look: Any,
) -> None:
    """Draw a table of yes and no: a filled cell is True. Errors and `look` as in `draw_map`."""
    draw_map(axes, filled, rows, columns, cmap=ListedColormap(["#f2f2f2", COLOURS[0]]), **look)
    for axis, size in ((axes.yaxis, len(rows)), (axes.xaxis, len(columns))):
        axis.set_ticks([i + 0.5 for i in range(size - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)


def running_mean(name: str, losses: Sequence[float], window: int) -> list[float]:
    """Return the mean of each `window` losses in a row.

    Errors: ValueError, with the name of the run, if it is shorter than the window.
    """
    if len(losses) < window:
        raise ValueError(f"expected at least {window} losses of {name!r}, got {len(losses)}")
    ends = range(window, len(losses) + 1)
    return [sum(losses[end - window : end]) / window for end in ends]


def plot_losses(
    losses: Mapping[str, Sequence[float]], window: int = 25, axes: Axes | None = None
) -> Axes:
    """Draw the training loss of one or more runs, each a mean over `window` steps, on a log scale.

    Errors: ValueError for a run shorter than the window.
    """
    curves = {
        name: (range(window, len(run) + 1), running_mean(name, run, window))
        for name, run in losses.items()
    }
    axes = draw_curves(axes or new_axes(), curves, "training step", "loss per token", markers=False)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    return axes


def plot_by_length(
    curves: Mapping[str, Sequence[LengthBin]],
    ylabel: str = "translated exactly",
    axes: Axes | None = None,
) -> Axes:
    """Draw an accuracy from 0 to 1 against the length of the source, one line for each curve.

    Empty bins are left out. Errors: ValueError for curves whose bins differ.
    """
    bins = [[(b.shortest, b.longest) for b in curve] for curve in curves.values()]
    if not bins or any(other != bins[0] for other in bins):
        raise ValueError(f"expected curves over the same bins of length, got {bins}")
    drawn = {}
    for name, curve in curves.items():
        places = [place for place, b in enumerate(curve) if b.count]
        drawn[name] = (places, [curve[place].accuracy for place in places])
    axes = draw_curves(axes or new_axes(), drawn, "tokens in the source", ylabel)
    axes.set_xticks(range(len(bins[0])), [f"{low} to {high}" for low, high in bins[0]])
    axes.set_ylim(-0.03, 1.03)
    return axes


def plot_heads(
    maps: Mapping[str, Float[Tensor, "query key"]],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    columns: int = 2,
) -> Axes:
    """Draw one attention map for each head under its title, all on one scale from 0 to 1.

    Errors: ValueError for no maps, or labels that are not one for each row or column.
    """
    panels = new_panels(len(maps), columns, (3.0, 2.9), (1.0, 0.4))
    for axes, (title, weights) in zip(panels, maps.items(), strict=True):
        image = draw_map(axes, weights, queries, keys, title=title)
        axes.tick_params(labelsize=8)
        if max(map(len, keys)) > 2:
            axes.tick_params(axis="x", rotation=90)
        axes.set_xlabel("key")
    for axes in panels[::columns]:
        axes.set_ylabel("query")
    panels[-1].figure.colorbar(image, ax=panels, label="weight", shrink=0.6)
    return panels[-1]


def plot_masks(
    masks: Mapping[str, Bool[Tensor, "query key"]],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    per_row: int = PANELS,
) -> Axes:
    """Draw boolean matrices side by side: filled = True, a cross = False. They are masks, or
    they say which output depends on which input.

    Positions are numbered from 0 unless labels are given, which then hold for all panels.

    Returns the last Axes. Errors: ValueError for no masks, or labels that do not fit.
    """
    panels = new_panels(len(masks), min(per_row, len(masks)), (2.5, 2.75), (0.2, 0.0))
    for axes, (title, mask) in zip(panels, masks.items(), strict=True):
        numbered = ([str(i) for i in range(size)] for size in mask.shape)
        rows, columns = (given or own for given, own in zip((queries, keys), numbered, strict=True))
        draw_cells(axes, mask, rows, columns, title=title)
        crosses = (~mask).nonzero().cpu().T.tolist()
        axes.scatter(crosses[1], crosses[0], marker="x", s=14, color="#8a8a8a", linewidths=0.8)
        if keys is not None:
            axes.tick_params(axis="x", rotation=90)
        axes.set(xlabel="key", ylabel="query")
    return panels[-1]
