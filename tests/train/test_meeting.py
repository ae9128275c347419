"""How the ranks of one start find each other, and leave: threads stand for their processes."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch

import train.ranks
from train.ranks import Ranks, _meet


def meet(store, world, ranks=None):
    """The number of the start that each rank hears, or the error that it raises, by rank."""

    def one(rank):
        try:
            return _meet(store, rank, world)
        except RuntimeError as error:
            return str(error)

    asked = range(world) if ranks is None else ranks
    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(one, asked), strict=True))


@pytest.fixture
def store():
    return torch.distributed.HashStore()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_all_ranks_hear_the_same_number_of_each_start(store, world):
    for start in (1, 2, 3):
        assert meet(store, world) == dict.fromkeys(range(world), start)


@pytest.mark.parametrize("ended", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_a_start_in_which_some_have_ended_leaves_the_next_one_alone(store, ended, monkeypatch):
    """Whoever was there has answered to a number that is never complete."""
    monkeypatch.setattr(train.ranks, "MEETING", timedelta(seconds=0.5))
    there = [rank for rank in range(3) if rank not in ended]
    for said in meet(store, 3, there).values():
        assert str(said).startswith("no answer from process ")
    monkeypatch.setattr(train.ranks, "MEETING", timedelta(seconds=60))
    assert len({*meet(store, 3).values()}) == 1


def test_a_rank_that_comes_first_does_not_take_the_last_start_for_its_own(store):
    """It finds the number of the start before, which is complete."""
    assert meet(store, 2) == {0: 1, 1: 1}
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(_meet, store, 1, 2)
        time.sleep(0.5)
        assert not early.done()
        assert _meet(store, 0, 2) == early.result(timeout=60) == 2


def test_the_missing_ranks_are_named(store, monkeypatch):
    monkeypatch.setattr(train.ranks, "MEETING", timedelta(seconds=0.5))
    assert meet(store, 4, [0, 2]) == {
        0: "no answer from process 1, 3",
        2: "no answer from process 0",
    }


def test_no_rank_leaves_before_the_first_is_done(store):
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(Ranks(1, 2, store=store).end_together)
        time.sleep(0.3)
        assert not waits.done()
        Ranks(0, 2, store=store).end_together()
        waits.result(timeout=60)
    Ranks().end_together()


@pytest.mark.parametrize(
    ("here", "threads", "wanted", "found"),
    [
        (1, 1, None, 1),  # as torch says
        (1, 1, 9, 9),  # as the run had them that goes on
        (2, 1, None, 8),  # torchrun's 1
        (2, 3, None, 3),  # said by OMP_NUM_THREADS
        (2, 1, 16, 8),  # of a run of one process
        (2, 1, 1, 1),
        (99, 1, None, 1),
    ],
)
def test_several_ranks_share_the_processor(monkeypatch, here, threads, wanted, found):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert Ranks(0, here, here=here).threads(wanted) == found
