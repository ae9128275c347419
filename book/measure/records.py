"""Long measurements that a chapter shows: `benchmarks` writes them, a cell reads them."""

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "results"


def read_results(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Read what `benchmarks/NAME.py` has recorded.

    Errors: ValueError for a name under which nothing is recorded; it lists those that there are.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none"
        raise ValueError(f"expected the name of a recorded measurement ({known}), got {name!r}")
    return json.loads(path.read_text(encoding="utf-8"))


def write_results(name: str, results: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write the results of `benchmarks/NAME.py` as a whole, with what they were measured on.

    Args: results, plain JSON; the key "measured" is added.
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
