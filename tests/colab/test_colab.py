"""On Colab a reader has one notebook file and nothing else: its first cell must fetch the rest.

Here the set-up cell is run alone, with a stand-in for pip: no network is needed. The chapters
themselves, in an environment as Colab's, are run by `make colab`: see test_chapters.py.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.requirements import Requirement

from tests.colab.mirror import FOLDER, VERSION, environment, redirected, setup_cell, snapshot
from tests.paths import BOOK, ROOT

RECORDER = """
import json, os, sys
with open(os.environ["PIP_CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if "PIP_FAILS" in os.environ:
    sys.exit("retrying\\nERROR: no matching distribution")
"""
# As Jupyter shows it: an error that renders itself is that one line.
RUN = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_cell(sys.argv[1])
shell.run_cell("import lib; print(lib.__file__)")
"""
REQUIREMENTS = ROOT / "requirements" / "colab.txt"
NEEDS = f"{FOLDER}/requirements/colab.txt"


def wanted() -> list[Requirement]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return snapshot(tmp_path_factory.mktemp("book"))


class Reader:
    """Someone with an empty folder, the served book, and a pip that only takes notes."""

    def __init__(self, folder, served):
        (folder / "stub").mkdir()
        (folder / "stub" / "pip.py").write_text(RECORDER, encoding="utf-8")
        self.folder, self.calls, self.served = folder / "content", folder / "calls", served
        self.folder.mkdir()
        self.environment = environment(folder / "home") | {
            "PYTHONPATH": str(folder / "stub"),
            "PIP_CALLS": str(self.calls),
            "PATH": str(folder / "stub"),  # there is no git, nor anything else
            "NO_COLOR": "1",
        }

    def run(self, where=None):
        """Run the set-up cell in a new IPython, import the library, say where it came from."""
        done = subprocess.run(
            [sys.executable, "-c", RUN, redirected(setup_cell(), self.served)],
            cwd=where or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def stopped(self):
        """Run the set-up cell, which has to stop: the one line that it ends with."""
        said = self.run()
        (line,) = [one for one in said if one.startswith("The set-up stopped: ")]
        assert not any("Traceback" in one for one in said[: said.index(line)])
        return line

    def pip_calls(self):
        if not self.calls.exists():
            return []
        return [json.loads(line) for line in self.calls.read_text(encoding="utf-8").splitlines()]

    def book(self):
        return self.folder / FOLDER / "book"


@pytest.fixture
def reader(tmp_path, served):
    return Reader(tmp_path, served)


def test_first_cell_fetches_the_book_into_an_empty_folder_without_git(reader):
    fetching, installing, library = reader.run()
    assert library == str(reader.book() / "lib" / "__init__.py")
    archive = f"{reader.served.as_uri()}/archive/{VERSION}.zip"
    assert fetching == f"Fetching {archive} into {FOLDER}"
    assert installing == f"Installing {NEEDS} into {sys.prefix}"
    (call,) = reader.pip_calls()
    assert call[-4:] == ["install", "--quiet", "-r", NEEDS]
    assert (reader.folder / NEEDS).read_bytes() == REQUIREMENTS.read_bytes()
    assert [path.name for path in reader.folder.iterdir()] == [FOLDER]


def test_first_cell_runs_again_without_fetching_again(reader):
    reader.run()
    (reader.folder / FOLDER / "mine").touch()
    said = reader.run()
    assert len(said) == 2, "a restarted kernel must find what is there"
    assert (reader.folder / FOLDER / "mine").exists()


def test_first_cell_does_nothing_inside_the_book(reader):
    assert reader.run(BOOK) == [str(BOOK / "lib" / "__init__.py")]
    assert reader.pip_calls() == []
    assert not (BOOK / FOLDER).exists()


def test_first_cell_finds_the_book_around_the_folder_of_the_readers_notebooks(reader):
    reader.run()
    calls, inside = reader.pip_calls(), reader.book() / "_reader"
    inside.mkdir()
    assert reader.run(inside) == [str(inside.parent / "lib" / "__init__.py")]
    assert reader.pip_calls() == calls
    assert not list(inside.iterdir())


@pytest.mark.parametrize("files", [(), ("__init__.py",), ("__init__.py", "notebook.py")])
def test_a_folder_named_lib_beside_the_notebook_is_not_taken_for_the_book(reader, files):
    (reader.folder / "lib").mkdir()
    for name in files:
        (reader.folder / "lib" / name).touch()
    *_, library = reader.run()
    assert library == str(reader.book() / "lib" / "__init__.py")


def test_a_library_on_the_path_goes_before_a_folder_named_lib(reader):
    (reader.folder / "lib").mkdir()
    (reader.folder / "lib" / "__init__.py").touch()
    reader.environment["PYTHONPATH"] += f":{BOOK}"
    assert reader.run() == [str(BOOK / "lib" / "__init__.py")]
    assert reader.pip_calls() == []


def test_a_folder_that_holds_half_the_book_is_named(reader):
    (reader.book() / "lib").mkdir(parents=True)
    (reader.book() / "lib" / "__init__.py").touch()
    assert f"{FOLDER} is not the whole book. Delete it" in reader.stopped()
    shutil.rmtree(reader.folder / FOLDER)
    *_, library = reader.run()
    assert library == str(reader.book() / "lib" / "__init__.py")


def test_a_fetch_that_fails_is_one_line_and_leaves_nothing(reader, tmp_path):
    reader.served = tmp_path / "nowhere"
    said = reader.stopped()
    assert "could not be fetched" in said
    assert "Check the network" in said
    broken = tmp_path / "nowhere" / "archive" / f"{VERSION}.zip"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"half of it")
    assert "could not be fetched (File is not a zip file)" in reader.stopped()
    assert list(reader.folder.iterdir()) == []
    assert reader.pip_calls() == []


def test_what_the_line_advises_works(reader, tmp_path):
    """Who has the archive from elsewhere unpacks it and names its folder."""
    with zipfile.ZipFile(reader.served / "archive" / f"{VERSION}.zip") as archive:
        archive.extractall(reader.folder)
    (reader.folder / f"book-{VERSION}").rename(reader.folder / FOLDER)
    reader.served = tmp_path / "nowhere"
    *_, library = reader.run()
    assert library == str(reader.book() / "lib" / "__init__.py")


def test_an_installation_that_fails_is_one_line_and_is_tried_again(reader):
    reader.environment["PIP_FAILS"] = "1"
    said = reader.stopped()
    assert f"pip could not install {NEEDS}" in said
    assert said.endswith("(ERROR: no matching distribution)")
    del reader.environment["PIP_FAILS"]
    *_, library = reader.run()
    assert library == str(reader.book() / "lib" / "__init__.py")
    assert len(reader.pip_calls()) == 2


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
