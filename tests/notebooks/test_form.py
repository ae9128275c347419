"""The chapters that are in form meet every bar, and a copy of one that is spoilt misses it."""

import copy
import json

import pytest

from scripts import form


def notebook(chapter):
    return json.loads(form.chapters()[chapter].read_text(encoding="utf-8"))


def without(kind):
    """Spoil a notebook: no directive of this kind."""

    def spoil(cells):
        for cell in cells:
            cell["source"] = "".join(cell["source"]).replace(f"{{{kind}}}", "{admonition}")

    return spoil


def without_schematics(cells):
    cells[:] = [cell for cell in cells if "remove-input" not in cell["metadata"].get("tags", [])]


def without_text(cells):
    cells[:] = [cell for cell in cells if cell["cell_type"] == "code"]


SPOILT = [
    (without("recall"), {"recalls"}),
    (without_schematics, {"schematics"}),
    (without_text, {"adjacent"}),
]


def test_chapters_in_form_meet_the_bars():
    missed = {
        chapter: {*form.misses(form.measure(notebook(chapter)))} & {*form.HELD}
        for chapter in form.IN_FORM
    }
    assert {chapter: names for chapter, names in missed.items() if names} == {}


@pytest.mark.parametrize(
    ("spoil", "expected"), SPOILT, ids=["+".join(sorted(e)) for _, e in SPOILT]
)
def test_a_spoilt_copy_does_not(spoil, expected):
    for chapter in form.IN_FORM:
        spoilt = copy.deepcopy(notebook(chapter))
        spoil(spoilt["cells"])
        assert expected <= set(form.misses(form.measure(spoilt)))
