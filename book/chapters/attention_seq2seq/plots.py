"""The figures of the chapter: attention maps over a sentence, strips and maps over a picture."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import draw_map, new_axes, new_panels


def plot_attention_map(
    weights: Float[Tensor, "query key"],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    axes: Axes | None = None,
) -> Axes:
    """Draw one attention map as a picture: rows are queries, columns are keys, the strongest is 1.

    Errors: ValueError for labels that are not one for each row or column.
    """
    axes = axes or new_axes(4.4, 3.6)
    axes.grid(False)
    image = draw_map(axes, weights, queries, keys, title=title, aspect="auto")
    axes.figure.colorbar(image, ax=axes, label="weight")
    if keys is not None and max(map(len, keys)) > 5:
        axes.tick_params(axis="x", rotation=45)
    axes.set(xlabel="key", ylabel="query")
    return axes


def plot_strips(
    images: Float[Tensor, "batch 1 height width"], titles: Sequence[str], *, columns: int = 2
) -> Axes:
    """Draw pictures in a table, each under its title; ink is dark. Returns the last Axes.

    Errors: ValueError for titles that are not one for each picture.
    """
    if len(titles) != len(images):
        raise ValueError(f"expected {len(images)} titles, one a picture, got {len(titles)}")
    panels = new_panels(len(images), columns, (3.4, 1.2))
    for axes, image, title in zip(panels, images, titles, strict=True):
        _draw_picture(axes, image)
        axes.set_title(title, fontsize=9)
    return panels[-1]


def plot_caption(
    image: Float[Tensor, "1 height width"],
    words: Sequence[str],
    maps: Float[Tensor, "time rows columns"],
) -> Axes:
    """Draw the picture once for each word (the query), under that word's weights over the cells.

    The weights are drawn in blue, each map up to its own largest weight. Returns the last Axes.
    Errors: ValueError for words that are not one for each map.
    """
    if len(words) != len(maps):
        raise ValueError(f"expected {len(maps)} words, one a map, got {len(words)}")
    panels = new_panels(len(words), 1, (5.2, 1.25))
    _, height, width = image.shape
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    for axes, word, weights in zip(panels, words, maps, strict=True):
        _draw_picture(axes, image)
        draw_map(axes, weights, vmax=None, alpha=0.65, extent=edges)
        axes.set_ylabel(word, rotation=0, ha="right", va="center")
    return panels[-1]


def _draw_picture(axes: Axes, image: Float[Tensor, "1 height width"]) -> None:
    draw_map(axes, image[0], cmap="Greys")
    axes.set(xticks=[], yticks=[])
