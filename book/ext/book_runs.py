"""Lists what was run: the directive `{chapter-runs}` makes a table of benchmarks/chapters.json.

The record maps the name of a chapter's file to its runs, `{"cpu": run, "gpu": run}`. A run holds
seconds, date, python, torch and device; any of them may be missing. A bare number, as in older
records, is the seconds of a run on a CPU.
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


def runs(entry: object) -> dict[str, dict]:
    """The runs of one chapter by kind, out of the record's present or older form."""
    if isinstance(entry, int | float):
        return {"cpu": {"seconds": entry}}
    if not isinstance(entry, dict):
        return {}
    return {kind: entry[kind] for kind in KINDS if isinstance(entry.get(kind), dict)}


def read_record(path: Path = RECORD) -> dict[str, dict[str, dict]]:
    """The runs of every chapter; none if there is no record yet."""
    entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: runs(entry) for name, entry in entries.items()}


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
            seconds = run.get("seconds")
            shown = f"{seconds:.0f}" if isinstance(seconds, int | float) else UNKNOWN
            others = (str(run.get(field) or UNKNOWN) for field in FIELDS)
            name = f"{int(path.name[:2])}. {title(path)}"
            table.append((name, KINDS.get(kind, UNKNOWN), shown, *others))
    return table


def summary(record: dict[str, dict[str, dict]], chapters: list[Path]) -> str:
    """What the table comes to, in sentences."""
    seconds = [record.get(path.name, {}).get("cpu", {}).get("seconds") for path in chapters]
    known = [value for value in seconds if isinstance(value, int | float)]
    on_gpu = [path for path in chapters if "gpu" in record.get(path.name, {})]
    text = f"On a CPU, {len(known)} of {len(chapters)} chapters were timed"
    text += f": together {sum(known) / 60:.0f} minutes. " if known else ". "
    if not on_gpu:
        return text + "No chapter has been timed on a GPU yet."
    return text + f"On a GPU, {len(on_gpu)} of {len(chapters)} were timed."


class ChapterRuns(SphinxDirective):
    """The table, and the sentences that sum it up."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        chapters = sorted(folder.glob("[0-9]*.ipynb"))
        for path in (RECORD, *chapters):
            self.env.note_dependency(str(path))
        record = read_record()
        return [
            nodes.paragraph(text=summary(record, chapters)),
            self.table(rows(record, chapters)),
        ]

    def table(self, body: list[tuple[str, ...]]) -> nodes.table:
        group = nodes.tgroup(cols=len(HEADER))
        group += [nodes.colspec(colwidth=1) for _ in HEADER]
        group += nodes.thead("", self.row(HEADER))
        group += nodes.tbody("", *map(self.row, body))
        return nodes.table("", group, classes=["chapter-runs"])

    def row(self, cells: tuple[str, ...]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in cells))


def setup(app):
    app.add_directive("chapter-runs", ChapterRuns)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
