"""The figures of the chapter: attention maps over a sentence, strips and maps over a picture."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from kit.shared.axes import new_axes


def plot_attention_map(
    weights: Float[Tensor, "query key"],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    axes: Axes | None = None,
) -> Axes:
    """Draw one attention map as a picture: rows are queries, columns are keys, dark is 1.

    Errors: ValueError for labels that are not one for each row or column.
    """
    for name, labels, size in (
        ("queries", queries, weights.shape[0]),
        ("keys", keys, weights.shape[1]),
    ):
        if labels is not None and len(labels) != size:
            raise ValueError(f"expected {size} labels for the {name}, got {len(labels)}")
    if axes is None:
        axes = new_axes(4.4, 3.6)
    axes.grid(False)
    image = axes.imshow(
        weights.detach().cpu().numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )
    axes.figure.colorbar(image, ax=axes, label="weight")
    if queries is not None:
        axes.set_yticks(range(len(queries)), queries)
    if keys is not None:
        axes.set_xticks(range(len(keys)), keys, rotation=0 if max(map(len, keys)) < 6 else 45)
    axes.set(xlabel="key", ylabel="query", title=title)
    return axes


def plot_strips(
    images: Float[Tensor, "batch 1 height width"], titles: Sequence[str], *, columns: int = 2
) -> Axes:
    """Draw pictures in a table, each under its title; ink is dark.

    Errors: ValueError for titles that are not one for each picture.
    """
    if len(titles) != len(images):
        raise ValueError(f"expected {len(images)} titles, one a picture, got {len(titles)}")
    rows = -(-len(images) // columns)
    panels = _panels(rows, columns, (3.4 * columns, 1.2 * rows))
    for axes in panels[len(images) :]:
        axes.remove()
    for axes, image, title in zip(panels, images, titles, strict=False):
        _draw(axes, image)
        axes.set_title(title, fontsize=9)
    return panels[len(images) - 1]


def plot_caption(
    image: Float[Tensor, "1 height width"],
    words: Sequence[str],
    maps: Float[Tensor, "time rows columns"],
) -> Axes:
    """Draw the picture once for each word (the query), under that word's weights over the cells.

    The weights are drawn in blue, each map up to its own largest weight.
    Errors: ValueError for words that are not one for each map.
    """
    if len(words) != len(maps):
        raise ValueError(f"expected {len(maps)} words, one a map, got {len(words)}")
    panels = _panels(len(words), 1, (5.2, 1.25 * len(words)))
    _, height, width = image.shape
    for axes, word, weights in zip(panels, words, maps, strict=True):
        _draw(axes, image)
        edges = (-0.5, width - 0.5, height - 0.5, -0.5)
        weights = weights.detach().cpu().numpy()
        axes.imshow(weights, cmap="Blues", vmin=0, alpha=0.65, extent=edges)
        axes.set_ylabel(word, rotation=0, ha="right", va="center")
    return panels[-1]


def _panels(rows: int, columns: int, size: tuple[float, float]) -> list[Axes]:
    _, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", facecolor="white", squeeze=False
    )
    return list(grid.flat)


def _draw(axes: Axes, image: Float[Tensor, "1 height width"]) -> None:
    axes.imshow(image[0].cpu().numpy(), cmap="Greys", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
