"""Runs without a part: what is trained, what is measured, and what is kept of it."""

from itertools import repeat

import pytest
import torch

from chapters.transformer import part_runs
from chapters.transformer.part_runs import NOTHING, WARM_UP, Budget, Work, next_right, run, score
from chapters.transformer.parts import END_MARK, PARTS
from lib.data import Pair, Vocabulary, make_batch
from tests.helpers import unchecked

PAIRS = [Pair(tuple(x), tuple(reversed(x))) for x in ("abab", "baab", "aabb", "bb")]
VOCABS = [Vocabulary.from_sentences(pair[side] for pair in PAIRS) for side in (0, 1)]
TINY = Budget(1, 8, 2, 9, steps=4, batch_size=4, lr=1e-3, warmup=2)


def small(budget=TINY, **changes):
    batches = repeat(make_batch(PAIRS, *VOCABS))
    return Work(budget, VOCABS, lambda seed: batches, PAIRS, PAIRS[:2], 6, **changes)


def test_a_run_keeps_what_it_found_and_of_the_whole_model_what_it_uses(monkeypatch):
    asked = []
    monkeypatch.setattr(
        part_runs,
        "score",
        lambda model, work: asked.append((set(model.without), len(work.test))) or 0.5,
    )
    found = run(small(hidden=(END_MARK,), asked=3), NOTHING, 0)
    assert found.keys() == {"seconds", "loss", "exact", "next_right", "said", "used"}
    assert found["used"] == dict.fromkeys((NOTHING, *PARTS), 0.5)
    some = [({END_MARK}, 3), *(({END_MARK, part}, 3) for part in PARTS)]
    assert asked == [({END_MARK}, 4), *some]
    assert len(found["said"]) == 2
    found = run(small(score="bleu"), "positions", 0)
    assert found.keys() == {"seconds", "loss", "bleu", "next_right", "said"}
    assert asked[-1] == ({"positions"}, 4)


@pytest.mark.parametrize(
    ("left_out", "parts", "first"),
    [(NOTHING, set(), 0.5), (WARM_UP, set(), 1.0), ("positions", {"positions"}, 0.5)],
)
def test_what_is_left_out_of_the_model_and_of_its_training(monkeypatch, left_out, parts, first):
    rates = []
    train = part_runs.train
    monkeypatch.setattr(
        part_runs,
        "train",
        lambda *given, schedule, **more: (
            rates.append(schedule(0)) or train(*given, schedule=schedule, **more)
        ),
    )
    model, losses = part_runs.trained(small(), left_out, 0)
    assert model.without == parts
    assert len(losses) == 4
    assert rates == [first]


def test_a_model_that_learned_its_sentences_is_wholly_right():
    learned, _ = part_runs.trained(
        small(Budget(1, 16, 2, 32, steps=150, batch_size=4, lr=1e-2, warmup=10)), NOTHING, 0
    )
    with unchecked():
        assert score(learned, small()) == 1.0
        assert score(learned, small(score="bleu")) > 0
        assert next_right(learned, small()) == 1.0
    with torch.no_grad():
        learned.projection.weight.zero_()  # every word alike: it writes <pad> without end
    assert score(learned, small()) == 0.0
    assert next_right(learned, small()) == 0.0
