"""Long measurements that a page shows: an experiment writes them, a cell reads them."""

import json
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

BOOK = Path(__file__).resolve().parents[1]


def folders() -> list[Path]:
    """Where records lie: a folder of each chapter, and one for what belongs to no chapter."""
    return [*sorted(BOOK.glob("chapters/*/results")), BOOK.parent / "benchmarks" / "results"]


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


def write_results(name: str, results: dict[str, Any], folder: Path) -> Path:
    """Write the results of the experiment `name` as a whole, with what they were measured on.

    Args: results, plain JSON; the key "measured" is added. folder, `results` of the chapter.
    Errors: ValueError for numbers that JSON cannot hold (NaN, infinity).
    """
    measured = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
    text = json.dumps(results | {"measured": measured}, indent=1, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    path, part = folder / f"{name}.json", folder / f"{name}.json.part"
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
    return path
