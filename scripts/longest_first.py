"""Print chapters so that two workers end together: those that take longest to run come first.

    python scripts/longest_first.py book/01_seq2seq.ipynb ...     (in make notebooks)

How long each took stands in `run.json` in its room; one that was never timed comes before all.
"""

import math
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from build.directives.runs import read_runs
from build.source.rooms import folder_of


def seconds(notebook: Path) -> float:
    return read_runs(folder_of(notebook)).get("cpu", {}).get("seconds", math.inf)


def longest_first(notebooks: Iterable[Path]) -> list[Path]:
    return sorted(notebooks, key=seconds, reverse=True)


if __name__ == "__main__":
    print(*longest_first(map(Path, sys.argv[1:])))
