"""Chapter 13: is it fresh memory that slows plain attention down once its maps are large?

    python experiments/fresh_memory.py [--calls 3]

A batch of 32 sequences of dimension 128, of 256, 480 and 512 positions: maps of 8, 28 and 32 MiB.
Plain attention runs unchanged in two processes. In "as usual" the C library (glibc) gives large
freed blocks back to the operating system; in "kept" its own settings tell it to keep them.
Per run, one number for each length: processor time for each FLOP, that of 256 positions as 1.

The result is recorded in `results/fresh_memory.json`, which the chapter reads.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.attention import attention_weights
from measure.experiments import Run, command_line, grid
from measure.observed import fastest_seconds

LENGTHS, BATCH, DIMENSION = (256, 480, 512), 32, 128
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
SETTINGS: dict[str, dict[str, str]] = {"as usual": {}, "kept": KEEP}
CHILD = "--measure"


def plain(x: torch.Tensor) -> torch.Tensor:
    return attention_weights(x, x) @ x


@torch.no_grad()
def measure(calls: int) -> list[float]:
    """Processor time for each FLOP of plain attention at each length, the first as 1."""
    torch.set_num_threads(1)
    runs = {str(n): partial(plain, torch.randn(BATCH, n, DIMENSION)) for n in LENGTHS}
    took = fastest_seconds(runs, calls, clock=time.process_time)
    by_work = [took[str(n)] / n**2 for n in LENGTHS]
    return [round(one / by_work[0], 3) for one in by_work]


def run(setting: str, repeat: int, calls: int) -> dict[str, Any]:
    command = [sys.executable, __file__, CHILD, str(calls)]
    environment = os.environ | SETTINGS[setting]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {"per_flop": json.loads(said.stdout)}


def record(runs: list[Run], facts: dict[str, Any]) -> dict[str, Any]:
    found = {name: [one["per_flop"] for one in runs if one["setting"] == name] for name in SETTINGS}
    return {**facts, "lengths": LENGTHS, "per_flop": found}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "repeat": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, calls=3)
    facts = vars(given.options)
    grid(partial(run, **facts), given, partial(record, facts=facts))


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        main()
