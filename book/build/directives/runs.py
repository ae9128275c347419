"""Lists what was run: the directive `{chapter-runs}` makes a table of the chapters' `run.json`.

Such a file holds the runs of its chapter, `{"cpu": run, "gpu": run}`. A run has seconds, date,
python, torch and device; any of them may be missing.
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from build.source.rooms import Room, rooms

Runs = dict[str, dict[str, Any]]
KINDS = {"cpu": "CPU", "gpu": "GPU"}
FIELDS = ("python", "torch", "device", "date")
HEADER = ("chapter", "on", "seconds", "Python", "torch", "machine", "date")
UNKNOWN = "–"


def record_file(folder: Path) -> Path:
    """Where a chapter's room keeps what its runs took."""
    return folder / "run.json"


def read_runs(folder: Path) -> Runs:
    """The runs of a chapter by its room; none if there is no record yet."""
    path = record_file(folder)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def title(path: Path) -> str:
    """The first heading of a notebook; its file name if it has none."""
    if path.exists():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            found = re.match(r"# (.+)", "".join(cell["source"]))
            if found:
                return found.group(1).strip()
    return path.name


def rows(chapters: list[Room]) -> list[tuple[str, ...]]:
    """One row for each run of a chapter; a chapter that was never run has a row of dashes."""
    table = []
    for chapter in chapters:
        runs: Runs = read_runs(chapter.folder) or {"": {}}
        for kind, run in runs.items():
            seconds = f"{run['seconds']:.0f}" if "seconds" in run else UNKNOWN
            others = (run.get(field) or UNKNOWN for field in FIELDS)
            name = f"{chapter.number}. {title(chapter.notebook)}"
            table.append((name, KINDS.get(kind, UNKNOWN), seconds, *others))
    return table


def summary(chapters: list[Room]) -> str:
    """What the table comes to, in sentences."""
    runs = [read_runs(chapter.folder) for chapter in chapters]
    seconds = [run["cpu"]["seconds"] for run in runs if "seconds" in run.get("cpu", {})]
    on_gpu = sum("gpu" in run for run in runs)
    text = f"On a CPU, {len(seconds)} of {len(chapters)} chapters were timed"
    text += f": together {sum(seconds) / 60:.0f} minutes. " if seconds else ". "
    if not on_gpu:
        return text + "No chapter has been timed on a GPU yet."
    return text + f"On a GPU, {on_gpu} of {len(chapters)} were timed."


class ChapterRuns(SphinxDirective):
    """The sentences that sum the runs up, and the table."""

    def run(self) -> list[nodes.Node]:
        chapters = rooms(Path(self.env.srcdir))
        for chapter in chapters:
            for path in (chapter.notebook, record_file(chapter.folder)):
                self.env.note_dependency(str(path))
        table = [HEADER, ("---",) * len(HEADER), *rows(chapters)]
        lines = (f"| {' | '.join(cells)} |" for cells in table)
        text = "\n".join([summary(chapters), "", "{.chapter-runs}", *lines])
        return self.parse_text_to_nodes(text)
