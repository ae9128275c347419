"""The alignment player: what it refuses, and that it shows what a model does."""

import numpy as np
import pytest
import torch

from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.tests.samples import sentences
from lib.data import Pair, Vocabulary
from widgets.domain import quantise


def spoilt(change) -> list[dict]:
    found = sentences()
    change(found[1])
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("weights"), r"sentences\[1\]: expected a mapping with \['candidates'"),
        (lambda s: s.update(source="canadian"), r"\[1\].source: expected a list of at least one"),
        (lambda s: s.update(output=[]), r"\[1\].output: expected a list of at least one entry"),
        (lambda s: s.update(reference=[3]), r"\[1\].reference\[0\]: expected text, got 3"),
        (
            lambda s: s.update(weights=np.array(s["weights"]).T),
            r"\[1\].weights: expected 4 rows of 5 numbers, got 5 rows of lengths \[4\]",
        ),
        (lambda s: s["weights"].pop(), r"expected 4 rows of 5 numbers, got 3 rows"),
        (
            lambda s: s["weights"].__setitem__(2, [0.2] * 4 + [1.0]),
            r"weights\[2\]: expected numbers of at least 0 that sum to 1, got the sum 1.800",
        ),
        (lambda s: s["weights"].__setitem__(0, [2.0, -1, 0, 0, 0]), r"weights\[0\]: expected numb"),
        (lambda s: s["weights"][0].__setitem__(0, float("nan")), r"weights: expected finite"),
        (lambda s: s["candidates"].pop(), r"one list for each of 4 output tokens, got 3"),
        (
            lambda s: s.update(candidates=[[("a", 0.2), ("b", 0.5)]] * 4),
            r"candidates\[0\]: expected the likeliest first, got \[0.2, 0.5\]",
        ),
        (lambda s: s.update(candidates=[[("a", 2)]] * 4), "expected a number from 0 to 1, got 2"),
        (lambda s: s.update(candidates=[["ab"]] * 4), r"expected \(token, probability\), got 'ab'"),
    ],
)
def test_player_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        AlignmentPlayer(spoilt(change))


@pytest.mark.parametrize("start", [{"sentence": 2}, {"sentence": -1}, {"step": 2}])
def test_player_starts_within_its_data(start):
    with pytest.raises(ValueError, match="expected a whole number from 0 to 1, got"):
        AlignmentPlayer(sentences(), **start)


class Repeater(torch.nn.Module):
    """A model with known behaviour: writes the source's tokens, each looking at its own."""

    def __init__(self, attends: bool = True):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.attends = attends

    def start(self, source, source_lengths):
        assert source_lengths.tolist() == [source.shape[1]]
        return source, 0

    def step(self, token, state):
        source, time = state
        weights = torch.eye(source.shape[1])[time : time + 1] if self.attends else None
        logits = torch.zeros(1, 7)
        logits[0, source[0, time]] = 3.0
        logits[0, 6] = 1.0
        return logits, weights, (source, time + 1)


def test_player_shows_what_a_model_does():
    vocabulary = Vocabulary(["a", "b", "c"])
    model = Repeater().train()
    pair = Pair(("b", "a"), ("b", "c"))
    player = AlignmentPlayer.from_model(model, [pair], vocabulary, vocabulary, k=2)
    [one] = player.sentences
    assert one["source"] == ["b", "a", "<eos>"]
    assert one["output"] == ["b", "a", "<eos>"]
    assert one["reference"] == ["b", "c", "<eos>"]
    assert one["weights"] == torch.eye(3).tolist()
    best, other = torch.tensor([3.0, 1.0]).exp() / torch.tensor([3.0, 1, 0, 0, 0, 0, 0]).exp().sum()
    assert [token for token, _ in one["candidates"][0]] == ["b", "c"]
    assert [p for _, p in one["candidates"][0]] == quantise([best.item(), other.item()])
    assert model.training, "the model is left as it came"
    short = AlignmentPlayer.from_model(model, [pair], vocabulary, vocabulary, max_length=2, k=1)
    assert short.sentences[0]["output"] == ["b", "a"]


def test_player_needs_a_model_with_attention():
    vocabulary = Vocabulary(["a", "b", "c"])
    pair = Pair(("b",), ("b",))
    model = Repeater(attends=False)
    with pytest.raises(ValueError, match="expected a model whose steps return weights"):
        AlignmentPlayer.from_model(model, [pair], vocabulary, vocabulary)
    assert model.training, "the model is left as it came"
