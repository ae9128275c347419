"""The glossary and the index: every word is used, and every place is there."""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document

from build.directives import index
from build.directives.widgets import DATA, USED
from build.doctree import glossary
from build.source.rooms import Room, rooms
from engine.laboratory import TASKS
from engine.text import LABORATORIES
from tests.paths import BOOK, ROOT

GLOSSARY = (BOOK / "glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^(\S[^\n]*)\n((?:  [^\n]+\n)+)", re.M)
ENTRIES = {term: " ".join(text.split()) for term, text in ENTRY.findall(GLOSSARY)}
ROOMS = rooms(ROOT)
CHAPTERS = {room.notebook.stem: room.notebook for room in ROOMS}
INDEX = index.gather(ROOMS)


def markdown(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def headings(path: Path) -> list[str]:
    """The titles of a chapter's sections as plain text."""
    text = re.sub(r"^(`{3,}).*?^\1", "", markdown(path), flags=re.M | re.S)
    return re.findall(r"^#{1,3} (.+)$", text, re.M)


PLAIN = str.maketrans({"`": "", "$": "", "_": " "})
TEXTS = {name: markdown(path).translate(PLAIN) for name, path in CHAPTERS.items()}


def test_the_glossary_is_of_a_bearable_size_and_in_order():
    assert 70 <= len(ENTRIES) <= 7 * len(CHAPTERS)
    assert [*ENTRIES] == sorted(ENTRIES, key=str.lower)


@pytest.mark.parametrize("term", ENTRIES)
def test_a_term_is_used_and_its_entry_leads_to_the_chapter_that_explains_it(term):
    pattern = glossary.word_pattern(term)
    assert any(pattern.search(text) for text in TEXTS.values()), "no chapter uses it"
    text, name, section = re.fullmatch(
        r"(.+?) \[Chapter \d+\]\((\w+)\.ipynb#([\w-]+)\)", ENTRIES[term]
    ).groups()
    assert f"[Chapter {int(name[:2])}]" in ENTRIES[term]
    assert section in map(index.slug, headings(CHAPTERS[name]))
    assert 4 <= len(text.split()) <= 40


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_chapter_links_few_words_and_none_of_its_own(room):
    words = room.words.glossary
    assert 1 <= len(words) <= 8
    assert [term for term in words.values() if f"({room.notebook.name}#" in ENTRIES[term]] == []


@pytest.mark.parametrize("words", INDEX, ids=lambda words: "; ".join(words))
def test_an_entry_of_the_index_leads_to_sections(words):
    notebooks = {room.number: room.notebook for room in ROOMS}
    assert INDEX[words]
    for number, title in INDEX[words]:
        assert title in headings(notebooks[number])


def test_the_index_has_the_chapters_in_order_and_those_in_passing_last(tmp_path):
    made = []
    for number, (name, text) in enumerate(
        {
            "early": "index: {mask: [Seen], mask; causal: [One, Two]}\nin_passing: [mask]\n",
            "silent": "here: aside\n",
            "late": "index: {mask ;causal: [Late], mask: [Built]}\n",
        }.items(),
        start=1,
    ):
        room = Room(number, tmp_path / f"{number:02}_{name}.ipynb")
        room.folder.mkdir(parents=True)
        (room.folder / "words.yml").write_text(text, encoding="utf-8")
        made.append(room)
    assert index.gather(made) == {
        ("mask", ""): [(3, "Built"), (1, "Seen")],
        ("mask", "causal"): [(1, "One"), (1, "Two"), (3, "Late")],
    }


def test_a_narrower_word_is_not_written_twice():
    keys = [(index.sort_key(word), index.sort_key(form)) for word, form in INDEX]
    plain = [key for key, (word, _) in zip(keys, INDEX, strict=True) if "`" not in word]
    assert len(set(plain)) == len(plain)


def test_a_name_in_the_index_is_defined_in_the_library_or_in_a_kit():
    defined = set()
    for path in (*BOOK.glob("lib/*.py"), *BOOK.glob("chapters/*/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined |= {node.name for node in ast.walk(tree) if hasattr(node, "name")}
    words = [word for word, _ in INDEX if re.fullmatch(r"`.*`", word)]
    assert {name for word in words for name in re.findall(r"`(\w+)`", word)} <= defined


def test_the_index_is_markdown_with_links_that_myst_resolves():
    table = {
        ("mask", "causal"): [(6, "Nothing leaks")],
        ("mask", ""): [(6, "It's $n^2$ here"), (3, "`f`, shown")],
        ("`f`", ""): [(3, "`f`, shown")],
    }
    number = '<span class="index-number">{}</span>'.format
    assert index.letters(table, {3: "03_a.ipynb", 6: "06_b.ipynb"}) == {
        "F": f"{{.index-words}}\n- `f`, [{number(3)} `f`, shown](03_a.ipynb#f-shown)\n",
        "M": "{.index-words}\n"
        f"- mask, [{number(6)} It's $n^2$ here](06_b.ipynb#its--here), "
        f"[{number(3)} `f`, shown](03_a.ipynb#f-shown)\n\n"
        f"  - causal, [{number(6)} Nothing leaks](06_b.ipynb#nothing-leaks)\n",
    }


@pytest.mark.parametrize(
    ("form", "text", "found"),
    [
        ("mask", "Masks hide", "Masks"),
        ("mask", "unmasked, masked, mask-like, a mask.", "mask"),
        ("query", "all queries", "queries"),
        ("causal mask", "a causal\nmask here", "causal\nmask"),
        ("Adam", "adam, Adams, Adam", "Adams"),
        ("n-gram", "an n-gram", "n-gram"),
        ("head", "ahead, heading, overhead", None),
    ],
)
def test_a_word_is_found_whole_and_in_the_plural(form, text, found):
    match = glossary.word_pattern(form).search(text)
    assert (match and match.group()) == found


def page() -> nodes.document:
    """A heading, a quotation, and a paragraph in which the word is marked up before it is plain."""
    document = new_document("page")
    quoted = nodes.note("", nodes.paragraph("", "a mask aside"))
    marked = [nodes.literal(text="mask"), nodes.strong(text="mask"), nodes.math(text="mask")]
    plain = [nodes.Text(" and a causal"), nodes.Text("\n"), nodes.Text("mask, and a mask again")]
    text = nodes.paragraph("", "", *marked, *plain)
    document += nodes.section("", nodes.title(text="The mask"), quoted, text)
    return document


def test_the_first_use_in_running_text_becomes_the_link():
    document = page()
    words = {
        "causal mask": glossary.term_link(),
        "mask": glossary.term_link(),
        "head": glossary.term_link(),
    }
    before = document.astext()
    assert glossary.link_words(document, words) == ["head"]
    assert document.astext() == before
    assert [link.astext() for link in document.findall(glossary.term_link)] == [
        "causal\nmask",
        "mask",
    ]
    assert words["mask"].parent.children[-1].astext() == " again"


MARGIN = re.compile(r"^```\{margin\}\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("name", CHAPTERS)
def test_margin_notes_are_few_and_short(name):
    text = markdown(CHAPTERS[name])
    notes = MARGIN.findall(text)
    assert text.count("{margin}") == len(notes)
    assert 1 <= len(notes) <= 5
    for note in notes:
        assert len(note.split()) <= 45, note
        assert max(map(len, note.splitlines())) <= 100, (
            note
        )  # it reads as it is where nothing sets it
    assert not text.partition("## Exercises")[2].count("{margin}")


# --- laboratories -------------------------------------------------------------------------------

LISTED = re.compile(
    r"^- \[([^]]+)\]\(([\w.]+)(?:#([\w-]+))?\), (.+?)\\\n {2}(\S.*(?:\n {2}.*)*)", re.M
)
ON_THE_FIRST_PAGE = "train_now"


def laboratories(path: Path) -> list[tuple[str, str, str]]:
    """Of each laboratory of a chapter: its module, its task if it has one, and its section."""
    found, section = [], ""
    for cell in nbformat.read(path, as_version=4).cells:
        for title in re.findall(r"^#{2,3} (.+)$", cell.source, re.M):
            section = index.slug(title) if cell.cell_type == "markdown" else section
        for output in cell.get("outputs", ()):
            html = output.get("data", {}).get("text/html", "")
            for module in set(USED.findall(html)) & set(LABORATORIES):
                task = json.loads(DATA.search(html)["data"]).get("task", "")
                found.append((module, task, section))
    return found


def test_the_page_of_laboratories_lists_every_one_in_its_place():
    listed = LISTED.findall((BOOK / "laboratories.md").read_text(encoding="utf-8"))
    [(_, first, _, where, _), *others] = listed
    assert (first, where) == ("intro.md", "on the first page")
    assert f"```{{widget}} {ON_THE_FIRST_PAGE}\n" in (BOOK / "intro.md").read_text("utf-8")
    there = [
        (f"{name}.ipynb", section, f"chapter {int(name[:2])}", module, task)
        for name, path in sorted(CHAPTERS.items())
        for module, task, section in laboratories(path)
    ]
    assert [(file, section, where) for _, file, section, where, _ in others] == [
        (file, section, where) for file, section, where, *_ in there
    ]
    for (title, *_), (*_, task) in zip(others, there, strict=True):
        if task:
            assert title.replace("*", "") == TASKS[task].title
    assert {module for *_, module, _ in there} | {ON_THE_FIRST_PAGE} == set(LABORATORIES)
    for *_, text in listed:
        assert 10 <= len(text.split()) <= 45
