"""The record of runs and its table: gaps, and what a refresh writes."""

import json

import pytest

from build.directives import runs, widgets
from scripts import refresh

FULL = {
    "seconds": 17,
    "date": "2026-02-03",
    "python": "3.11.5",
    "torch": "2.13.0",
    "device": "x86_64, 2 cores",
}


def chapter(folder, name, heading="# A title", html=None):
    outputs = [{"output_type": "display_data", "data": {"text/html": html}}] if html else []
    cells = [
        {"cell_type": "markdown", "source": [heading, "\n"]},
        {"cell_type": "code", "source": [], "outputs": outputs},
    ]
    path = folder / name
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return path


def test_the_record_is_read_and_may_be_missing(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"b": {"cpu": FULL, "gpu": {"seconds": 3}}}), encoding="utf-8")
    assert runs.read_record(path) == {"b": {"cpu": FULL, "gpu": {"seconds": 3}}}
    assert runs.read_record(tmp_path / "none.json") == {}


def test_a_row_has_a_dash_for_what_was_not_written(tmp_path):
    paths = [chapter(tmp_path, f"0{n}_name.ipynb") for n in (1, 2, 3)]
    record = {"01_name.ipynb": {"cpu": FULL, "gpu": {"seconds": 2.7}}, "02_name.ipynb": {}}
    assert runs.rows(record, paths) == [
        ("1. A title", "CPU", "17", "3.11.5", "2.13.0", "x86_64, 2 cores", "2026-02-03"),
        ("1. A title", "GPU", "3", "–", "–", "–", "–"),
        ("2. A title", "–", "–", "–", "–", "–", "–"),
        ("3. A title", "–", "–", "–", "–", "–", "–"),
    ]
    assert runs.title(tmp_path / "absent.ipynb") == "absent.ipynb"


def test_the_summary_counts_what_was_timed(tmp_path):
    paths = [chapter(tmp_path, f"0{n}_name.ipynb") for n in (1, 2, 3)]
    record = {"01_name.ipynb": {"cpu": {"seconds": 200}}, "02_name.ipynb": {"cpu": {"seconds": 40}}}
    text = runs.summary(record, paths)
    assert "2 of 3 chapters were timed: together 4 minutes" in text
    assert "No chapter has been timed on a GPU yet" in text
    record["03_name.ipynb"] = {"gpu": {"seconds": 7}}
    assert "On a GPU, 1 of 3 were timed" in runs.summary(record, paths)


def test_a_run_is_added_to_the_record_and_keeps_the_others(tmp_path, monkeypatch):
    path = tmp_path / "chapters.json"
    path.write_text(json.dumps({"01.ipynb": {"cpu": {}}, "02.ipynb": {"gpu": {"seconds": 3}}}))
    monkeypatch.setattr(refresh, "RECORD", path)
    refresh.note("02.ipynb", "cpu", FULL)
    assert json.loads(path.read_text()) == {
        "01.ipynb": {"cpu": {}},
        "02.ipynb": {"cpu": FULL, "gpu": {"seconds": 3}},
    }
    assert list(tmp_path.iterdir()) == [path]


def test_the_machine_is_described():
    kind, facts = refresh.machine()
    assert kind in runs.KINDS
    assert facts.keys() == set(runs.FIELDS)
    assert all(facts.values())


def test_a_stored_widget_is_found_in_the_first_chapter_that_has_it(tmp_path):
    chapter(tmp_path, "01_none.ipynb", html="<p>no widget</p>")
    html = '<div class="book-widget" data-module="gauge">data</div>'
    second = chapter(tmp_path, "02_one.ipynb", html=html)
    chapter(tmp_path, "03_again.ipynb", html=html.replace("data<", "other<"))
    assert widgets.stored_widget("gauge", tmp_path) == (second, html)
    with pytest.raises(ValueError, match="expected a stored widget 'dial'"):
        widgets.stored_widget("dial", tmp_path)
