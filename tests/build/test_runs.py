"""The record of runs and its table: gaps, and what a refresh writes."""

import json

import pytest

from build.directives import runs, widgets
from build.source.rooms import Room
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


def rooms(folder, *records):
    """Chapters of the names a, b, ... with the runs that their rooms have recorded."""
    made = []
    for number, (letter, record) in enumerate(zip("abc", records, strict=False), start=1):
        room = Room(number, chapter(folder, f"{number:02}_{letter}.ipynb"))
        room.folder.mkdir(parents=True)
        if record is not None:
            (room.folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
        made.append(room)
    return made


def test_the_record_is_read_and_may_be_missing(tmp_path):
    full = {"cpu": FULL, "gpu": {"seconds": 3}}
    known, unknown = rooms(tmp_path, full, None)
    assert runs.read_runs(known.folder) == full
    assert runs.read_runs(unknown.folder) == {}


def test_a_row_has_a_dash_for_what_was_not_written(tmp_path):
    made = rooms(tmp_path, {"cpu": FULL, "gpu": {"seconds": 2.7}}, {}, None)
    assert runs.rows(made) == [
        ("1. A title", "CPU", "17", "3.11.5", "2.13.0", "x86_64, 2 cores", "2026-02-03"),
        ("1. A title", "GPU", "3", "–", "–", "–", "–"),
        ("2. A title", "–", "–", "–", "–", "–", "–"),
        ("3. A title", "–", "–", "–", "–", "–", "–"),
    ]
    assert runs.title(tmp_path / "absent.ipynb") == "absent.ipynb"


def test_the_summary_counts_what_was_timed(tmp_path):
    made = rooms(tmp_path, {"cpu": {"seconds": 200}}, {"cpu": {"seconds": 40}}, None)
    text = runs.summary(made)
    assert "2 of 3 chapters were timed: together 4 minutes" in text
    assert "No chapter has been timed on a GPU yet" in text
    refresh.note(made[2].folder, "gpu", {"seconds": 7})
    assert "On a GPU, 1 of 3 were timed" in runs.summary(made)


def test_a_run_is_added_to_the_record_and_keeps_the_other_kind(tmp_path):
    refresh.note(tmp_path, "gpu", {"seconds": 3})
    refresh.note(tmp_path, "cpu", {"seconds": 8})
    refresh.note(tmp_path, "cpu", FULL)
    assert runs.read_runs(tmp_path) == {"cpu": FULL, "gpu": {"seconds": 3}}
    assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]


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


def test_a_widget_in_no_chapter_lies_beside_its_script(tmp_path, monkeypatch):
    path = tmp_path / "dial.html"
    monkeypatch.setattr(widgets, "widgets", lambda: {"dial": tmp_path})
    with pytest.raises(ValueError, match="expected a stored widget 'dial'"):
        widgets.stored_widget("dial", tmp_path)
    path.write_text("<p>its output</p>", encoding="utf-8")
    assert widgets.stored_widget("dial", tmp_path) == (path, "<p>its output</p>")


def test_a_page_may_show_a_stored_widget_in_another_state():
    html = (
        '<p>a</p><script type="application/json">{"step":3,"kind":"a","text":"\\u003cb>"}</script>b'
    )
    shown = widgets.in_state(html, "step=5 kind=b")
    data = widgets.DATA.search(shown)["data"]
    assert shown == html.replace('"step":3,"kind":"a"', '"step":5,"kind":"b"')
    assert json.loads(data) == {"step": 5, "kind": "b", "text": "<b>"}
    assert widgets.in_state(html, "") == html
    with pytest.raises(ValueError, match="expected keys out of step, kind, text, got 'size=2'"):
        widgets.in_state(html, "size=2")
