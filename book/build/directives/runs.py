"""Lists what was run: the directive `{chapter-runs}` makes a table of benchmarks/chapters.json.

The record maps the name of a chapter's file to its runs, `{"cpu": run, "gpu": run}`. A run holds
seconds, date, python, torch and device; any of them may be missing.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

RECORD = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "chapters.json"
KINDS = {"cpu": "CPU", "gpu": "GPU"}
FIELDS = ("python", "torch", "device", "date")
HEADER = ("chapter", "on", "seconds", "Python", "torch", "machine", "date")
UNKNOWN = "–"


def read_record(path: Path = RECORD) -> dict[str, dict[str, dict]]:
    """The runs of every chapter; none if there is no record yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def title(path: Path) -> str:
    """The first heading of a notebook; its file name if it has none."""
    if path.exists():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            found = re.match(r"# (.+)", "".join(cell["source"]))
            if found:
                return found.group(1).strip()
    return path.name


def rows(record: dict[str, dict[str, dict]], chapters: list[Path]) -> list[tuple[str, ...]]:
    """One row for each run of a chapter; a chapter that was never run has a row of dashes."""
    table = []
    for path in chapters:
        known = record.get(path.name) or {"": {}}
        for kind, run in known.items():
            seconds = f"{run['seconds']:.0f}" if "seconds" in run else UNKNOWN
            others = (run.get(field) or UNKNOWN for field in FIELDS)
            name = f"{int(path.name[:2])}. {title(path)}"
            table.append((name, KINDS.get(kind, UNKNOWN), seconds, *others))
    return table


def summary(record: dict[str, dict[str, dict]], chapters: list[Path]) -> str:
    """What the table comes to, in sentences."""
    runs = [record.get(path.name, {}).get("cpu", {}) for path in chapters]
    known = [run["seconds"] for run in runs if "seconds" in run]
    on_gpu = [path for path in chapters if "gpu" in record.get(path.name, {})]
    text = f"On a CPU, {len(known)} of {len(chapters)} chapters were timed"
    text += f": together {sum(known) / 60:.0f} minutes. " if known else ". "
    if not on_gpu:
        return text + "No chapter has been timed on a GPU yet."
    return text + f"On a GPU, {len(on_gpu)} of {len(chapters)} were timed."


class ChapterRuns(SphinxDirective):
    """The sentences that sum the runs up, and the table."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        chapters = sorted(folder.glob("[0-9]*.ipynb"))
        for path in (RECORD, *chapters):
            self.env.note_dependency(str(path))
        record = read_record()
        table = [HEADER, ["---"] * len(HEADER), *rows(record, chapters)]
        lines = (f"| {' | '.join(cells)} |" for cells in table)
        text = "\n".join([summary(record, chapters), "", "{.chapter-runs}", *lines])
        return self.parse_text_to_nodes(text)
