"""The lock files hold what the requirements ask for, whole, once and with hashes; no network."""

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import lock
from tests.paths import ROOT

LOCKS = lock.LOCKS
PACKAGES = {
    path.stem: lock.read_lock(path.read_text(encoding="utf-8"))
    for path in sorted(LOCKS.glob("*.txt"))
}
# What our environments may hold; the build of torch without CUDA stands for the other.
TOGETHER = {
    name: lines for layer in (*lock.LAYERS, "cuda") for name, lines in PACKAGES[layer].items()
}
TESTS = {"pytest", "hypothesis", "nbval", "playwright", "mypy", "ruff", "transformers", "mutmut"}


def named_in(source: Path) -> Iterator[Requirement]:
    """The requirements of a file and of the files that it reads."""
    for line in source.read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            yield from named_in(source.parent / line.removeprefix("-r "))
        elif re.match(r"\w", line):
            yield Requirement(line.partition("#")[0])


NAMED = [
    (layer, source, requirement)
    for layer, source in (lock.LAYERS | lock.TOOLS).items()
    for requirement in named_in(ROOT / source)
]


def chain(layer: str) -> list[str]:
    """A layer and those that its lock reads."""
    return [layer, *(chain(lock.READS[layer]) if layer in lock.READS else [])]


def parsed(lines: str) -> Requirement:
    """The requirement that the lines of a package in a lock begin with."""
    return Requirement(lines.splitlines()[0].rstrip("\\"))


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


@pytest.mark.parametrize("layer", PACKAGES)
def test_each_package_has_one_version_and_its_hashes(layer):
    assert PACKAGES[layer] or layer == "cpu"
    for name, lines in PACKAGES[layer].items():
        assert canonicalize_name(name) == name
        (pin,) = parsed(lines).specifier
        assert pin.operator == "=="
        hashes = re.findall(r"^    --hash=sha256:([0-9a-f]{64})", lines, re.MULTILINE)
        assert hashes
        assert len(hashes) == len(set(hashes)) == lines.count("\n") - 1, name


def test_a_lock_names_no_address_and_takes_wheels():
    for path in LOCKS.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert "://" not in text
        assert "-index-url" not in text
        options = re.findall(r"^-.*", text, re.MULTILINE)
        assert options[0] in ("--only-binary :all:", "-r book.txt", "-r pdf.txt")
        assert options[1:] in ([], ["--no-binary docopt"])
        assert set(options[1:]) == {
            f"--no-binary {name}" for name in lock.SOURCE_ONLY if name in PACKAGES[path.stem]
        }


@pytest.mark.parametrize("layer", lock.LAYERS)
def test_no_package_is_twice_in_the_locks_of_an_environment(layer):
    read = [name for one in (*chain(layer), "cuda") for name in PACKAGES[one]]
    assert len(set(read)) == len(read)


def test_a_package_has_one_version_in_all_layers():
    both = PACKAGES["test"].keys() & PACKAGES["lab"].keys()
    assert {"torch", "numpy"} <= both
    for name in both:
        assert PACKAGES["test"][name] == PACKAGES["lab"][name], name


def test_building_needs_no_torch_and_reading_no_test_tools():
    packages = {
        layer: {name for one in chain(layer) for name in PACKAGES[one]} for layer in lock.LAYERS
    }
    assert not {"torch", *TESTS} & packages["book"]
    assert packages["test"] >= TESTS
    assert not TESTS & packages["lab"]
    assert {"torch", "jupyterlab", "nbformat"} <= packages["lab"]


@pytest.mark.parametrize(("layer", "source", "requirement"), NAMED, ids=str)
def test_what_a_requirements_file_names_is_locked(layer, source, requirement):
    found = [PACKAGES[one].get(canonicalize_name(requirement.name)) for one in chain(layer)]
    (lines,) = [lines for lines in found if lines] or [None]
    assert lines, f"{requirement} of {source} is in no lock: run `make lock`"
    (pin,) = parsed(lines).specifier
    assert pin.version in requirement.specifier, f"{source} says {requirement}: run `make lock`"


def needed(layer: str) -> dict[str, list[str]]:
    """What the packages of a layer need on this system: each name, and who asks for which versions.

    Read from what is installed here, so only of packages that are.
    """
    found: dict[str, list[str]] = {}
    todo = [requirement for of, _, requirement in NAMED if of == layer]
    done = set()
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        found.setdefault(name, []).append(str(one.specifier))
        for extra in {"", *one.extras}:
            if (name, extra) in done:
                continue
            done.add((name, extra))
            try:
                lines = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue
            todo += [r for r in map(Requirement, lines) if applies(r, extra)]
    return found


@pytest.mark.parametrize("layer", ["book", "test"])
def test_a_lock_is_complete_and_holds_nothing_else(layer):
    locked = {name: parsed(lines) for one in chain(layer) for name, lines in PACKAGES[one].items()}
    needs = needed(layer)
    for name, specifiers in needs.items():
        if lock.CUDA.match(name):
            assert name in PACKAGES["cuda"]
            continue
        assert name in locked, f"{name} is needed and not locked: run `make lock`"
        (pin,) = locked[name].specifier
        for specifier in specifiers:
            assert Requirement(f"x{specifier}").specifier.contains(pin.version, prereleases=True)
    # A wider layer may need a package everywhere that this one needs under another system alone.
    here = {name for name, requirement in locked.items() if applies(requirement)}
    superfluous = {name for name in here - needs.keys() if not needed_elsewhere(name, layer)}
    assert not superfluous, f"locked and needed by nothing: {superfluous}; run `make lock`"


