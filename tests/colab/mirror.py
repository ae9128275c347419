"""A stand-in for the book's address: the archive that it offers, in a folder of this machine."""

import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import yaml

from tests.notebooks.guards import code_cells
from tests.paths import BOOK, ROOT

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
VERSION = "main"  # what the set-up cell of a chapter fetches
FOLDER = f"the-book-{VERSION}"  # and what it calls it


def address() -> str:
    """The repository's address, as _config.yml sets it."""
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def setup_cell(chapter: Path = CHAPTERS[0]) -> str:
    """The first code cell of a chapter."""
    return next(code_cells(nbformat.read(chapter, as_version=4)))[1].source


def snapshot(folder: Path) -> Path:
    """Serve the files as they are now, without what git ignores, as an archive; its folder."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    work, served = folder / "work", folder / "served"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():  # a file deleted a moment ago is still listed
            (work / f"book-{VERSION}" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, work / f"book-{VERSION}" / name)
    shutil.make_archive(str(served / "archive" / VERSION), "zip", work)
    shutil.rmtree(work)
    return served


def redirected(source: str, served: Path) -> str:
    """The set-up cell with the folder of this machine in the place of the book's address."""
    assert source.count(address()) == 1
    return source.replace(address(), served.as_uri())


def environment(home: Path) -> dict[str, str]:
    """An environment that knows nothing of this book."""
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON"))}
    return kept | {"HOME": str(home), "TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
