"""Several processes take the step of one; `in_ranks.py` says what each of them measures."""

import os
import subprocess
import sys
from itertools import chain, zip_longest

import pytest
import torch

from chapters.distributed.experiments.two_processes import stop
from lib.data import PAD, BatchStream
from lib.training import count_tokens
from tests.helpers import assert_close
from tests.paths import BOOK, ROOT
from tests.train import in_ranks
from train.ranks import Ranks, joined

PATIENCE = 240  # seconds
pytestmark = pytest.mark.slow
each_case = pytest.mark.parametrize("case", in_ranks.CASES)


@pytest.fixture(scope="module", params=[2, 3])
def found(request, tmp_path_factory):
    """What so many processes measured together."""
    path = tmp_path_factory.mktemp("ranks") / "found.pt"
    launcher = "-m torch.distributed.run --standalone --nproc-per-node"
    command = [*launcher.split(), str(request.param), "-m", "tests.train.in_ranks", str(path)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (BOOK, ROOT))),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    launcher = subprocess.Popen(
        [sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        _, said = launcher.communicate(timeout=PATIENCE)
    finally:
        stop(launcher)
    assert launcher.returncode == 0, said
    return torch.load(path, weights_only=True)


@pytest.fixture(scope="module")
def alone():
    return in_ranks.measured(Ranks())


@each_case
def test_the_step_is_that_of_one_process(found, alone, case):
    here, wanted = found["updates"][case], alone["updates"][case]
    assert here["tokens"] == wanted["tokens"]
    assert_close(here["loss"], wanted["loss"], 1e-10)
    for name in ("gradients", "parameters"):
        for got, right in zip(here[name], wanted[name], strict=True):
            assert_close(got, right, 1e-10)


@each_case
def test_half_of_the_cases_are_clipped(alone, case):
    """What the test above would miss if no gradient were longer than `clip`."""
    norm = torch.cat([g.flatten() for g in alone["updates"][case]["gradients"]]).norm().item()
    assert (norm == pytest.approx(0.01, rel=1e-4)) == ("clip 0.01" in case)
    assert norm > 0.009


@pytest.mark.parametrize("world", [2, 3])
def test_a_mean_of_the_ranks_means_would_be_another_loss(world):
    """What the test of the step would miss if all ranks had as many tokens."""
    batch = in_ranks.some_batches()[0]
    tokens = [count_tokens(Ranks(rank, world).part(batch)) for rank in range(world)]
    assert len(set(tokens)) == world
    assert sum(tokens) == count_tokens(batch)


def test_each_sentence_is_read_once_an_epoch_in_the_batch_of_one_process(found, alone):
    ranks, (whole,) = found["sentences"], alone["sentences"]
    assert len(ranks) == found["world"]
    for parts, batch in zip(zip(*ranks, strict=True), whole, strict=True):
        together = [one for row in zip_longest(*parts) for one in row if one is not None]
        assert together == batch  # in turn: rank 0, 1, ..., 0, 1, ...
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
    halves = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    epochs = [sorted(chain(*half)) for half in halves]
    assert epochs[0] == epochs[1]
    assert len(epochs[0]) == len(in_ranks.pairs())


def test_ranks_have_about_as_many_tokens_as_each_other():
    """Contiguous parts of a batch that is sorted by length would differ more."""
    stream = BatchStream(in_ranks.pairs(300), in_ranks.WORDS, in_ranks.WORDS, batch_size=32)
    batches = [next(stream) for _ in range(stream.per_epoch)]

    def spread(parts):
        sums = [sum(int((part != PAD).sum()) for part in of_rank) for of_rank in parts]
        return max(sums) / min(sums)

    world = 4
    strided = [[Ranks(r, world).part(b).source for b in batches] for r in range(world)]
    contiguous = [[b.source.chunk(world)[r] for b in batches] for r in range(world)]
    assert spread(strided) < 1.03
    assert spread(contiguous) > spread(strided)


def test_a_rank_without_a_sentence_has_no_token():
    part = Ranks(2, 3).part(in_ranks.some_batches()[3])
    assert part.source.shape == part.target_out.shape == (1, 1)
    assert count_tokens(part) == 0


def test_validation_is_that_of_one_process_on_every_rank(found, alone):
    assert len(found["validated"]) == found["world"]
    assert found["validated"] == pytest.approx(alone["validated"] * found["world"], abs=1e-10)


def test_gradients_travel_once_an_update(found):
    assert found["exchanges"] == [3, 3]  # in three updates of one batch, and of three


def test_copies_made_anew_change_no_bit(found):
    """Without the pass in `replicate`, three ranks add in another order after a restart."""
    whole, pieces = found["pieces"]
    assert all(map(torch.equal, whole, pieces))


def test_a_wish_of_one_rank_is_that_of_all(found):
    assert [list(flags) for flags in found["any"]] == [[False, True, True]] * found["world"]


def test_what_one_rank_cannot_do_none_does(found):
    message = "expected a file, got none"
    for rank, said in enumerate(found["agreed"]):
        assert said[0] == (message if rank == 1 else f"process 1: {message}")
        assert said[1] == (message if rank == 0 else f"process 0: {message}")
        assert said[2] == rank
        assert said[3] is None
        assert "expected the same options, sentences and checkpoint in all" in said[4]


def test_every_rank_draws_other_numbers_and_goes_on_with_them(found):
    numbers = found["random"]
    assert numbers["new"] == numbers["again"]
    assert len({*numbers["new"], *numbers["other size"][1:]}) == 2 * found["world"] - 1
    assert numbers["new"][0] == numbers["other size"][0]  # rank 0 keeps those of one process
    assert numbers["resumed"] == numbers["going on"]


def test_a_process_of_its_own_is_left_as_it_is(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with joined() as ranks:
        assert ranks == Ranks()
    net, (batch, *_) = in_ranks.model(), in_ranks.some_batches()
    assert ranks.replicate(net) is net
    assert ranks.part(batch) is batch
    assert ranks.loss_of_all(in_ranks.LOSS) is in_ranks.LOSS
    assert ranks.gather(net) == [net]
    assert ranks.any(True, False) == (True, False)
    assert ranks.device("cuda:1") == "cuda:1"
    assert not ranks.abandoned()


@pytest.mark.parametrize(
    ("gpus", "name", "wanted"),
    [
        (2, "auto", "cuda:1"),
        (2, "cuda", "cuda:1"),
        (1, "auto", "cpu"),
        (0, "auto", "cpu"),
        (8, "cpu", "cpu"),
    ],
)
def test_each_process_has_a_gpu_of_its_own(monkeypatch, gpus, name, wanted):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert Ranks(3, 4, local=1, here=2).device(name) == wanted


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda", "expected a GPU for each of 2 processes, got 1 of them; start as many"),
        ("cuda:0", "got --device cuda:0, which is one; say --device cuda, or start one process"),
    ],
)
def test_processes_do_not_share_a_gpu(monkeypatch, name, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=message):
        Ranks(0, 2, here=2).device(name)


def test_only_rank_0_speaks(capsys):
    for rank in (0, 1):
        with Ranks(rank, 2).only_first_speaks():
            print(f"said by {rank}")
    assert capsys.readouterr().out == "said by 0\n"


def test_an_error_is_told_once(capsys):
    store = torch.distributed.HashStore()
    Ranks(1, 2, store=store).report("the cause")
    Ranks(0, 2, store=store).report("what came of it")
    assert capsys.readouterr().err == "the cause\n"


def test_a_lost_connection_is_told_from_a_mistake():
    ranks = Ranks(0, 2, store=torch.distributed.HashStore())
    assert ranks.lost(RuntimeError("gloo/transport/tcp/pair.cc: Connection closed by peer"))
    assert ranks.lost(torch.distributed.DistBackendError("NCCL"))
    assert not ranks.lost(RuntimeError("size mismatch"))
    assert not Ranks().lost(RuntimeError("gloo"))
