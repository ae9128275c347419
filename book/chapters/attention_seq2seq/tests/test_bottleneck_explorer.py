"""The bottleneck explorer: what it refuses, and how it sorts predictions into bins."""

import pytest

from chapters.attention_seq2seq.bottleneck_explorer import BottleneckExplorer
from chapters.attention_seq2seq.tests.samples import bins
from lib.data import Pair


def test_explorer_needs_two_names_and_a_bin_within():
    with pytest.raises(ValueError, match="names: expected 2 names of models, got 1"):
        BottleneckExplorer(bins(), names=["one"])
    with pytest.raises(ValueError, match="bin: expected a whole number from 0 to 2, got 3"):
        BottleneckExplorer(bins(), bin=3)


def test_explorer_sorts_predictions_into_bins():
    pairs = [Pair(("s",) * n, (f"t{n}", f"u{i}")) for i, n in enumerate([1, 5, 2, 7, 3, 5, 6])]
    right = [pair.target for pair in pairs]
    wrong = [("x",) if len(pair.source) > 2 else pair.target for pair in pairs]
    explorer = BottleneckExplorer.from_predictions(pairs, wrong, right, (1, 3, 7), examples=2)
    first, second = explorer.bins
    assert (first["label"], first["count"], first["accuracy"]) == ("1 to 3", 3, [0.67, 1.0])
    assert (second["label"], second["count"], second["accuracy"]) == ("4 to 7", 4, [0.0, 1.0])
    assert [len(e["source"]) for e in second["examples"]] == [5, 7], "the first ones, in order"
    assert second["examples"][0]["outputs"] == [["x"], ["t5", "u1"]]
    with pytest.raises(ValueError, match="expected sentences of 8 to 9 tokens, got none"):
        BottleneckExplorer.from_predictions(pairs, wrong, right, (1, 7, 9))
