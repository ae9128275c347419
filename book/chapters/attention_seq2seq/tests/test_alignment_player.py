"""The alignment player: what it refuses, and that it shows what a model does."""

import pytest
import torch

from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.tests.samples import sentences
from lib.data import Pair, Vocabulary
from widgets.domain import quantise


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