def needed_elsewhere(name: str, layer: str) -> bool:
    """Whether a package of this layer or a wider one names it, under whatever marker."""
    return any(
        canonicalize_name(Requirement(line).name) == name
        for other in TOGETHER
        if other in {canonicalize_name(d.name) for d in metadata.distributions()}
        for line in metadata.requires(other) or []
    )


def test_the_build_without_cuda_is_that_of_the_same_torch():
    (pin,) = parsed(PACKAGES["test"]["torch"]).specifier
    if f"torch{pin}" not in lock.CPU_BUILDS:
        assert not PACKAGES["cpu"]
        return
    (small,) = parsed(PACKAGES["cpu"]["torch"]).specifier
    assert Version(small.version).local == "cpu"
    assert Version(small.version).public == pin.version
    assert parsed(PACKAGES["cpu"]["torch"]).marker.evaluate({"sys_platform": "linux"})
    assert not parsed(PACKAGES["cpu"]["torch"]).marker.evaluate({"sys_platform": "darwin"})


def test_a_torch_whose_other_build_is_unknown_has_none():
    known = next(iter(lock.CPU_BUILDS))
    assert lock.cpu_build(f"{known} \\\n    --hash=sha256:0\n")
    assert lock.cpu_build("torch==1.0.0 \\\n    --hash=sha256:0\n") == {}


UV = '''\
#!{python}
"""Answers as uv does: the packages of the files, one with another marker in the smallest."""
import sys
from pathlib import Path

arguments = sys.argv[1:]
at = arguments.index("--output-file")
sources, output = [Path(name).stem for name in arguments[2:at]], Path(arguments[at + 1])
given = output.read_text()
assert "hash" not in given, "a hash that is given is not looked up"
new = "2.0" if "--upgrade" in arguments or "two==1.0" not in given else "1.0"
lines = {{
    "one": ["one==1.1 ; sys_platform == 'win32'"],
    "two": ["one==1.1", f"two=={{new}}"],
    "three": ["cuda-part==1.3", "docopt==1.4", "one==1.1", "torch==0.1", f"two=={{new}}"],
    "four": ["four==1.5", "one==1.1", "torch==0.1"],
    "tools": ["two==7.0"],
}}
lines = sorted({{line.split(" ;")[0]: line for name in sources for line in lines[name]}}.values())
output.write_text("".join(f"{{line}} \\\\\\n    --hash=sha256:{{'0' * 64}}\\n" for line in lines))
'''


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """Layers of four files, and a uv that knows their packages."""
    program = tmp_path / "uv"
    program.write_text(UV.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    layers = {"book": "one.txt", "pdf": "two.txt", "test": "three.txt", "lab": "four.txt"}
    monkeypatch.setattr(lock, "LAYERS", layers)
    monkeypatch.setattr(lock, "TOOLS", {"tools": "tools.txt"})
    monkeypatch.setattr(lock, "CPU_BUILDS", {"torch==0.1": {"cp311": "1" * 64}})
    return str(program)


@pytest.mark.skipif(sys.platform == "win32", reason="a script of one line runs no program there")
def test_the_files_that_are_written(tmp_path, uv):
    folder = tmp_path / "locks"
    lock.write_locks(folder, uv=uv)
    written = {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert {layer: list(lock.read_lock(text)) for layer, text in written.items()} == {
        "book": ["one"],
        "pdf": ["two"],
        "test": ["docopt", "torch"],
        "lab": ["four", "torch"],
        "cuda": ["cuda-part"],
        "cpu": ["torch"],
        "tools": ["two"],
    }
    zeros, ones = "0" * 64, "1" * 64
    assert written["book"] == (
        "# Written by scripts/lock.py from one.txt: change that, then run `make lock`.\n"
        f"--only-binary :all:\none==1.1 \\\n    --hash=sha256:{zeros}\n"
    ), "the marker is that of the widest layer"
    assert "\n-r book.txt\ntwo==2.0 " in written["pdf"]
    assert "\n-r pdf.txt\n--no-binary docopt\ndocopt==1.4 " in written["test"]
    assert "\n-r book.txt\nfour==1.5 " in written["lab"]
    assert written["cpu"].endswith(
        f"torch==0.1+cpu ; sys_platform == 'linux' \\\n    --hash=sha256:{ones}\n"
    )
    lock.write_locks(folder, uv=uv)
    assert {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()} == written


@pytest.mark.skipif(sys.platform == "win32", reason="a script of one line runs no program there")
def test_what_is_locked_stays_until_an_upgrade(tmp_path, uv):
    folder = tmp_path / "locks"
    lock.write_locks(folder, uv=uv)
    pdf = folder / "pdf.txt"
    pdf.write_text(pdf.read_text(encoding="utf-8").replace("two==2.0", "two==1.0"))
    lock.write_locks(folder, uv=uv)
    assert "two==1.0" in pdf.read_text(encoding="utf-8")
    lock.write_locks(folder, uv=uv, upgrade=True)
    assert "two==2.0" in pdf.read_text(encoding="utf-8")
