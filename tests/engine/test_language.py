"""The laboratory "Language": what it may be set to, its texts, and what stands without scripts."""

import json
import re

import pytest
from babel import Locale

from engine.language import DROPOUTS, TEXTS, Language
from engine.texts import MOST, chapters, prose, text_of, text_script
from scripts import make_texts


def test_a_chapter_says_what_it_begins_with():
    widget = Language("places", dropout=0.3, prefix="Ma", temperature=0.5, top_k=5, seed=7)
    assert widget.summary() == "Language: places, dropout 0.3, seed 7"
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
    assert html.count("<tr>") == 7


def test_the_kernel_sends_a_text_that_is_asked_for(monkeypatch):
    widget, sent = Language(), []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append(content))
    for name in ("poem", "../LICENSE"):
        widget._answer(widget, {"wanted": "text", "name": name, "id": 3}, [])
    widget._answer(widget, {"wanted": "engine", "id": 4}, [])
    assert sent[0] == {"id": 3, "text": text_of("poem")}
    assert sent[1] == {"id": 3, "text": ""}
    assert "makeAdam" in sent[2]["engine"]


def test_each_text_is_there():
    for name in TEXTS:
        text = text_of(name)
        assert len(text) > 5000
        script = text_script(name)
        found = re.fullmatch(rf'\(window\.bookTexts \?\?= \{{\}}\)\["{name}"\] = (.*);\n', script)
        assert found, name
        assert json.loads(found[1]) == text
    with pytest.raises(ValueError, match="expected a text out of names, places, poem, chapters"):
        text_of("sonnets")


def test_lists_are_those_of_the_script():
    names, places = (text_of(name).splitlines() for name in ("names", "places"))
    assert names == sorted(set(names))
    assert all(map(make_texts.NAME.fullmatch, names))
    assert places == make_texts.places(), "of the Babel that is installed"
    english = Locale("en")
    assert {english.territories["FR"], english.languages["fr"]} <= set(places)


def test_licences_stand_beside_the_texts():
    folder = make_texts.TEXTS
    assert "Daniele Faraglia" in (folder / "LICENSE-FAKER").read_text(encoding="utf-8")
    assert "Unicode, Inc." in (folder / "LICENSE-CLDR").read_text(encoding="utf-8")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for path in folder.iterdir():
        assert path.name == "README.md" or path.name in readme, path.name
    assert make_texts.FAKER in readme


def test_the_books_sentences_are_plain():
    text = chapters()
    assert MOST / 2 < len(text) <= MOST
    assert not re.search(r"[{}$|<>#`*\\]", text)
    assert all(len(line) >= 80 for line in text.splitlines())


def test_prose_leaves_out_what_is_no_sentence():
    long = "A sentence with *many* words that [leads](there.md) on until it is long enough for it."
    markdown = (
        f"# Title\n\n{long}\nStill it.\n\n```{{note}}\n{long}\n```\n\nShort.\n\n$$\n{long}\n$$\n"
    )
    assert prose(markdown) == [
        "A sentence with many words that leads on until it is long enough for it. Still it."
    ]


def test_the_script_names_the_faker_that_it_needs(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(make_texts.importlib, "import_module", missing)
    with pytest.raises(SystemExit, match=f"pip install faker=={make_texts.FAKER}"):
        make_texts.names()
