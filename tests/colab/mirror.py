"""A stand-in for the book's address: what git would clone, served from a folder of this machine."""

import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import yaml

from tests.notebooks.guards import code_cells
from tests.paths import BOOK, ROOT

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
FOLDER = "the-book"  # what the set-up cell clones into
AUTHOR = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]


def address() -> str:
    """The repository's address, as _config.yml sets it."""
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def setup_cell(chapter: Path = CHAPTERS[0]) -> str:
    """The first code cell of a chapter."""
    return next(code_cells(nbformat.read(chapter, as_version=4)))[1].source


def snapshot(folder: Path) -> Path:
    """A repository with the files as they are now, without what git ignores; its bare clone."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    work, bare = folder / "work", folder / "book.git"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():  # a file deleted a moment ago is still listed
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, work / name)
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all", "--force"],
        [*AUTHOR, "commit", "--quiet", "--message=The book as it is"],
    ):
        subprocess.run(["git", *command], cwd=work, check=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(work), str(bare)], check=True)
    shutil.rmtree(work)
    return bare


def redirected(bare: Path, home: Path) -> dict[str, str]:
    """An environment whose git finds the book's address in `bare`, and nothing of this book."""
    home.mkdir(exist_ok=True)
    settings = home / "gitconfig"
    settings.write_text(f'[url "{bare.as_uri()}"]\n\tinsteadOf = {address()}\n', encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PYTHON"))}
    return kept | {
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(settings),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "file",
        "TQDM_DISABLE": "1",
        "MPLBACKEND": "agg",
    }
