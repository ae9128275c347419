"""How long collective operations take over loopback, and whether the ring's formula says so.

    python experiments/communication.py [--ranks 2 3 4]        (two minutes)

For each number of processes, the median time of gloo's all-reduce, all-gather and reduce-scatter
of vectors from 1 KiB to 64 MiB; latency and bandwidth fitted to the all-reduce of two processes;
and what `measure.costs` then predicts for all others. The slowest rank counts.
On Linux also the bytes that each rank sends.
Processes that share cores also share the time to add and to copy: more of them than cores, and any
other work on the machine, make the times longer.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.distributed.launch import run_workers
from measure.costs import PASSES, Link, bytes_sent
from measure.experiments import command_line
from measure.observed import Measured, fit_link, relative_errors
from measure.records import write_results

SIZES = [1024 * 4**k for k in range(9)]
SHORTEST, MOST, LEAST = 0.5, 200, 7  # seconds of repetitions for one median, and their number


def operations(nbytes: int) -> tuple[int, dict[str, Callable[[], object]]]:
    """The bytes of a vector that the ranks can divide, and each collective operation on it."""
    n = dist.get_world_size()
    whole = torch.zeros(nbytes // 4 // n * n)
    part = torch.zeros(len(whole) // n)
    return 4 * len(whole), {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
    }


def times_of_kinds(sizes: list[int], shortest: float, least: int, most: int) -> list[list]:
    """Of each kind and size the median of the slowest rank's seconds, and the quartiles."""
    found = []
    for size in sizes:
        nbytes, kinds = operations(size)
        for kind, operate in kinds.items():
            taken: list[float] = []
            while len(taken) < most and (len(taken) < least + 2 or sum(taken) < shortest):
                dist.barrier()
                start = time.perf_counter()
                operate()
                slowest = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
                dist.all_reduce(slowest, dist.ReduceOp.MAX)  # so all ranks stop at the same one
                taken.append(slowest.item())
            low, median, high = statistics.quantiles(taken[2:], n=4)  # the first ones connect
            found.append([kind, nbytes, median, low, high, len(taken) - 2])
    return found


def sent_by_rank(size: int, times: int) -> dict[str, float]:
    """Bytes that a rank sends, per byte of the vector: what Linux counts on the loopback interface.

    The median of several counts, as others use the interface too.
    """
    nbytes, kinds = operations(size)
    found = {}
    for kind, operate in kinds.items():
        counts = []
        for _ in range(times):
            dist.barrier()
            before = loopback_bytes()
            dist.barrier()  # none begins to send before all have counted
            operate()
            dist.barrier()
            counts.append(loopback_bytes() - before)
        found[kind] = statistics.median(counts) / dist.get_world_size() / nbytes
    return found


def loopback_bytes() -> int:
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def measured_rows(n: int) -> list[dict[str, Any]]:
    workers = run_workers(times_of_kinds, SIZES, SHORTEST, LEAST, MOST, n=n, timeout=500)
    names = ("kind", "nbytes", "seconds", "low", "high", "repetitions")
    return [{"n": n} | dict(zip(names, row, strict=True)) for row in workers.results[0]]


def wire(n: int) -> dict[str, Any]:
    """What a rank sends per byte of the vector, counted and by the formula."""
    counted = run_workers(sent_by_rank, SIZES[-2], 9, n=n).results[0]
    return {
        "n": n,
        "counted": counted,
        "formula": {kind: bytes_sent(kind, 1, n) for kind in PASSES},
    }


def errors_of(rows: list[dict[str, Any]], link: Link) -> dict[str, Any]:
    """The relative errors of the predictions of these rows, in their order, and their median."""
    errors = relative_errors(
        [Measured(r["n"], r["nbytes"], r["seconds"], r["kind"]) for r in rows], link
    )
    return {
        "errors": errors,
        "median_size": statistics.median(map(abs, errors)),
        "largest_size": max(map(abs, errors)),
    }


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments, ranks=[2, 3, 4])
    ranks = given.options.ranks
    torch.set_num_threads(1)
    rows = [row for n in ranks for row in measured_rows(n)]
    of = {
        (n, kind): [row for row in rows if (row["n"], row["kind"]) == (n, kind)]
        for n in ranks
        for kind in PASSES
    }
    links = {
        n: fit_link([Measured(n, r["nbytes"], r["seconds"]) for r in of[n, "all_reduce"]])
        for n in ranks
    }
    first = links[ranks[0]]
    fits = [
        {"n": n, "latency": link.latency, "bandwidth": link.bandwidth}
        | errors_of(of[n, "all_reduce"], link)
        for n, link in links.items()
    ]
    predictions = [
        {"n": n, "kind": kind, "from": ranks[0]} | errors_of(of[n, kind], first)
        for n, kind in of
        if (n, kind) != (ranks[0], "all_reduce")
    ]
    sent = [wire(n) for n in ranks] if sys.platform == "linux" else []
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    machine = {"cores": os.cpu_count(), "load": load}
    write_results(
        given.path,
        {"backend": "gloo, loopback"}
        | machine
        | {"measurements": rows, "fits": fits, "predictions": predictions, "sent": sent},
    )


if __name__ == "__main__":
    main()
