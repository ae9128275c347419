"""What the losses of chapter 14 ask for, and what it says of them, against the record."""

import pytest
import torch

from chapters.families import families
from chapters.families.experiments.families_losses import SETTINGS, asked, conclude
from lib.data import PAD
from measure.records import read_results

ROWS = torch.tensor([[1, 5, 6, 2, 7, 8, 2, 0], [1, 9, 10, 11, 2, 12, 13, 2]])


def test_record_bears_what_the_chapter_says():
    record = read_results("families_losses")
    assert list(record["settings"]) == list(SETTINGS)
    assert {len(x) for one in record["settings"].values() for x in one.values()} == {3}
    conclude(record)


@pytest.mark.parametrize(("name", "source"), [("every token", 1.0), ("sources a tenth", 0.1)])
def test_how_much_a_target_counts(name, source):
    setting = next(one for key, one in SETTINGS.items() if key.startswith(name))
    inputs, (targets, weights) = asked(setting, ROWS)
    assert inputs.equal(ROWS[:, :-1])
    assert targets.equal(ROWS[:, 1:])
    wanted = [[source] * 3 + [1, 1, 1, 0], [source] * 4 + [1, 1, 1]]
    assert torch.allclose(weights, torch.tensor(wanted))


def test_shuffled_sources_are_those_of_another_row():
    _, (targets, weights) = asked(SETTINGS["shuffled sources"], ROWS)
    assert targets.tolist() == [[9, 10, 11, 7, 8, 2, PAD], [5, 6, 2, PAD, 12, 13, 2]]
    assert weights.equal((targets != PAD).float())


def test_a_fraction_of_the_targets():
    torch.manual_seed(0)
    rows = ROWS.repeat(500, 1)
    for name, fraction, most in (
        ("15 % of every token", 0.15, 13),
        ("31 % of every token", 0.31, 13),
        ("15 % of the translation", 0.15, 6),
    ):
        _, (targets, weights) = asked(SETTINGS[name], rows)
        kept = weights.sum().item() / 500
        assert kept == pytest.approx(fraction * most, rel=0.1)
        assert not weights[targets == PAD].any()


def test_visible_words_too():
    torch.manual_seed(0)
    inputs, (targets, weights) = asked(SETTINGS["15 % hidden, visible words too"], ROWS)
    words = ROWS > families.EOS
    assert targets.equal(ROWS.masked_fill(~words, PAD))
    assert weights.equal(words.float())
    assert ((inputs == ROWS) | (inputs == families.MASK)).all()
