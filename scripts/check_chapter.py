"""Check all that belongs to one chapter, in about two minutes: `make check CHAPTER=multi_head`.

    python -m scripts.check_chapter multi_head

Its notebook is run and compared while its files are read by the linters, its room's tests and the
answers to its exercises are run, the book is built, and its widgets and its page are opened in a
browser. A step that fails stops none of the others; the last lines say which steps failed. What is
marked slow is left to `make test-all`, except of the chapter's own widgets.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from build.directives.widgets import widgets
from scripts import terms

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ESLINT = ROOT / "requirements" / "js"
PYTEST = (sys.executable, "-m", "pytest", "-q")
# For each widget of the book: under a finger, with few colours, on paper, with hostile links.
WIDGETS = [
    f"tests/browser/test_{name}.py"
    for name in ("widgets", "touch", "adapt", "domains", "hostile", "print")
]
PAGES = [
    f"tests/browser/test_{name}.py" for name in ("pages", "book", "numbers", "references", "reader")
]


class Chapter(NamedTuple):
    """A chapter's notebook and its room, both as paths from the root of the repository."""

    notebook: Path
    room: Path
    widgets: tuple[str, ...]


class Step(NamedTuple):
    title: str
    command: Sequence[str | Path]


def chapters() -> dict[str, Chapter]:
    """The chapters by their names."""
    found = {}
    for notebook in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        name = notebook.stem.partition("_")[2]
        room = ROOT / "book" / "chapters" / name
        own = tuple(module for module, folder in widgets().items() if folder == room)
        found[name] = Chapter(notebook.relative_to(ROOT), room.relative_to(ROOT), own)
    return found


def chosen(name: str, known: dict[str, Chapter]) -> Chapter:
    """The chapter of this name; its notebook is taken for it too.

    Errors: ValueError for another name.
    """
    plain = Path(name).stem.lstrip("0123456789").removeprefix("_")
    if plain not in known:
        raise ValueError(f"expected the name of a chapter, got {name!r}; use {', '.join(known)}")
    return known[plain]


def run_of_notebook(chapter: Chapter) -> Step:
    settings = "--nbval --nbval-current-env --nbval-sanitize-with tests/notebooks/nbval.cfg"
    settings += " --nbval-cell-timeout=300 --timeout=600 -o addopts= -o filterwarnings="
    return Step("its notebook, run and compared", [*PYTEST, *settings.split(), chapter.notebook])


def lint(chapter: Chapter) -> Iterator[Step]:
    files = [chapter.notebook, chapter.room]
    read = (path.relative_to(ROOT) for path in terms.files())
    texts = [path for path in read if path == chapter.notebook or chapter.room in path.parents]
    yield Step("style", [BIN / "ruff", "check", "--quiet", *files])
    yield Step("form", [BIN / "ruff", "format", "--quiet", "--check", chapter.room])
    yield Step("spelling", [BIN / "codespell", *files])
    yield Step("terms", [sys.executable, "scripts/terms.py", "--only", *texts])
    if chapter.widgets:
        eslint = ESLINT / "node_modules" / ".bin" / "eslint"
        settings = ("--config", ESLINT / "eslint.config.mjs")
        yield Step("style of its scripts", [eslint, *settings, chapter.room])
    yield Step("types", [BIN / "mypy", chapter.room])


def steps(chapter: Chapter) -> Iterator[Step]:
    """All but the notebook's run, which goes on beside them.

    To start pytest costs as much as many a test: so one run is for all that needs no browser, and
    one for all that does. A test is the chapter's if the folder of its room or its own name says
    so: `-k` reads both.
    """
    stem, room = chapter.notebook.stem, chapter.room
    plain = ("-m", "not gpu and (widget or not slow)", "--dist", "worksteal")
    yield from lint(chapter)
    unit: list[str | Path] = [room / "tests", f"--ignore={room}/tests/browser", "tests/notebooks"]
    own = f"{room.name} or {stem}"
    yield Step("its tests, answers and form", [*PYTEST, *plain, "-n", "2", *unit, "-k", own])
    book: list[str | Path] = ["build", ".", "-n", "-W", "--keep-going", "--quiet"]
    yield Step("the book, built", [BIN / "jupyter-book", *book])
    pages: list[str | Path] = [*PAGES]
    if chapter.widgets:
        pages += WIDGETS
    if (ROOT / room / "tests" / "browser").exists():
        pages.append(room / "tests" / "browser")
    shown = " or ".join([own, *chapter.widgets])
    # One more than there are cores: each waits now and then for its browser.
    yield Step("its widgets, its page", [*PYTEST, *plain, "-n", "3", *pages, "-k", shown])


def begun(step: Step) -> subprocess.Popen[str]:
    settings = {"TQDM_DISABLE": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    return subprocess.Popen(
        list(map(str, step.command)),
        cwd=ROOT,
        env={"OMP_NUM_THREADS": "1"} | os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def carry_out(chapter: Chapter) -> list[str]:
    """Run every step and print how it went; the titles of those that failed."""
    failed = []
    start = time.monotonic()

    def said(title: str, status: int, output: str, since: float) -> None:
        seconds = f"{time.monotonic() - since:4.0f} s"
        print(f"{'ok    ' if status == 0 else 'FAILED'} {seconds}  {title}", flush=True)
        if status:
            print(output.strip(), flush=True)
            failed.append(title)

    notebook = run_of_notebook(chapter)
    with begun(notebook) as beside:
        for step in steps(chapter):
            since = time.monotonic()
            if not Path(step.command[0]).exists():
                missing = f"{step.command[0]} is not there: make check installs it"
                said(step.title, 127, missing, since)
                continue
            with begun(step) as running:
                output, _ = running.communicate()
            said(step.title, running.returncode, output, since)
        output, _ = beside.communicate()
    said(f"{notebook.title} (since the start)", beside.returncode, output, start)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapter", help="such as multi_head", nargs="?", default="")
    name = parser.parse_args(arguments).chapter
    try:
        chapter = chosen(name, chapters())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    start = time.monotonic()
    failed = carry_out(chapter)
    total = f"{time.monotonic() - start:.0f} s in all"
    print(f"{total}: {len(failed)} failed: {', '.join(failed)}" if failed else f"{total}: all good")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
