"""Run chapters cleanly and store their outputs. The only way that outputs are made.

    python scripts/refresh.py                      every chapter, in order
    python scripts/refresh.py book/01_seq2seq.ipynb ...

A chapter runs in a new kernel from its first cell to its last. What differs between two equal
runs is taken out (timings, transient metadata); outputs and counts 1..n stay. A failing cell
leaves the file as it was. Each figure is drawn twice: the picture stays in the notebook, the
drawing goes to `figures` in the chapter's room. What each run took, when and on what
goes to `run.json` there, which the page "What was run" lists. `--time-only` writes that and leaves
the chapters as they are.
"""

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from build.directives.runs import read_runs, record_file
from build.pages import figures
from build.source.rooms import folder_of

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# It names a kernel's model by a random number; the page uses the text/html beside it.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# Every figure as a picture and as a drawing, whose identifiers are the same in every run.
FORMATS = [
    "--InlineBackend.figure_formats={'png', 'svg'}",
    "--InlineBackend.rc={'svg.hashsalt': 'book'}",
]
KEPT_CELL_METADATA = {"tags", "mystnb", "check"}


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what says nothing about the chapter, and number the code cells 1..n."""
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    count = 0
    for cell in notebook.cells:
        kept = {k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA and v}
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
            output.get("data", {}).pop(WIDGET_VIEW, None)
            if output.output_type == "error":  # where this copy of the book lies says nothing
                for base in (ROOT, Path(sys.prefix).parent):  # the environment may stand elsewhere
                    output.traceback = [line.replace(f"{base}/", "") for line in output.traceback]
    return notebook


def machine() -> tuple[str, dict[str, str]]:
    """Whether chapters run on a "cpu" or a "gpu" here, and what the record says of a run."""
    import torch

    kind = "gpu" if torch.cuda.is_available() else "cpu"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processor = f"{platform.machine()}, {cores} cores"
    return kind, {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "device": torch.cuda.get_device_name() if kind == "gpu" else processor,
    }


def note(folder: Path, kind: str, run: dict[str, object]) -> None:
    """Write one run into the record of a chapter's room, beside that of the other kind."""
    path = record_file(folder)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    runs = read_runs(folder) | {kind: run}
    temporary.write_text(json.dumps(runs, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def refresh(path: Path, *, store: bool = True) -> float:
    """Run the chapter at `path` and write it back if asked to; return the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
        extra_arguments=FORMATS,
    )
    start = time.perf_counter()
    client.execute()
    seconds = time.perf_counter() - start
    if not store:
        return seconds
    drawings = figures.take_drawings(notebook)
    text = nbformat.writes(normalise(notebook)) + "\n"
    temporary = path.with_suffix(".ipynb.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    figures.write_drawings(folder_of(path) / "figures", drawings)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter")
    parser.add_argument("--time-only", action="store_true", help="store no outputs")
    arguments = parser.parse_args()
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar is no stored output
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as `make notebooks` compares
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    kind, facts = machine()
    failed = False
    for path in arguments.notebooks or sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        try:
            seconds = refresh(path.resolve(), store=not arguments.time_only)
        except CellExecutionError as error:
            print(f"{path.name}: not refreshed, a cell failed\n{error}", file=sys.stderr)
            failed = True
            continue
        note(folder_of(path.resolve()), kind, {"seconds": round(seconds), **facts})
        print(f"{path.name}: {seconds:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
