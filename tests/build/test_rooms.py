"""The chapters as the contents have them, and what is read of their words."""

import pytest

from build.source.rooms import Room, Words, folder_of, read_words, rooms
from tests.paths import BOOK, ROOT

CONTENTS = """\
root: book/intro
parts:
  - caption: One
    chapters: [{file: book/07_second}, {file: book/02_first_of_all}]
  - chapters: [{file: book/glossary}, {file: book/05_third}]
"""


def test_chapters_are_numbered_as_the_contents_order_them(tmp_path):
    (tmp_path / "_toc.yml").write_text(CONTENTS, encoding="utf-8")
    found = rooms(tmp_path)
    assert [(room.number, room.name, room.page) for room in found] == [
        (1, "second", "book/07_second"),
        (2, "first_of_all", "book/02_first_of_all"),
        (3, "third", "book/05_third"),
    ]
    assert found[1].folder == tmp_path / "book" / "chapters" / "first_of_all"


def test_every_notebook_of_the_book_is_a_chapter_with_words():
    found = rooms(ROOT)
    assert sorted(room.notebook for room in found) == sorted(BOOK.glob("[0-9]*.ipynb"))
    for room in found:
        assert room.words.here, room.name
        assert room.words.index, room.name


def write(folder, text):
    room = Room(1, folder / "01_name.ipynb")
    room.folder.mkdir(parents=True)
    (room.folder / "words.yml").write_text(text, encoding="utf-8")
    return room


def test_words_are_read_with_the_terms_that_they_mean(tmp_path):
    room = write(
        tmp_path,
        "here: aside\nglossary: [softmax, {recurrence: recurrent network}]\n"
        "builds: [layers.LayerNorm]\nindex:\n  mask: [One, Two]\nin_passing: [mask]\n",
    )
    assert room.words == Words(
        here="aside",
        glossary={"softmax": "softmax", "recurrence": "recurrent network"},
        index={"mask": ["One", "Two"]},
        in_passing=frozenset({"mask"}),
        builds=frozenset({"layers.LayerNorm"}),
    )


@pytest.mark.parametrize("text", ["", "{}\n", None])
def test_a_room_may_say_nothing(text, tmp_path):
    folder = tmp_path if text is None else write(tmp_path, text).folder
    assert read_words(folder) == Words()
    assert folder_of(tmp_path / "01_name.ipynb") == tmp_path / "chapters" / "name"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("terms: [mask]\n", "expected here, glossary, index, in_passing, builds, got terms"),
        ("in_passing: [mask]\nindex: {query: [One]}\n", "`in_passing`, got mask"),
    ],
)
def test_what_has_no_meaning_is_refused(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_words(write(tmp_path, text).folder)
