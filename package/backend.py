"""Builds the package `transformer-checks`: the book's `check_model` and all that it imports.

    pip wheel ./package              (make package)

No module stands here twice: `collect` follows the imports of the book's module and writes what it
meets into one flat package, under new names in the import lines alone. setuptools builds from that.
The names that pip calls, build_wheel and build_sdist, are those of PEP 517.
"""

import ast
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BOOK = ROOT / "book"
NAME = "transformer_checks"
FIRST = "chapters.mistakes.properties"


def collect(folder: Path) -> list[str]:
    """Write the project into a folder that is there, ready to be built without the book.

    Returns: the book's modules in it, in the order in which they were met.
    Errors: ValueError for two modules of one name, and for imports of another form.
    """
    (folder / NAME).mkdir()
    for path in (HERE / NAME).glob("*.py"):
        shutil.copy(path, folder / NAME)
    shutil.copy(ROOT / "LICENSE", folder)
    settings = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    own = 'build-backend = "backend"\nbackend-path = ["."]\n'
    if own not in settings:
        raise ValueError(f"expected {own!r} in pyproject.toml, found other lines")
    settings = settings.replace(own, 'build-backend = "setuptools.build_meta"\n')
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    found = [FIRST]
    for module in found:  # grows meanwhile
        text = _path(module).read_text(encoding="utf-8")
        target = folder / NAME / f"{module.rpartition('.')[2]}.py"
        if target.exists():
            raise ValueError(f"expected one module of the name {target.stem}, found {module} too")
        renamed, needed = _renamed(text)
        target.write_text(renamed, encoding="utf-8")
        found += [other for other in dict.fromkeys(needed) if other not in found]
    return found


def _path(module: str) -> Path:
    return BOOK.joinpath(*module.split(".")).with_suffix(".py")


def _is_folder(name: str) -> bool:
    return BOOK.joinpath(*name.split(".")).is_dir()


def _renamed(text: str) -> tuple[str, list[str]]:
    """A module whose imports of the book are those of the package, and what it imports of it."""
    lines, needed = text.splitlines(keepends=True), []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if any(_is_folder(name.partition(".")[0]) for name in names):
                raise ValueError(f"expected `from module import name`, found import {names[0]}")
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if not _is_folder(node.module.partition(".")[0]):
            continue  # of another package
        if _is_folder(node.module):  # from chapters.mistakes import layer_properties
            needed += [f"{node.module}.{alias.name}" for alias in node.names]
            new = NAME
        else:
            needed.append(node.module)
            new = f"{NAME}.{node.module.rpartition('.')[2]}"
        at = node.lineno - 1
        lines[at] = lines[at].replace(f"from {node.module} import", f"from {new} import")
    return "".join(lines), needed


@contextlib.contextmanager
def _in_project() -> Iterator[None]:
    """Meanwhile, stand in the collected project, in a folder that then goes."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        collect(Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel; return its name."""
    target = str(Path(wheel_directory).resolve())
    with _in_project():
        return build_meta.build_wheel(target, config_settings)


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Build an archive of the collected project, which can be built without the book."""
    target = str(Path(sdist_directory).resolve())
    with _in_project():
        return build_meta.build_sdist(target, config_settings)
