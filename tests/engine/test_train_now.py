"""The first page's trainer: what it may be set to, what is stored of it, what it says as a text."""

import json

import pytest

from chapters.transformer.take_out import PARTS
from engine.train_now import TrainNow
from measure.records import read_results
from scripts.store_widgets import STORED, stored

RECORD = read_results("train_now")


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_what_the_build_shows_is_the_widget(kind):
    path, text = stored(kind)
    assert path.read_text("utf-8") == text, "run: python scripts/store_widgets.py"


def test_it_begins_with_what_was_recorded_and_trains_the_whole_model():
    data = json.loads(TrainNow().data_json())
    assert (data["number"], data["seed"]) == (RECORD["number"], 0)
    assert data["settings"] == dict.fromkeys(PARTS, True)
    before = data["before"]
    assert before["number"] == RECORD["number"]
    assert len(before["weights"]) == len(before["words"]) + 1, "a row for each word, and the end"
    assert {len(row) for row in before["weights"]} == {len(RECORD["number"]) + 1}
    for row in before["weights"]:
        assert sum(row) == pytest.approx(1, abs=0.04)
    assert TrainNow("70", seed=7).summary() == "TrainNow: 70, seed 7"


def test_what_it_may_not_be_is_said():
    with pytest.raises(ValueError, match=r"number: expected a whole number of one to five digits"):
        TrainNow("123456")
    with pytest.raises(ValueError, match=r"seed: expected a whole number from 0 to 9999, got -1"):
        TrainNow(seed=-1)


def test_without_scripts_it_says_what_the_recorded_run_wrote():
    html = TrainNow().static_html()
    assert html.count("<tr>") == 1 + len(RECORD["history"])
    assert "<td>seventy three thousand six hundred and ninety one</td><td>100%</td>" in html
    assert '<th scope="row">after step 0</th><td>six three forty' in html
