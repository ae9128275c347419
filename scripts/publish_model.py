"""Train the published model again, and make again whatever depends on it: `make checkpoint`

    python scripts/publish_model.py [--dry]        (about a quarter of an hour of one core)

What depends on it is found by looking: the experiments and the scripts that call `load_published`,
and the chapters whose code calls it or reads the record of such an experiment. `--dry` only says
what would be done. Prose that quotes a number is left to its author: the tests say which is wrong.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOADS = re.compile(r"\bload_published\(")
TRAINS = "scripts/make_checkpoint.py"
REPORTS = "benchmarks/report.py"


def that_load(root: Path, *patterns: str) -> list[Path]:
    """The scripts of these places that call `load_published`."""
    scripts = (path for pattern in patterns for path in sorted(root.glob(pattern)))
    return [path for path in scripts if LOADS.search(path.read_text(encoding="utf-8"))]


def experiments(root: Path) -> list[Path]:
    """The experiments that are measured on the published model."""
    return that_load(root, "book/chapters/*/experiments/*.py")


def code_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def chapters(root: Path) -> list[Path]:
    """The notebooks that load the published model, or read what was measured on it."""
    names = "|".join(path.stem for path in experiments(root)) or "(?!)"
    depends = re.compile(rf"{LOADS.pattern}|\bread_results\([\"'](?:{names})[\"']\)")
    notebooks = sorted(root.glob("book/[0-9]*.ipynb"))
    return [path for path in notebooks if depends.search(code_of(path))]


def commands(root: Path) -> list[list[str]]:
    """What is run, in this order; what comes later reads what came before."""
    itself = Path(__file__).name
    scripts = [path for path in that_load(root, "scripts/*.py") if path.name != itself]
    made = [*experiments(root), *scripts]
    notebooks = [path.relative_to(root).as_posix() for path in chapters(root)]
    return [
        [TRAINS],
        *([path.relative_to(root).as_posix()] for path in made),
        [REPORTS],
        ["scripts/refresh.py", *notebooks],
    ]


def main(
    arguments: list[str] | None = None,
    run: Callable[..., object] = subprocess.run,
) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dry", action="store_true", help="only say what would be done")
    dry = parser.parse_args(arguments).dry
    for command in commands(ROOT):
        print("python", shlex.join(command), flush=True)
        if not dry:
            run([sys.executable, *command], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
