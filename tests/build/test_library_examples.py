"""The examples on the page of the library: one for each public name, each run as it stands."""

import doctest
from typing import Any

import pytest

from build.directives import library
from tests.paths import BOOK

WIDTH = 94  # characters that stand beside each other on a desktop
NAMES = {f"{n.room}.{n.full}": n for module in library.read_library(BOOK) for n in module.names}


def test_every_public_name_has_an_example_and_no_example_has_lost_its_name():
    assert [full for full, name in NAMES.items() if not name.example] == []
    written = [
        f"{path.stem}.{name}"
        for path in library.EXAMPLES.glob("*.txt")
        for name in library.read_examples(path)
    ]
    assert sorted(written) == sorted(NAMES)


@pytest.mark.parametrize("full", NAMES)
def test_an_example_gives_what_the_page_shows(full, tmp_path, monkeypatch):
    """It runs after the line that imports its name, which stands above it on the page."""
    monkeypatch.chdir(tmp_path)  # some write a file
    name = NAMES[full]
    place: dict[str, Any] = {}
    exec(name.imported(), place)
    parts = doctest.DocTestParser().get_doctest(name.example, place, full, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(parts, out=said.append)
    assert result.attempted
    assert not result.failed, "".join(said)
    assert name.full.split(".")[1] in name.example  # it uses what it is an example of
    assert any(part.want for part in parts.examples)  # and shows what comes of it


@pytest.mark.parametrize("full", NAMES)
def test_an_example_fits_the_widest_page(full):
    assert max(map(len, NAMES[full].example.splitlines())) <= WIDTH
