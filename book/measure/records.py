"""Long measurements that a page shows: an experiment writes them, a cell reads them.

An experiment is a script whose place says where its record lies: what
`chapters/NAME/experiments/x.py` measures stands in `chapters/NAME/results/x.json`, and what
`benchmarks/x.py` measures in `benchmarks/results/x.json`. `measure.experiments` runs one.
"""

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

BOOK = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    """Where records lie: a folder of each chapter, and one for what belongs to no chapter."""
    return [*sorted(BOOK.glob("chapters/*/results")), BOOK.parent / "benchmarks" / "results"]


def record_of(script: str | Path) -> Path:
    """The file that holds what an experiment has measured, from the experiment's own file."""
    path = Path(script).resolve()
    room = path.parent.parent if path.parent.name == "experiments" else path.parent
    return room / "results" / f"{path.stem}.json"


def read_results(name: str, places: Iterable[Path] | None = None) -> dict[str, Any]:
    """Read the record called `name`.

    Args: places, the folders to look in; those of the book unless given.
    Errors: ValueError for a name under which nothing is recorded; it lists those that there are.
    """
    paths = {path.stem: path for folder in places or folders() for path in folder.glob("*.json")}
    if name not in paths:
        known = ", ".join(sorted(paths)) or "none"
        raise ValueError(f"expected the name of a recorded measurement ({known}), got {name!r}")
    return json.loads(paths[name].read_text(encoding="utf-8"))


def as_json(results: Any, indent: int | None = None) -> str:
    """The text of a record.

    Errors: ValueError for what JSON cannot hold, NaN and infinity among it.
    """
    try:
        return json.dumps(results, indent=indent, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"expected results of plain JSON, got a value that it cannot hold ({error}); "
            "turn tensors into lists, and leave out what is not a number"
        ) from error


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write a record as a whole or not at all, with what it was measured on.

    Args: results, plain JSON; the key "measured" is added.
    Errors: ValueError for what JSON cannot hold; the record stays as it was.
    """
    measured = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
    replace(path, as_json({**results, "measured": measured}, indent=1))


def replace(path: Path, text: str) -> None:
    """Put a text in the place of a file, so that a stop on the way leaves the old one whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(f"{text}\n", encoding="utf-8")
    part.replace(path)
