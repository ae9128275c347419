"""The laboratory "Language": what it may be set to, and what stands without scripts."""

import json

import pytest

from engine.language import DROPOUTS, TEXTS, Language
from engine.texts import text_of


def test_a_chapter_says_what_it_begins_with():
    widget = Language("places", dropout=0.3, prefix="Ma", temperature=0.5, top_k=5, seed=7)
    assert widget.summary() == "Language: places, characters, dropout 0.3, seed 7"
    pieces = Language("places", merges=200)
    assert pieces.summary() == "Language: places, byte pairs, 200 merges, dropout 0.1, seed 0"
    data = json.loads(widget.data_json())
    assert (data["text"], data["prefix"], data["top_k"], data["top_p"]) == ("places", "Ma", 5, 1)
    assert [name for name, _, _ in data["texts"]] == list(TEXTS)
    assert len(widget.data_json()) < 2000, "the texts themselves load on demand"
    assert "texts" not in widget.declared()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "sonnets"),
        ("dropout", 0.2),
        ("merges", 75),
        ("prefix", "x" * 31),
        ("temperature", 0.0),
        ("top_k", 4),
        ("top_p", 1.5),
        ("seed", -1),
    ],
)
def test_what_it_may_not_be_is_said(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        Language(**{name: value})


def test_without_scripts_stands_what_a_reader_can_set():
    html = Language("poem", top_p=0.9).static_html()
    rates = ", ".join(f"{rate:g}" for rate in DROPOUTS)
    assert f'<th scope="row">Dropout</th><td>0.1</td><td>{rates}</td>' in html
    assert '<th scope="row">Top-p</th><td>0.9</td>' in html
    assert '<th scope="row">Pieces</th><td>characters</td><td>characters, byte pairs, 50 m' in html
    assert html.count("<tr>") == 8


def test_the_kernel_sends_a_text_that_is_asked_for(monkeypatch):
    widget, sent = Language(), []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append(content))
    for name in ("poem", "../LICENSE"):
        widget._answer(widget, {"wanted": "text", "name": name, "id": 3}, [])
    widget._answer(widget, {"wanted": "engine", "id": 4}, [])
    widget._answer(widget, {"wanted": "writing", "id": 5}, [])
    assert sent[0] == {"id": 3, "text": text_of("poem")}
    assert sent[1] == {"id": 3, "text": ""}
    assert "makeAdam" in sent[2]["engine"]
    assert "countedLosses" in sent[3]["text"]
    assert "makeAdam" not in sent[3]["text"], "it stands behind the engine's text"
