"""Experiments: a function is run over a grid of settings and seeds, and what it finds is recorded.

    def run(scheme, seed, steps): ...  # returns what was found, as plain JSON

    def record(runs): ...              # what the chapter reads, made of all runs

    given = command_line(__file__, __doc__, {"scheme": SCHEMES, "seed": (0, 1, 2)}, steps=500)
    grid(partial(run, steps=given.options.steps), given, record)

Each finished run is kept on disk at once, so a stop loses one run at most, and the same command
goes on where it was.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from measure.records import as_json, record_of, replace, write_results

ELSEWHERE = Path("runs")  # where records of other options go; git leaves it out
Axes = Mapping[str, Sequence[Any]]
Run = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """An experiment as its command line asks for it.

    path     the file of its record
    over     the values of each axis of the whole grid, seeds as given
    chosen   the values that are to be run now
    fresh    whether to begin anew instead of going on
    jobs     how many runs are made at a time, each in a process of its own
    options  the others, by name
    """

    path: Path
    over: dict[str, list[Any]]
    chosen: dict[str, list[Any]]
    fresh: bool
    jobs: int
    options: argparse.Namespace

    @property
    def unfinished(self) -> Path:
        """The file of the runs that do not make a whole record yet."""
        return self.path.with_suffix(".runs")


def command_line(
    script: str,
    about: str | None,
    over: Axes | None = None,
    arguments: Sequence[str] | None = None,
    **options: Any,
) -> Experiment:
    """Read the command line of an experiment.

    `--seeds 0 1 2` and `--only NAME ...` choose from the grid: of each axis with a value among the
    names, these values alone. `--into FOLDER` says where the record goes. Without it a run with the
    options' defaults is recorded beside the script, and one with others in `runs`, so that what
    the chapters read was always measured with the defaults.

    Args: script and about, the script's `__file__` and `__doc__`. over, the axes of the grid and
        their values; "seed" is one of them if there are seeds. arguments, those of the command
        line unless given. options, further options with their defaults: a flag for False, several
        values for a tuple, and a Path is an argument without which nothing runs.
    """
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0], allow_abbrev=False)
    axes = {name: list(values) for name, values in (over or {}).items()}
    named = {name: values for name, values in axes.items() if name != "seed"}
    if named:
        names = [str(value) for values in named.values() for value in values]
        parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME")
    if "seed" in axes:
        parser.add_argument("--seeds", type=int, nargs="+", default=axes["seed"])
    if axes:
        parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
        parser.add_argument("--jobs", type=int, default=1, help="runs that are made at a time")
    parser.add_argument("--into", type=Path, help="the folder of the record")
    for name, default in options.items():
        _add_option(parser, name, default)
    given = vars(parser.parse_args(arguments))

    only, fresh, jobs = (given.pop(name, None) for name in ("only", "fresh", "jobs"))
    into = given.pop("into")
    if "seed" in axes:
        axes["seed"] = given.pop("seeds")
    chosen = {n: [v for v in values if str(v) in only] or values for n, values in named.items()}
    path = record_of(script)
    usual = all(given[name] == default for name, default in options.items() if default is not Path)
    folder = into or (path.parent if usual else ELSEWHERE)
    left = argparse.Namespace(**given)
    return Experiment(folder / path.name, axes, {**axes, **chosen}, bool(fresh), jobs or 1, left)


def _add_option(parser: argparse.ArgumentParser, name: str, default: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    if default is Path:
        parser.add_argument(name, type=Path)
    elif default is False:
        parser.add_argument(flag, action="store_true")
    elif isinstance(default, list):
        parser.add_argument(flag, type=type(default[0]), nargs="+", default=default)
    else:
        parser.add_argument(flag, type=type(default), default=default)


def grid(
    run: Callable[..., Mapping[str, Any]],
    given: Experiment,
    record: Callable[[list[Run]], Mapping[str, Any]],
    *,
    keeps_runs: bool = False,
    enough: Callable[[Run], bool] = lambda run: True,
) -> Mapping[str, Any] | None:
    """Run a function for each setting of a grid that has not been run, and record what it finds.

    A run is what the function returned, with its setting; runs stand in the order of the grid.
    Until all are there they lie beside the record, in a file of their own, and the record that
    there was stays as it is.

    Args: run, called with each axis by its name; returns plain JSON. record makes the record of all
        runs. keeps_runs: it has them as they are, under "runs", so that the record is written
        after each run, and later calls add to it. enough, whether an earlier run need not be
        made again. jobs, how many are made at a time, each in a process of its own.
    Errors: ValueError for earlier runs that were made with other options, and for a run that JSON
        cannot hold.
    """
    runs = {} if given.fresh else {_key(one, given): one for one in _earlier(given, keeps_runs)}
    for setting, found, seconds in _made(run, _to_do(given, runs, enough), given.jobs):
        one = json.loads(as_json({**setting, **found}))
        runs[_key(one, given)] = one
        ordered = sorted(runs.values(), key=partial(_place, given=given))
        if keeps_runs:
            write_results(given.path, record(ordered))
        else:
            options = {"options": _plain(given.options), "runs": ordered}
            replace(given.unfinished, as_json(options, indent=1))
        figures = {k: v for k, v in found.items() if isinstance(v, int | float)}
        print(*setting.values(), f"{seconds:.0f} s", figures or "", flush=True)
    if keeps_runs:
        return record(list(runs.values()))
    whole = [runs.get(_key(setting, given)) for setting in _settings(given.over)]
    if None in whole:
        left = whole.count(None)
        print(f"{left} of {len(whole)} runs are still to be made; then {given.path} is written")
        return None
    results = record([one for one in whole if one is not None])
    write_results(given.path, results)
    given.unfinished.unlink()
    return results


def by_setting(runs: Sequence[Run]) -> dict[str, dict[str, list[Any]]]:
    """For each setting and figure a list with one entry for each seed, in the order of the runs."""
    table: dict[str, dict[str, list[Any]]] = {}
    for one in runs:
        columns = table.setdefault(one["setting"], {})
        for name, figure in one.items():
            if name not in ("setting", "seed"):
                columns.setdefault(name, []).append(figure)
    return table


def _settings(axes: Axes) -> list[Run]:
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _key(run: Run, given: Experiment) -> str:
    """What tells a run from the others: its setting."""
    return as_json([run[name] for name in given.over])


def _place(run: Run, given: Experiment) -> list[tuple[int, Any]]:
    """Where a run stands in the order of the grid; values that are not of the grid come last."""
    return [
        (values.index(run[name]), "") if run[name] in values else (len(values), run[name])
        for name, values in given.over.items()
    ]


def _to_do(given: Experiment, runs: Mapping[str, Run], enough: Callable[[Run], bool]) -> list[Run]:
    settings = _settings(given.chosen)
    return [s for s in settings if not (_key(s, given) in runs and enough(runs[_key(s, given)]))]


def _earlier(given: Experiment, keeps_runs: bool) -> list[Run]:
    path = given.path if keeps_runs else given.unfinished
    if not path.exists():
        return []
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept.get("options", _plain(given.options)) != _plain(given.options):
        raise ValueError(
            f"{path}: expected earlier runs with the options {_plain(given.options)}, got "
            f"{kept['options']}; begin anew with --fresh, or record elsewhere with --into"
        )
    return kept["runs"]


def _plain(options: argparse.Namespace) -> Run:
    return json.loads(json.dumps(vars(options), default=str))


def _timed(run: Callable[..., Mapping[str, Any]], setting: Run) -> tuple[Mapping[str, Any], float]:
    begun = time.process_time()
    found = run(**setting)
    return found, time.process_time() - begun


def _made(
    run: Callable[..., Mapping[str, Any]], todo: list[Run], jobs: int
) -> Iterator[tuple[Run, Mapping[str, Any], float]]:
    """Each setting with what was found, and the seconds that the processor worked for it."""
    if jobs == 1:
        for setting in todo:
            yield setting, *_timed(run, setting)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for setting, made in zip(todo, pool.map(partial(_timed, run), todo), strict=True):
            yield setting, *made
