"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.bottleneck_explorer import BottleneckExplorer


def sentences() -> list[dict]:
    """Two sentences; sizes that cannot be mixed up: 3 by 2, then 5 by 4."""
    return [
        {
            "source": ["two", "euros", "<eos>"],
            "output": ["deux", "euros"],
            "reference": ["deux", "euros"],
            "weights": [[0.75, 0.25, 0.0], [0.125, 0.875, 0.0]],
            "candidates": [[("deux", 0.9), ("dix", 0.1)], [("euros", 0.996), ("francs", 0.004)]],
        },
        {
            "source": ["canadian", "dollars", "two", "<b>ago</b>", "<eos>"],
            "output": ["deux", "dollars", "canadiens", "<eos>"],
            "reference": ["deux", "dollars", "canadiens", "passés"],
            "weights": [
                [0.0, 0.1, 0.9, 0.0, 0.0],
                [0.0, 1.0, 0.0, 0.0, 0.0],
                [0.6, 0.2, 0.1, 0.1, 0.0],
                [0.0, 0.0, 0.0, 0.0, 1.0],
            ],
            "candidates": [
                [("deux", 0.5), ("dix", 0.25), ("<s>", 0.25)],
                [("dollars", 1.0)],
                [("dollars", 0.5), ("canadiens", 0.4)],  # not the likeliest: sampled, or a beam
                [("<eos>", 0.75)],
            ],
        },
    ]


def bins() -> list[dict]:
    """Three lengths; in the second, the first model errs in every way."""
    right = {"source": ["a", "b"], "reference": ["x", "y"], "outputs": [["x", "y"], ["x", "y"]]}
    wrong = {
        "source": ["a", "b", "c"],
        "reference": ["x", "y", "z", "u"],
        "outputs": [["w", "y", "y", "z"], ["x", "y", "z", "u"]],
    }
    empty = {"source": ["<i>q</i>"], "reference": ["x", "y", "z"], "outputs": [[], ["x", "y"]]}
    return [
        {"label": "1 to 2", "count": 7, "accuracy": [1.0, 1.0], "examples": [right]},
        {"label": "3 to 5", "count": 11, "accuracy": [0.55, 0.98], "examples": [wrong, right]},
        {"label": "6 to 9", "count": 13, "accuracy": [0.0, 0.5], "examples": [empty]},
    ]


SAMPLES = {
    "alignment_player": lambda: AlignmentPlayer(sentences(), sentence=1, step=2),
    "bottleneck_explorer": lambda: BottleneckExplorer(bins(), bin=1),
}
