"""The library beside its peers, as ratios within one process: `make bench`.

    python benchmarks/bench.py [--cores 1 2] [--repeats 9] [--groups training forward ...]

All take turns, A B C A B C, on the same input; each is given as the median, over the turns, of its
time divided by that of torch.nn (or of what is named "1.00"), with the quartiles of this ratio.
Below 1 is faster. Peers that are not installed are named and left out. Recorded in
results/bench.json, by the number of cores.
These libraries do more for each call than ours does; the figures say what a reader pays, not who
is better made.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
sys.path.insert(0, str(Path(__file__).parent))

import groups
import peers

from chapters.complexity.layers import windowed_attention
from lib.attention import attention_weights, scaled_dot_product_attention
from measure.experiments import command_line
from measure.observed import fit_power, peak_bytes
from measure.records import write_results


def timed(function: Callable[[], object]) -> float:
    """Seconds: on one core the processor's, which others on the machine do not add to."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    function()
    return clock() - start


def measure(work: groups.Work, repeats: int) -> dict[str, list[float]]:
    """Seconds of each turn of each, after one turn that does not count."""
    for function in work.values():
        function()
    turns = [{name: timed(function) for name, function in work.items()} for _ in range(repeats)]
    return {name: [turn[name] for turn in turns] for name in work}


def compared(one: str, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Of each its time divided by that of `one`: the median over the turns, and the quartiles."""
    one = one if one in seconds else "lib"
    rows: dict[str, Any] = {}
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds[one], strict=True)]
        low, middle, high = (round(x, 3) for x in statistics.quantiles(ratios, n=4))
        ms = round(1e3 * statistics.median(taken), 1)
        rows[name] = {"ratio": middle, "quartiles": [low, high], "ms": ms}
    return {"1.00": one, "rows": rows}


def versions() -> str:
    absent = peers.missing()
    names = ["torch", *(package for peer, package in peers.PACKAGES.items() if peer not in absent)]
    return ", ".join(f"{name.replace('_', '-')} {metadata.version(name)}" for name in names)


def memory(lengths: Sequence[int] = (256, 1024, 2048)) -> dict[str, dict[str, float]]:
    """MiB that attention holds at once by length, 8 heads of 32: with the weights, and fused."""
    found = {}
    for n in lengths:
        qkv = torch.randn(3, 1, 8, n, 32).unbind()
        held = {
            "with weights": lambda q, k, v: attention_weights(q, k) @ v,
            "fused": scaled_dot_product_attention,
            "windowed": lambda *x: windowed_attention(*x, 64),
        }
        found[str(n)] = {k: round(peak_bytes(f, *qkv) / 2**20, 1) for k, f in held.items()}
    return found


def on(cores: int, repeats: int, chosen: Sequence[str]) -> dict[str, Any]:
    """What is found with this many threads, by group of work."""
    torch.set_num_threads(cores)
    torch.manual_seed(0)
    found: dict[str, Any] = {"work": {}}
    windows = []
    for group in chosen:
        for what, one, work in groups.GROUPS[group]():
            seconds = measure(work, repeats)
            found["work"][what] = compared(one, seconds)
            ratios = {k: row["ratio"] for k, row in found["work"][what]["rows"].items()}
            print(f"{what}: {ratios}", flush=True)
            if group == "window":
                windows.append((int(what.split()[-1]), statistics.median(seconds["windowed"])))
        if group == "attention":
            found["MiB at once"] = memory()
    if windows:
        found["seconds of the window grow as n^"] = fit_power(*zip(*windows, strict=True))._asdict()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = {"cores": [1, 2], "repeats": 9, "groups": list(groups.GROUPS)}
    given = command_line(__file__, __doc__, None, arguments, **options)
    chosen = given.options
    for name in peers.missing():
        print(f"not installed, left out: {name} (`make bench` installs it)")
    found = {str(cores): on(cores, chosen.repeats, chosen.groups) for cores in chosen.cores}
    write_results(given.path, {"versions": versions(), "cores": found})


if __name__ == "__main__":
    main()
