"""The library beside its peers, as ratios within one process: `make bench`.

    python benchmarks/bench.py [--cores 1] [--repeats 9] [--only training,forward,...]

All take turns, A B C A B C, on the same input; each is given as the median, over the turns, of its
time divided by that of torch.nn (or of what the table names), with the quartiles of this ratio.
Below 1 is faster. Peers that are not installed are named and left out.
These libraries do more for each call than ours does; the figures say what a reader pays, not who
is better made.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
sys.path.insert(0, str(Path(__file__).parent))

import groups
import peers

from chapters.complexity.layers import windowed_attention
from lib.attention import attention_weights, scaled_dot_product_attention
from measure.observed import fit_power, peak_bytes


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


def report(what: str, one: str, seconds: dict[str, list[float]]) -> None:
    one = one if one in seconds else "lib"
    print(f"\n**{what}** (1.00 = {one})\n")
    print("| who | ratio | quartiles | ms |")
    print("| --- | --- | --- | --- |")
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds[one], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        ms = 1e3 * statistics.median(taken)
        print(f"| {name} | {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} | {ms:.1f} |")


def versions() -> str:
    absent = peers.missing()
    names = ["torch", *(package for peer, package in peers.PACKAGES.items() if peer not in absent)]
    return ", ".join(f"{name.replace('_', '-')} {metadata.version(name)}" for name in names)


def growth(rows: list[tuple[int, float]], what: str) -> None:
    """Print the exponent with which seconds grow."""
    fit = fit_power(*zip(*rows, strict=True))
    print(f"{what}: seconds grow as n^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})")


def memory(lengths: Sequence[int] = (256, 1024, 2048)) -> None:
    """Print what attention holds at once, with the weights and fused."""
    print("\n**memory of attention**, 8 heads, d_k 32, MiB at once\n")
    print("| n | with weights | fused | windowed |\n| --- | --- | --- | --- |")
    for n in lengths:
        qkv = torch.randn(3, 1, 8, n, 32).unbind()
        held = (
            peak_bytes(lambda q, k, v: attention_weights(q, k) @ v, *qkv),
            peak_bytes(scaled_dot_product_attention, *qkv),
            peak_bytes(lambda *x: windowed_attention(*x, 64), *qkv),
        )
        print(f"| {n} | " + " | ".join(f"{bytes_ / 2**20:.1f}" for bytes_ in held) + " |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--only", default=",".join(groups.GROUPS), help="groups, with commas between"
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.cores)
    torch.manual_seed(0)
    print(f"{versions()}; {platform.machine()}, {given.cores} core(s)")
    for name in peers.missing():
        print(f"not installed, left out: {name} (`make bench` installs it)")
    windows = []
    for group in given.only.split(","):
        for what, one, work in groups.GROUPS[group]():
            seconds = measure(work, given.repeats)
            report(what, one, seconds)
            if group == "window":
                windows.append((int(what.split()[-1]), statistics.median(seconds["windowed"])))
        if group == "attention":
            memory()
    if windows:
        print()
        growth(windows, "windowed attention")


if __name__ == "__main__":
    main()
