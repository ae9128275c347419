"""The laboratory of two senses on ten seeds: what choosing, equal weights and more steps reach.

    python benchmarks/senses_seeds.py [--seeds 0 1 2 ...]       (two minutes of one core)

Each run trains in a fresh page of Chromium, as `laboratories.py` lets it, with the settings that
the page of self-attention offers and with two that it speaks of. The seeds 0 to 4 are those of
`laboratories.json`. It writes
benchmarks/results/senses_seeds.json: for each setting what each seed reached.
"""

import base64
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))


from benchmarks.in_chromium import grid_in_chromium
from benchmarks.laboratories import SETTINGS as EVERY
from benchmarks.laboratories import record, run
from engine.text import kernels
from measure.experiments import command_line

NAMES = (
    "by itself",
    "all words alike",
    "all words alike, four times as many steps",
    "all words alike, long sentences",
    "one head chooses",
    "one head, four times as many steps",
    "two heads choose",
)
SETTINGS = tuple(one for one in EVERY if one.task == "senses" and one.name in NAMES)


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": [setting.title for setting in SETTINGS], "seed": range(10)}
    given = command_line(__file__, __doc__, over, arguments)
    wasm = base64.b64encode(kernels()).decode()
    grid_in_chromium(
        lambda browser: partial(run, browser=browser, wasm=wasm),
        given,
        partial(record, settings=SETTINGS),
    )


if __name__ == "__main__":
    main()
