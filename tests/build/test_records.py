"""Numbers that the build reads from records: what the role says, and each mistake that stops it."""

import io
import json

import pytest
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

from build.directives.records import calculate, recorded
from build.pages.search import read_page
from build.readers.plain import Chapter, to_plain
from build.source.places import Places, UnknownMarkup
from tests.paths import ROOT

RECORD = {
    "whole": {"exact": 0.9973},
    "by head": {"e1.1": 0.9253},
    "counts": [3, 5, 7],
    "settings": [{"name": "wide", "loss": [1, 2]}, {"name": "deep", "loss": [4, 6]}],
}


@pytest.fixture
def book(tmp_path):
    """A book with one record of a chapter and one of the benchmarks."""
    chapter, bench = tmp_path / "book/chapters/one/results", tmp_path / "benchmarks/results"
    for folder, name in ((chapter, "first"), (bench, "second")):
        folder.mkdir(parents=True)
        (folder / f"{name}.json").write_text(json.dumps(RECORD), encoding="utf-8")
    return tmp_path / "book"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("first: whole.exact | .3f", "0.997"),
        ("second: whole.exact - record['by head']['e1.1'] | .3f", "0.072"),
        ("first: record['by head']['e1.1'] - whole.exact | .2f", "−0.07"),
        ("first:whole.exact|.0%", "100 %"),
        ("first: 1500 * whole.exact | ,.0f", "1,496"),
        ("first: counts[-1] / counts[0] ** 2 | .2f", "0.78"),
        ('first: settings["deep"].loss[1] | d', "6"),
        ("first: max(settings.loss[0]) - mean(counts) | .1f", "−3.0"),
    ],
)
def test_the_role_says_what_the_record_has(book, content, text):
    said, path = recorded(content, book)
    assert said == text
    assert path.stem == content[: content.index(":")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("first: whole.exact", "expected a record, a path and a format"),
        ("third: whole.exact | .3f", r"expected a record \(first, second\), got 'third'"),
        ("first: whole.wrong | .3f", "first.json: expected one of 'exact', got 'wrong'"),
        ("first: counts[3] | d", r"first.json: expected one of \[3, 5, 7\], got 3"),
        ("first: whole | .3f", "first.json: unsupported format string"),
        ("first: counts + 1 | d", "first.json: expected paths, numbers"),
        ("first: counts[0] / 0 | d", "first.json: expected paths, numbers"),
        ("first: open('x') | d", "first.json: expected paths, numbers"),
        ("first: whole.exact if 1 else 2 | d", "first.json: expected paths, numbers"),
        ("first: whole. | d", "first.json: expected paths, numbers"),
    ],
)
def test_what_no_record_has_is_an_error_that_says_so(book, content, message):
    with pytest.raises(ValueError, match=message):
        recorded(content, book)


def test_a_calculation_needs_no_record():
    assert calculate(" 3 * 128 * (64 + 128 + 2)") == 74_496
    assert calculate("-sqrt(4)") == -2
    with pytest.raises(ValueError, match="expected paths, numbers"):
        calculate("whole")


CONTENT = 'head_ablation: whole.exact - ablations.zero.single["e1.1"].exact | .3f'


def build(folder, text):
    folder.mkdir()
    (folder / "index.md").write_text(f"# Index\n\n{text}\n", encoding="utf-8")
    said, out = io.StringIO(), folder / "_out"
    settings = {"extensions": ["myst_nb", "build.directives.records"], "html_theme": "basic"}
    with docutils_namespace():
        app = Sphinx(
            folder, None, out, folder / "_trees", "html", settings, status=None, warning=said
        )
        app.build()
    page = (out / "index.html").read_text(encoding="utf-8")
    return page, said.getvalue(), app.env.dependencies["index"]


def test_on_a_page_and_in_its_search_the_number_is_text(tmp_path):
    page, said, depends = build(tmp_path / "page", f"It costs {{rec}}`{CONTENT}` by zeros.")
    assert said == ""
    assert "It costs 0.072 by zeros." in page
    assert any(path.endswith("head_ablation.json") for path in depends)
    article = f'<article class="bd-article">{page}</article>'
    texts = [paragraph.text for entry in read_page(article) for paragraph in entry.paragraphs]
    assert "It costs 0.072 by zeros." in texts


def test_a_number_that_no_record_has_stops_the_build(tmp_path):
    with pytest.raises(ExtensionError, match=r"index.md, line 3: \{rec\}: head_ablation.json: exp"):
        build(tmp_path / "page", "It costs {rec}`head_ablation: wholly.exact | .3f`.")


def test_a_reader_s_notebook_has_the_number_itself():
    chapter = Chapter(Places(ROOT), "book/05_multi_head", 5)
    text = f"- costs {{rec}}`{CONTENT}`\n\n```{{seen}}\nand {{rec}}`{CONTENT}`\n```"
    plain = to_plain(text, chapter)
    assert plain.count("0.072") == 2
    assert "rec" not in plain
    with pytest.raises(UnknownMarkup, match=r"\{rec\}: expected a record"):
        to_plain("{rec}`nowhere: a | d`", chapter)
