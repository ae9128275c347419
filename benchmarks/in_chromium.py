"""What benchmarks share that run a grid in Chromium: the browser, and what a record is made of."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from measure.experiments import Experiment, Run, grid
from scripts import chromium
from tests.browser.fixtures import FLAGS


def grid_in_chromium(
    make: Callable[[Browser], Callable[..., Mapping[str, Any]]],
    given: Experiment,
    record: Callable[..., Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """`grid`, with one browser for all runs.

    Args: make, gives the function of a run that works in the browser; record, called with the runs,
        and with the browser's name and version as `browser`.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable(), args=FLAGS)
        name = f"Chromium {browser.version}"
        written = grid(make(browser), given, partial(record, browser=name))
        browser.close()
    return written


def seeds_of(runs: list[Run]) -> list[int]:
    """The seeds, each once, in the order of the runs."""
    return list(dict.fromkeys(one["seed"] for one in runs))


def figures_of(run: Run, axis: str) -> Run:
    """What a run found, without the value of the axis and the seed that it has found it for."""
    return {name: value for name, value in run.items() if name not in (axis, "seed")}


def by_setting(
    runs: list[Run], settings: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """For each setting of a laboratory its task, what it changes, and its runs.

    Args: settings, the task and the changes of each by its name, the axis "setting" of the runs.
    """
    rows: dict[str, dict[str, Any]] = {}
    for one in runs:
        task, changes = settings[one["setting"]]
        row = rows.setdefault(one["setting"], {"task": task, "changes": changes, "runs": []})
        row["runs"].append(figures_of(one, "setting"))
    return rows
