"""A sharded model learns what one process learns, and each rank holds its part of it."""

import pytest
import torch
from torch import nn

from chapters.distributed.sharded import Held, held, shard
from chapters.distributed.tests.in_workers import MODELS, STEPS, trained
from tests.helpers import assert_close, unchecked


@pytest.fixture(scope="module")
def alone():
    return {kind: trained(kind, 1, 0) for kind in MODELS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("what", ["parameters", "gradients"])
def test_after_some_steps_all_is_as_in_one_process(two_workers, alone, kind, what):
    wanted = alone[kind][what]
    for found in two_workers:
        assert found["sharded"][kind][what].keys() == wanted.keys()
        for name, one in wanted.items():
            assert_close(found["sharded"][kind][what][name], one, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_the_ranks_read_different_sentences_and_their_losses_average(two_workers, alone, kind):
    ranks = [found["sharded"][kind]["losses"] for found in two_workers]
    assert ranks[0] != ranks[1]
    means = [sum(both) / 2 for both in zip(*ranks, strict=True)]
    assert means == pytest.approx(alone[kind]["losses"], abs=1e-10)
    assert len(means) == STEPS


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_each_rank_holds_its_part(two_workers, alone, kind):
    whole = alone[kind]["held"]
    ranks = [found["sharded"][kind]["held"] for found in two_workers]
    assert sum(one.parameters for one in ranks) == whole.parameters
    assert sum(one.gradients for one in ranks) == whole.gradients == whole.parameters
    for one in ranks:
        assert one == pytest.approx([part / 2 for part in whole], rel=0.01)
        assert one.total == sum(one)


def test_held_counts_bytes():
    model = nn.Linear(3, 5)
    assert held(model) == Held(4 * 20, 0, 0)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    assert held(model, optimizer) == Held(80, 80, 80)


def test_model_without_layers_is_refused():
    with unchecked(), pytest.raises(ValueError, match="got Linear"):
        shard(nn.Linear(3, 5), None)
