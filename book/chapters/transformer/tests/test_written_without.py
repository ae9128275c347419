"""The models of the record beside each other: what is offered, stored, and sent on request."""

import json

import pytest

from chapters.transformer.part_runs import LEFT_OUT, NOTHING
from chapters.transformer.tests.samples import PAIRS, WROTE, written
from chapters.transformer.written_without import CHAPTERS, RECORD, WHOLE, WrittenWithout, parts_of
from measure.records import read_results
from tests.paths import BOOK


def test_it_stores_the_two_models_that_it_begins_with_and_knows_the_others():
    data = json.loads(WrittenWithout("norms", record=written()).data_json())
    assert data["domains"] == {"part": ["positions", "norms"], "seed": [0, 1]}
    assert (data["part"], data["seed"], data["sentence"]) == ("norms", 0, 0)
    assert data["said"] == {name: {"0": WROTE[name, 0]} for name in ("nothing", "norms")}
    assert data["pairs"] == [list(pair) for pair in PAIRS.items()]
    assert data["parts"][1:] == [
        {
            "name": "positions",
            "words": "positions",
            "bleu": {"0": 27.17, "1": 28.17},
            "chapter": [8, "08_positions"],
        },
        {
            "name": "norms",
            "words": "the layer norms",
            "bleu": {"0": 28.43},
            "chapter": [7, "07_feed_forward_norm"],
        },
    ]


def test_what_stands_without_scripts_is_what_the_two_models_write():
    widget = WrittenWithout("positions", seed=1, record=written())
    assert repr(widget) == "WrittenWithout: without positions, seed 1, 3 sentences"
    html = widget.static_html()
    assert html.count("<tr>") == 1 + len(PAIRS)
    rows = zip(PAIRS.items(), WROTE["nothing", 1], WROTE["positions", 1], strict=True)
    for (source, right), whole, without in rows:
        cells = "".join(f"<td>{text}</td>" for text in (right, whole, without))
        assert f'<th scope="row">{source}</th>{cells}</tr>' in html


def test_a_model_that_the_record_lacks_has_no_texts():
    widget = WrittenWithout("norms", seed=1, record=written())
    assert widget.said == {"nothing": {"1": WROTE["nothing", 1]}}
    assert widget.static_html().count("<tr>") == 1


def test_it_may_begin_with_one_sentence():
    widget = WrittenWithout(sentence=2, record=written())
    assert repr(widget) == "WrittenWithout: without positions, seed 0, sentence 2"
    assert widget.sentence == 2


def test_what_the_record_does_not_have_is_refused():
    record = written()
    with pytest.raises(ValueError, match=r"part: expected one of positions, norms, got 'heads'"):
        WrittenWithout("heads", record=record)
    with pytest.raises(ValueError, match=r"seed: expected one of 0, 1, got 2"):
        WrittenWithout(seed=2, record=record)
    with pytest.raises(ValueError, match=r"sentence: expected a whole number from 0 to 3, got 4"):
        WrittenWithout(sentence=4, record=record)
    for kept in ({"nothing"}, {"positions", "norms"}):
        few = record | {"runs": [run for run in record["runs"] if run["part"] in kept]}
        with pytest.raises(ValueError, match=r"record: expected the whole model, and others"):
            WrittenWithout(record=few)


def test_a_part_without_a_seed_of_the_whole_model_is_not_offered():
    record = written()
    record["runs"] = [run for run in record["runs"] if (run["part"], run["seed"]) != (WHOLE, 0)]
    assert [(one["name"], [*one["bleu"]]) for one in parts_of(record)] == [
        ("nothing", ["1"]),
        ("positions", ["1"]),
    ]


def test_the_kernel_sends_all_texts_to_a_page_that_asks(monkeypatch):
    widget, sent = WrittenWithout(record=written()), []
    monkeypatch.setattr(widget, "send", sent.append)
    for wanted in ("other", widget.packed["id"]):
        widget._handle_custom_msg({"wanted": wanted, "id": 7}, [])
    [answer] = sent
    assert answer["id"] == 7
    texts = {(part, int(seed)): said for part, one in answer["record"].items()
             for seed, said in one.items()}  # fmt: skip
    assert texts == WROTE


def test_each_part_has_the_chapter_that_builds_it():
    assert WHOLE == NOTHING
    assert [*CHAPTERS] == [part for part in LEFT_OUT if part != NOTHING]
    for concept in CHAPTERS.values():
        assert len([*BOOK.glob(f"[0-9]*_{concept}.ipynb")]) == 1, concept


def test_the_records_models_are_offered_all_of_them_and_no_other():
    record, widget = read_results(RECORD), WrittenWithout()
    runs = {(run["part"], run["seed"]): run for run in record["runs"]}
    whole = {seed for part, seed in runs if part == WHOLE}
    offered = {(one["name"], int(seed)) for one in widget.parts for seed in one["bleu"]}
    assert offered == {(part, seed) for part, seed in runs if seed in whole}
    for part in widget.domains["part"]:
        for seed in widget.domains["seed"]:
            if (part, seed) in runs:
                held = WrittenWithout(part, seed=seed)
                assert held.said[part][str(seed)] == runs[part, seed]["said"]
                assert held.static_html().count("<tr>") == 1 + len(widget.pairs)
