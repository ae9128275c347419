"""Workers: what is sent to them, what comes back, and that no mistake of theirs hangs or stays."""

import functools
import linecache
import os
import signal
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from chapters.distributed.launch import WorkerError, run_workers
from tests.helpers import unchecked

CELLS = {
    "first": """
import torch
import torch.distributed as dist
from measure.costs import Link as Cable, messages_sent
from torch import nn

FACTORS = (2, 3.5)
BIG = torch.ones(3)


class Twice(nn.Module):
    def forward(self, x):
        return FACTORS[0] * x
""",
    "second": """
def doubled(x):
    return Twice()(x)


def counted(function):
    return function


@counted
def work(x, then=FACTORS):
    import os

    def inside():
        total = doubled(x) + dist.get_rank()
        dist.all_reduce(total)
        return total

    print(f"first of {dist.get_world_size()}")
    print("second line,", dist.get_backend(), torch.get_num_threads(), Cable(1, 2).bandwidth)
    return inside(), then, os.environ["GLOO_SOCKET_IFNAME"], messages_sent("all_reduce", 2)


def uses_a_tensor():
    return BIG.sum().item()


def calls_what_uses_a_tensor():
    return [uses_a_tensor() for _ in range(2)]


def unsaid():
    return missing_everywhere


def outer():
    def inner():
        return 1
    return inner
""",
}


@pytest.fixture
def notebook(monkeypatch):
    """The names of two cells, defined as a notebook does it."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    for name, text in CELLS.items():
        file = f"<cell {name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), vars(module))
    yield module
    for name in CELLS:
        linecache.cache.pop(f"<cell {name}>")


@pytest.mark.slow
def test_output_and_results_come_in_the_order_of_the_ranks(notebook):
    workers = run_workers(notebook.work, torch.tensor([1.0, 10.0]))
    assert repr(workers).splitlines() == [
        "rank 0: first of 2",
        "rank 0: second line, gloo 1 2",
        "rank 1: first of 2",
        "rank 1: second line, gloo 1 2",
    ]
    for total, factors, interface, messages in workers.results:
        assert total.tolist() == [5.0, 41.0]
        assert factors == (2, 3.5)
        assert interface.startswith("lo")
        assert messages == 2


@pytest.mark.slow
def test_what_the_notebook_has_comes_along(notebook):
    """A tensor, a function without a name, one that another function made, and one of a file."""
    assert run_workers(notebook.calls_what_uses_a_tensor, n=1).results == ([3.0, 3.0],)
    for work in (notebook.outer(), lambda: 1, functools.partial(int, "1")):
        with unchecked():
            assert run_workers(work, n=1).results == (1,)


def test_what_cannot_be_packed_is_named():
    lock = threading.Lock()

    def locked():
        return lock.locked()

    with pytest.raises(ValueError, match=r"got locked, .*cannot be packed .*lock.*inside the"):
        run_workers(locked)


@pytest.mark.slow
def test_a_worker_s_error_shows_the_cell(notebook):
    with pytest.raises(WorkerError, match=r"(?s)return missing_everywhere.*NameError") as caught:
        run_workers(notebook.unsaid, n=1)
    assert caught.value.error == "NameError"


@pytest.mark.parametrize("wrong", [{"n": 0}, {"patience": 0}, {"timeout": -1}])
def test_numbers_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="expected one worker or more"):
        run_workers(fails_in_one, **wrong)


def test_devices_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match='expected device "cpu" or "cuda"'):
        run_workers(fails_in_one, device="tpu")
    with pytest.raises(ValueError, match="expected a GPU for each of 99 workers"):
        run_workers(fails_in_one, n=99, device="cuda")


def fails_in_one(folder: str) -> None:
    Path(folder, f"pid {dist.get_rank()}").write_text(str(os.getpid()))
    if dist.get_rank() == 1:
        raise KeyError("no such word")
    dist.all_reduce(torch.ones(3))


def waits_for_ever(folder: str) -> None:
    Path(folder, f"pid {dist.get_rank()}").write_text(str(os.getpid()))
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(3))
    time.sleep(1000)


def ends_at_once() -> None:
    print("so far", flush=True)
    os._exit(7)


def assert_gone(folder: Path, n: int) -> None:
    found = [int(path.read_text()) for path in folder.glob("pid *")]
    assert len(found) == n
    for pid in found:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_error_is_that_of_the_rank_that_failed_first(tmp_path):
    with pytest.raises(WorkerError, match="rank 1 of 2 failed") as caught:
        run_workers(fails_in_one, str(tmp_path))
    assert (caught.value.rank, caught.value.error) == (1, "KeyError")
    assert 'raise KeyError("no such word")' in str(caught.value)
    assert caught.value._render_traceback_() == [f"WorkerError: {caught.value}"]
    assert_gone(tmp_path, 2)


def is_killed(folder: str) -> None:
    Path(folder, f"pid {dist.get_rank()}").write_text(str(os.getpid()))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(3))


@pytest.mark.slow
def test_a_killed_rank_is_named_and_not_the_one_that_lost_it(tmp_path):
    with pytest.raises(WorkerError, match="rank 1 of 2 was killed by SIGKILL") as caught:
        run_workers(is_killed, str(tmp_path))
    assert (caught.value.rank, caught.value.error) == (1, None)
    assert_gone(tmp_path, 2)


@pytest.mark.slow
def test_rank_that_waits_in_vain_is_told_so_and_none_is_left(tmp_path):
    with pytest.raises(WorkerError, match=r"(?s)rank 0 of 2 failed.*Timed out") as caught:
        run_workers(waits_for_ever, str(tmp_path), patience=1)
    assert "dist.all_reduce(torch.ones(3))" in str(caught.value)
    assert_gone(tmp_path, 2)


@pytest.mark.slow
def test_all_are_ended_when_the_time_is_over():
    start = time.monotonic()
    with pytest.raises(WorkerError, match="expected 1 workers to end within 3 seconds") as caught:
        run_workers(time.sleep, 1000, n=1, timeout=3)
    assert "rank 0" in str(caught.value)
    assert time.monotonic() - start < 30


@pytest.mark.slow
def test_process_that_just_ends_is_reported():
    with pytest.raises(WorkerError, match="rank 0 of 1 ended without a result"):
        run_workers(ends_at_once, n=1)
