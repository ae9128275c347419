"""The chapters as files: stored outputs, one set-up cell, and one place for each definition."""

import copy
import itertools

import nbformat
import pytest
import yaml

from build.directives import runs
from build.source.rooms import folder_of
from tests.notebooks.guards import GUARDS, IGNORE, code_cells, definitions, images, tags
from tests.paths import BOOK, ROOT, lib_definitions

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
IGNORED_OUTPUTS = 9  # ceiling for one chapter; a measured time is printed as measured
SECONDS = 120  # ceiling for one chapter, as recorded by scripts/refresh.py


@pytest.fixture(scope="module", params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request):
    return request.param


@pytest.fixture(scope="module")
def notebook(chapter):
    return nbformat.read(chapter, as_version=4)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_guard(notebook, guard):
    assert guard(notebook) == []


def test_ignored_outputs_stay_few(notebook):
    assert sum(IGNORE in tags(cell) for _, cell in code_cells(notebook)) <= IGNORED_OUTPUTS


def test_first_cell_is_the_common_setup(notebook):
    cells = [cell.source for _, cell in code_cells(notebook)]
    first = nbformat.read(CHAPTERS[0], as_version=4)
    assert cells[0] == next(code_cells(first))[1].source
    assert "lib" in cells[0]


def test_repository_is_one_setting(notebook):
    address = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"][
        "url"
    ]
    assert f'REPOSITORY = "{address}"' in next(code_cells(notebook))[1].source


def test_no_second_definition_of_a_library_name(notebook):
    clash = definitions(notebook).keys() & lib_definitions().keys()
    assert not clash, f"defined in lib already, import instead: {sorted(clash)}"


def test_chapter_took_a_bearable_time(chapter):
    assert runs.read_runs(folder_of(chapter))["cpu"]["seconds"] <= SECONDS


def test_no_function_stands_in_two_chapters():
    parts = {path: definitions(nbformat.read(path, as_version=4)) for path in CHAPTERS}
    twice = [
        f"{a.stem} and {b.stem}: {name}"
        for a, b in itertools.combinations(CHAPTERS, 2)
        for name in parts[a].keys() & parts[b].keys()
        if parts[a][name] == parts[b][name] and parts[a][name].count("\n") >= 5
    ]
    assert not twice


def spoil(notebook, how):
    """Return a copy with one fault that a guard must find."""
    spoilt = copy.deepcopy(notebook)
    cells = [cell for _, cell in code_cells(spoilt)]
    if how == "counts_run_from_one":
        for cell in cells:
            cell.execution_count = None
    elif how == "outputs_are_stored":
        for cell in cells:
            cell.outputs = []
    elif how == "no_hidden_values":
        cells[-1].source += ";"
    elif how == "errors_are_announced":
        cells[-1].outputs = [nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[])]
        cells[-1].metadata["tags"] = []
    elif how in ("figures_have_alt_text", "figures_have_captions"):
        pictures = (c for c in cells if any("image/png" in o.data for o in images(c)))
        next(pictures).metadata["mystnb"] = {}
    elif how == "schematics_hide_their_code":
        drawing = {"image/svg+xml": "<svg><title>A drawing.</title></svg>"}
        cells[-1].outputs = [nbformat.v4.new_output("display_data", data=drawing)]
    elif how == "no_foreign_metadata":
        spoilt.metadata["widgets"] = {}
    elif how == "ignored_cells_assert":
        cells[-1].source = "print(1)"
        cells[-1].metadata["tags"] = [IGNORE]
    elif how == "cells_are_short":
        for cell in cells:
            cell.source = "x = 1\n" * 11
    return spoilt


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_each_guard_rejects_a_spoilt_chapter(guard):
    notebook = nbformat.read(CHAPTERS[0], as_version=4)
    assert guard(spoil(notebook, guard.__name__)) != []
