"""Decoding beside Hugging Face, with 8-bit parameters too: `make bench` runs it.

    python benchmarks/decoding_speed.py [--repeats 5] [--only greedy beam file]

One thread; models with random parameters that write a fixed number of tokens, all in one process
and in turns on the same input. Of each the median, over the turns, of its time divided by Hugging
Face's in float32, with the quartiles. "greedy" and "beam" write for one sentence; "file" translates
1,000 sentences of 8 to 32 tokens with a beam of 4, in batches of 250 of one length, as many tokens
as the source has. Recorded in results/decoding_speed.json, with the machine's load at the end of
the turns. Where a neighbour works on the same core, arithmetic takes twice as long, and reading the
memory hardly longer: then the ratios change. So the fastest turn of each is compared too.
"""

import os
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
sys.path.insert(0, str(Path(__file__).parent))

import bench
import groups
import peers
import torch
from sizes import DECODED, Size
from torch import Tensor, nn

from lib.decoding import store_by_columns
from measure.experiments import command_line, grid
from train.bits import EightBitTransformer

WORK = {  # what is done: a size, tokens of a sentence, beam
    "greedy": [("published", 64, 1), ("medium", 64, 1), ("base", 64, 1)],
    "beam": [("medium", 32, 4), ("base", 32, 4)],
    "file": [("medium", None, 4)],
}
SIZES = DECODED | {"published": Size(64, 4, 2, 128, 160, 64, 20, 10)}
FILE = [(8, 250), (16, 250), (24, 250), (32, 250)]  # length, sentences of a batch
ONE = "Hugging Face"


def contenders(size: Size) -> dict[str, nn.Module]:
    """Hugging Face, and the library in float32, by columns, and in 8 bits."""
    makes = {ONE: peers.HuggingFace, "lib": peers.Ours}
    found = {name: model.eval() for name, model in peers.installed(makes, size).items()}
    packed = deepcopy(found["lib"])
    packed.model = EightBitTransformer(packed.model)
    by_columns = store_by_columns(deepcopy(found["lib"]))
    return found | {"lib, by columns": by_columns, "lib, 8 bits": packed}


def run(work: str, repeats: int) -> dict[str, Any]:
    """The ratios of one kind of work, by size."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {}
    for name, tokens, beam in WORK[work]:
        size = SIZES[name]
        batches = [(size.time, 1)] if tokens else FILE
        inputs = [
            (torch.randint(4, size.vocab, (n, length)), torch.full((n,), length), tokens or length)
            for length, n in batches
        ]
        turns: dict[str, Callable[[], object]] = {
            who: groups.quiet(partial(write_all, model, inputs, beam))
            for who, model in contenders(size).items()
        }
        seconds = bench.measure(turns, repeats)
        load = round(os.getloadavg()[0], 1)
        found[name] = bench.compared(ONE, seconds)
        fastest = {who: min(taken) / min(seconds[ONE]) for who, taken in seconds.items()}
        found[name]["fastest"] = {who: round(ratio, 3) for who, ratio in fastest.items()}
        found[name] |= {"beam": beam, "batches": batches, "load": load}
        print(work, name, {who: row["ratio"] for who, row in found[name]["rows"].items()})
    return {"found": found, "repeats": repeats, "versions": bench.versions()}


def write_all(model: Any, inputs: list[tuple[Tensor, Tensor, int]], beam: int) -> None:
    """Write the tokens of every batch."""
    for source, lengths, count in inputs:
        if beam == 1:
            model.write(source, lengths, count)
        else:
            model.search(source, lengths, count, beam)


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"work": list(WORK)}, arguments, repeats=5)
    repeats = given.options.repeats
    grid(
        partial(run, repeats=repeats),
        given,
        lambda runs: {"runs": runs},
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()
