"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.multi_head.ablation import head_codes, layer_codes
from chapters.multi_head.head_ablation import HeadAblation
from lib.data import Pair
from tests.packed import packed


def measured(n_layers: int = 1, n_heads: int = 2, d_v: int = 3) -> dict:
    """What a script would have recorded of the heads of `packed()`: no two figures alike."""
    heads, layers = head_codes(n_layers, n_heads), layer_codes(n_layers)
    kinds = {
        mode: {
            "single": {head: {"exact": 0.9 - 0.1 * i - by} for i, head in enumerate(heads)},
            "layers": {layer: {"exact": 0.3 - 0.1 * i - by} for i, layer in enumerate(layers)},
        }
        for mode, by in (("zero", 0.05), ("mean", 0.02))
    }
    means = {
        layer: [[i + h + 0.125 * k for k in range(d_v)] for h in range(n_heads)]
        for i, layer in enumerate(layers)
    }
    return {"sentences": 700, "whole": {"exact": 0.95}, "ablations": kinds, "means": means}


SAMPLES = {
    "head_ablation": lambda: HeadAblation(
        packed(),
        [Pair(("six", "days"), ("six", "jours")), Pair(("in", "<i>"), ("dans", "<b>", "six"))],
        measured(),
        ready=["six days", "days"],
        off="e1.2_c1.1",
        mode="mean",
        sentence=1,
    ),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("head_ablation", "off"): (
        ["", "e1.1", "e1.2_d1.1_c1.2"],
        ["e1.3", "x1.1", "e1", "c1.1_e1.1", "e1.1_e1.1", "e1.1_", "e1.1 d1.1"],
    ),
    ("head_ablation", "own"): (["", "six days", "days in"], ["six cats", " ", "six " * 49]),
}
