"""The texts that a language model in the page learns from: files, and the book's sentences."""

import json
import re

import pytest
from babel import Locale

from engine.texts import MOST, TEXTS, chapters, prose, text_of, text_script
from scripts import make_texts


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
