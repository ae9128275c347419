"""The laboratory of two neighbours on 44 seeds: how often one, two and four heads name both.

    python benchmarks/laboratory_seeds.py [--seeds 0 1 2 ...]       (two minutes of one core)

Each run trains in a fresh page of Chromium, as `laboratories.py` lets it, with the settings that
the page of multi-head attention offers. It writes benchmarks/results/laboratory_seeds.json: for
each setting the fraction of positions with both neighbours right, one for each seed.
"""

import base64
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))


from benchmarks.in_chromium import grid_in_chromium, seeds_of
from benchmarks.laboratories import ACCURACY, BY_TITLE, run, started
from engine.text import kernels
from measure.experiments import Run, command_line

SETTINGS = ("neighbours, 1 head", "neighbours, 2 heads", "neighbours, 4 heads")


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """For each setting its accuracies, in the order of the seeds."""
    rows = []
    for title in SETTINGS:
        setting = BY_TITLE[title]
        reached = [one[ACCURACY] for one in runs if one["setting"] == title]
        row = {"task": setting.task, "name": setting.name, "settings": started(setting)}
        rows.append({**row, ACCURACY: reached})
    return {"seeds": seeds_of(runs), "browser": browser, "settings": rows}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"setting": SETTINGS, "seed": range(44)}, arguments)
    wasm = base64.b64encode(kernels()).decode()
    grid_in_chromium(lambda browser: partial(run, browser=browser, wasm=wasm), given, record)


if __name__ == "__main__":
    main()
