"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

import math

from chapters.attention_layer.query_plane import QueryPlane
from chapters.attention_layer.softmax_scale import SoftmaxScaleExplorer

SAMPLES = {
    "query_plane": lambda: QueryPlane(
        [1.5, -0.5],
        [[1.0, 0.5], [-0.25, 1.5], [2.0, -1.0], [0.0, -2.0]],
        [[-2.0, 1.0], [2.5, 2.0], [1.0, -2.5], [-1.5, -1.5]],
        scaled=True,
        temperature=0.7,
    ),
    "softmax_scale": lambda: SoftmaxScaleExplorer(16, scaled=True, n_keys=11, seed=3),
}

PLACES = [[0.5, 1.0], [-1.25, 2.0], [0.0, 0.0], [3.0, 3.0], [-3.0, 0.01]]
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("query_plane", "query"): (
        [[0.0, 0.0], [3.0, -3.0], [0.1, -2.75]],
        ["1,1", [1.0], [1, 2, 3], [3.1, 0], [0, -3.1], [math.nan, 0], [[1, 1]]],
    ),
    **{
        ("query_plane", name): (
            [PLACES, [[3.0, -3.0]] * 5],
            [PLACES[:4], [*PLACES, [0, 0]], [*PLACES[:4], [0, 3.1]], [[0]] * 5, "1,1"],
        )
        for name in ("key", "value")
    },
}
