"""On Colab a reader has one notebook file and nothing else: its first cell must fetch the rest.

Here the set-up cell is run alone, with a stand-in for pip: no network is needed. The chapters
themselves, in an environment as Colab's, are run by `make colab`: see test_chapters.py.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from tests.colab.mirror import FOLDER, address, redirected, setup_cell, snapshot
from tests.paths import BOOK, ROOT

RECORDER = """
import json, os, sys
with open(os.environ["PIP_CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""
THEN = """
import lib, lib.attention
print(lib.__file__)
"""
REQUIREMENTS = ROOT / "requirements" / "colab.txt"


def wanted() -> list[Requirement]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return snapshot(tmp_path_factory.mktemp("served"))


class Reader:
    """Someone with an empty folder, the served book, and a pip that only takes notes."""

    def __init__(self, folder, bare):
        (folder / "stub").mkdir()
        (folder / "stub" / "pip.py").write_text(RECORDER, encoding="utf-8")
        self.folder, self.calls = folder / "content", folder / "calls"
        self.folder.mkdir()
        self.environment = redirected(bare, folder / "home") | {
            "PYTHONPATH": str(folder / "stub"),
            "PIP_CALLS": str(self.calls),
        }

    def run(self, where=None):
        """Run the set-up cell in a new Python, import the library, say where it came from."""
        return subprocess.run(
            [sys.executable, "-c", setup_cell() + THEN],
            cwd=where or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def pip_calls(self):
        if not self.calls.exists():
            return []
        return [json.loads(line) for line in self.calls.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def reader(tmp_path, bare):
    return Reader(tmp_path, bare)


def test_first_cell_fetches_the_book_into_an_empty_folder(reader):
    done = reader.run()
    assert done.returncode == 0, done.stderr
    clone = reader.folder / FOLDER
    said, library = done.stdout.splitlines()
    assert library == str(clone / "book" / "lib" / "__init__.py")
    for named in (address(), FOLDER, REQUIREMENTS.name, sys.prefix):
        assert named in said
    assert reader.pip_calls() == [["install", "--quiet", "-r", f"{FOLDER}/requirements/colab.txt"]]
    assert (clone / "requirements/colab.txt").read_bytes() == REQUIREMENTS.read_bytes()


def test_first_cell_runs_again_without_a_second_clone(reader, bare):
    assert reader.run().returncode == 0
    shutil.rmtree(reader.folder / FOLDER / ".git")
    (reader.folder / FOLDER / "mine").touch()
    assert reader.run().returncode == 0, "a restarted kernel must find what is there"
    assert (reader.folder / FOLDER / "mine").exists()


def test_first_cell_does_nothing_inside_the_book(reader):
    done = reader.run(BOOK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(BOOK / "lib" / "__init__.py")
    assert reader.pip_calls() == []
    assert not (BOOK / FOLDER).exists()


def test_first_cell_finds_the_book_around_the_folder_of_the_readers_notebooks(reader):
    assert reader.run().returncode == 0
    calls, inside = reader.pip_calls(), reader.folder / FOLDER / "book" / "_reader"
    inside.mkdir()
    done = reader.run(inside)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(inside.parent / "lib" / "__init__.py")
    assert reader.pip_calls() == calls
    assert not list(inside.iterdir())


def test_first_cell_stops_where_the_book_cannot_be_fetched(reader):
    shutil.rmtree(reader.folder.parent / "home")
    done = reader.run()
    assert done.returncode != 0
    assert "CalledProcessError" in done.stderr
    assert done.stdout.startswith("Fetching"), "what fails has been announced"
    assert reader.pip_calls() == []


def test_requirements_are_lower_bounds():
    for requirement in wanted():
        assert [s.operator for s in requirement.specifier] == [">="], requirement


def needs_of(names):
    """The packages that these bring, themselves included, as installed here."""
    found, open_names = set(), list(names)
    while open_names:
        name = open_names.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                open_names.append(requirement.name)
    return found


def test_nothing_brings_torch():
    """A second torch would take minutes, and would not fit the machine's driver."""
    brought = needs_of(requirement.name for requirement in wanted())
    assert {"anywidget", "traitlets"} <= brought  # the search does go on to what they need
    assert not {n for n in brought if n.startswith(("torch", "nvidia", "triton"))}


def test_own_environment_satisfies_the_bounds():
    for requirement in wanted():
        assert requirement.specifier.contains(importlib.metadata.version(requirement.name))
