"""Run chapters cleanly and store their outputs. The only way that outputs are made.

    python scripts/refresh.py                      every chapter, in order
    python scripts/refresh.py book/01_seq2seq.ipynb ...

A chapter runs in a new kernel from its first cell to its last. What differs between two equal
runs is taken out (timings, transient metadata); outputs and counts 1..n stay. A failing cell
leaves the file as it was. The seconds that each chapter took go to benchmarks/chapters.json.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "benchmarks" / "chapters.json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# It names a kernel's model by a random number; the page uses the text/html beside it.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KEPT_CELL_METADATA = {"tags", "mystnb"}


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
                output.traceback = [line.replace(f"{ROOT}/", "") for line in output.traceback]
    return notebook


def refresh(path: Path) -> float:
    """Run the chapter at `path` and write it back; return the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
    )
    start = time.perf_counter()
    client.execute()
    seconds = time.perf_counter() - start
    text = nbformat.writes(normalise(notebook)) + "\n"
    temporary = path.with_suffix(".ipynb.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter")
    arguments = parser.parse_args()
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar is no stored output
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    failed = False
    for path in arguments.notebooks or sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        try:
            seconds = refresh(path.resolve())
        except CellExecutionError as error:
            print(f"{path.name}: not refreshed, a cell failed\n{error}", file=sys.stderr)
            failed = True
            continue
        record[path.name] = round(seconds)
        print(f"{path.name}: {seconds:.0f} s")
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
