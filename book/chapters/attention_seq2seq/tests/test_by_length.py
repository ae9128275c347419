"""What a record keeps of a run: fractions by length of the source, at the steps asked for."""

import pytest

from chapters.attention_seq2seq import by_length
from lib.data import Pair, Vocabulary
from lib.seq2seq import Seq2Seq
from tasks.lists import Sets

SHORT = Pair(("two", "euros"), ("deux", "euros"))
LONG = Pair(("six", *["and", "six"] * 5), ("six", *["et", "six"] * 5))


@pytest.fixture
def sets():
    """Two short held-out sentences and a long one, and one beyond training."""
    found = object.__new__(Sets)
    found.training = [SHORT, LONG]
    found.test = [SHORT, SHORT, LONG]
    found.bins = [[SHORT, SHORT], [LONG], [LONG]]
    found.vocabularies = [
        Vocabulary.from_sentences(pair[side] for pair in found.test) for side in (0, 1)
    ]
    return found


def test_fractions_are_those_of_each_length(sets, monkeypatch):
    said = [list(SHORT.target), ["deux"], list(LONG.target), ["six"]]
    monkeypatch.setattr(by_length, "freely", lambda model, pairs, sets: said)
    assert len(LONG.source) == by_length.LONG
    found = by_length.evaluate(Seq2Seq(5, 5, 3, 3), sets)
    assert found == {"all": 0.6667, "long": 1.0, "exact": [0.5, 1.0, 0.0]}


def test_a_run_is_looked_at_where_asked_and_repeats_with_its_seed(sets):
    net, losses, kept = by_length.train_and_evaluate(Seq2Seq, 0, sets, (1, 3))
    assert [point["step"] for point in kept["checkpoints"]] == [1, 3]
    assert len(losses) == 3
    assert [point["loss"] for point in kept["checkpoints"]] == [round(losses[i], 5) for i in (0, 2)]
    assert kept["parameters"] == sum(p.numel() for p in net.parameters())
    assert by_length.train_and_evaluate(Seq2Seq, 0, sets, (1, 3))[1] == losses
    assert by_length.train_and_evaluate(Seq2Seq, 1, sets, (1, 3))[1] != losses
