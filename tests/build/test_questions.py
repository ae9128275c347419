"""Questions of the book: what they become on a page, and each mistake that stops the build."""

import io
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

from build.doctree import evidence, gathered
from build.pages.search import read_page
from build.readers.plain import Chapter, to_plain
from build.source.places import Places, UnknownMarkup
from tests.paths import ROOT

PREDICT = "```{predict} pr-a-b\nHow much?\n- a little $x$\n- much\n```\n"
NUMBER = "```{predict} pr-a-b\n:number:\nHow much?\n```\n"
OUTCOME = "```{outcome} pr-a-b\n:right: 2\nSo it is.\n```\n"
RECALL = "```{recall} rc-a-b\nWhy $x$?\n---\nBecause.\n```\n"


def build(folder: Path, **pages: str) -> tuple[Path, str]:
    """Build pages of Markdown, or notebooks that stand there; where they lie, and what was said."""
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(f"# {name}\n\n{text}", encoding="utf-8")
    if not (folder / "index.md").exists():
        (folder / "index.md").write_text("# Index\n\n```{toctree}\n:glob:\n*\n```\n")
    said, out = io.StringIO(), folder / "_out"
    settings = {
        **{"extensions": ["myst_nb", "build.directives.questions"], "nb_execution_mode": "off"},
        **{
            "myst_enable_extensions": ["dollarmath"],
            "myst_heading_anchors": 3,
            "root_doc": "index",
            "html_theme": "basic",
        },
    }
    with docutils_namespace():
        app = Sphinx(
            folder, None, out, folder / "_trees", "html", settings, status=None, warning=said
        )
        evidence.setup(app)
        gathered.setup(app)
        app.build()
    return out, said.getvalue()


def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    texts = {"first": PREDICT + OUTCOME + RECALL, "review": "```{review}\n```\n"}
    links = "[Here](#part), see [first](first.md)."
    link = f"## Part\n\n```{{recall}} rc-second-one\nWhere?\n---\n{links}\n```\n"
    seen = "```{seen}\nIt *moves*.\n```\n```{seen} And $y$\nIt stays.\n```\n"
    number = NUMBER.replace("a-b", "c") + OUTCOME.replace("a-b", "c").replace("2", "0.5", 1)
    out, said = build(folder, **texts, second=link + seen + number)
    assert said == ""
    return out


def test_a_prediction_is_a_question_and_a_list(pages):
    block = soup(pages / "first.html").select_one(".ask.predict")
    assert block["id"] == block["data-name"] == "pr-a-b"
    assert block["data-kind"] == "choice"
    assert block.select_one(".ask-question").text.strip() == "How much?"
    assert len(block.select(".ask-options > li")) == 2
    assert block.select_one("li .math")


def test_an_outcome_says_the_answer_without_a_script(pages):
    block = soup(pages / "first.html").select_one(".ask.outcome")
    assert block["id"] == "pr-a-b-outcome"
    assert block.select_one(".ask-right").text == "Answer: much"
    assert "So it is." in block.text
    number = soup(pages / "second.html").select_one(".ask.outcome")
    assert number.select_one(".ask-right").text == "Answer: 0.5"
    predicted = soup(pages / "second.html").select_one(".ask.predict")
    assert (predicted["data-right"], predicted["data-within"]) == ("0.5", "0")


def test_what_was_seen_is_folded_behind_a_line(pages):
    first, second = soup(pages / "second.html").select("details.seen")
    assert first.summary.text == "What you should have seen"
    assert first.em
    assert second.summary.text.startswith("And ")
    assert second.summary.select_one(".math")


def test_a_recall_question_is_a_summary_of_its_answer(pages):
    block = soup(pages / "first.html").select_one("details.recall")
    assert block.summary.text.startswith("Why")
    assert block.summary.select_one(".math")
    assert block.select_one(".ask-inside").text.strip() == "Because."


def test_the_review_has_every_question_and_links_that_hold(pages):
    page = soup(pages / "review.html")
    assert [block["data-name"] for block in page.select(".recall")] == ["rc-a-b", "rc-second-one"]
    assert [link["href"] for link in page.select(".recall a")] == [
        "second.html#part",
        "first.html",
    ]
    assert [link["href"] for link in page.select("section > h2 > a.internal")] == [
        *("first.html", "second.html")
    ]
    missed = page.select_one(".review-missed")
    assert missed.has_attr("hidden")
    assert [one["data-right"] for one in missed.select(".missed")] == ["2", "0.5"]
    assert missed.select_one(".ask-note a")["href"] == "first.html#pr-a-b-outcome"
    assert not page.select("[id^=pr-], [id^=rc-]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PREDICT, "the prediction pr-a-b has no outcome on this page"),
        (OUTCOME, "the outcome of pr-a-b has no prediction on this page"),
        (OUTCOME + PREDICT, "the outcome of pr-a-b stands before its prediction on this page"),
        (PREDICT + OUTCOME + OUTCOME, "pr-a-b has a second outcome"),
        (PREDICT + PREDICT + OUTCOME, "the name pr-a-b is used twice"),
        (RECALL + RECALL, "the name rc-a-b is used twice"),
        (PREDICT + OUTCOME.replace("2", "3"), "expected :right: from 1 to 2"),
        (PREDICT + OUTCOME.replace("2", "0"), "expected :right: from 1 to 2"),
        (PREDICT + OUTCOME.replace("2", "1.5"), "expected :right: from 1 to 2"),
        (PREDICT + OUTCOME.replace("2\n", "2\n:within: 1\n"), "and no :within:"),
    ],
)
def test_what_does_not_fit_stops_the_build_at_its_line(text, message, tmp_path):
    with pytest.raises(ExtensionError) as error:
        build(tmp_path / "book", page=text)
    assert message in str(error.value)
    assert "page.md, line " in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PREDICT.replace("pr-a-b", "largest"), "expected a name such as pr-layer-largest"),
        (PREDICT.replace("pr-a-b", "pr-A"), "expected a name such as pr-layer-largest"),
        (RECALL.replace("rc-a-b", "pr-a-b"), "expected a name such as rc-layer-variance"),
        ("```{predict} pr-a-b\nHow much?\n```", "expected either a list at the end or :number:"),
        ("```{predict} pr-a-b\n```", "expected either a list at the end or :number:"),
        (NUMBER.replace("How much?", "H?\n- a\n- b"), "expected either a list at the end or"),
        ("```{predict} pr-a-b\n- a\n- b\n```", "expected a question"),
        ("```{predict} pr-a-b\nH?\n- a\n```", "expected two options or more"),
        ("```{predict} pr-a-b\nH?\n- a\n\n  b\n- c\n```", "each of one paragraph"),
        (OUTCOME.replace(":right: 2\n", ""), "expected :right:, the number of the option"),
        (OUTCOME.replace("2", "two"), "expected :right: to be a number, got 'two'"),
        (OUTCOME.replace("So it is.\n", ""), "expected an explanation"),
        ("```{seen}\n```", "expected a text, found none"),
        ("```{recall} rc-a-b\nWhy?\n```", "expected a question, a line ---, and its answer"),
        ("```{recall} rc-a-b\nWhy?\n---\n```", "expected a question, a line ---, and its answer"),
        ("```{recall} rc-a-b\nW?\n\nV?\n---\nB.\n```", "expected a question of one paragraph"),
    ],
)
def test_what_is_incomplete_is_an_error_at_its_line(text, message, tmp_path):
    said = ""
    try:
        said = build(tmp_path / "book", page=f"A line.\n\n{text}")[1]
    except ExtensionError as error:  # a page without one of two that belong together
        pytest.fail(f"expected the directive's own message, got {error}")
    assert message in said
    assert "page.md:5: " in said


def test_a_name_of_another_page_stops_the_build(tmp_path):
    with pytest.raises(ExtensionError) as error:
        build(tmp_path / "book", one=RECALL, two=RECALL)
    assert "two.md, line 3: the name rc-a-b is used before, in " in str(error.value)
    assert "one.md, line 3" in str(error.value)


# --- elsewhere --------------------------------------------------------------------------------


@pytest.fixture
def chapter() -> Chapter:
    return Chapter(Places(ROOT), "book/05_multi_head", 5)


def test_notebooks_have_plain_forms(chapter):
    assert to_plain(PREDICT, chapter) == (
        "> **Predict, before you read on.** How much?\n> - a little $x$\n> - much\n"
    )
    outcome = to_plain(OUTCOME, chapter)
    assert outcome.startswith("<details>\n<summary>What happened to your prediction</summary>\n\n")
    assert "**Answer:** much\n\nSo it is.\n\n</details>" in outcome
    assert to_plain(RECALL, chapter) == (
        "Why $x$?\n\n<details>\n<summary>Answer</summary>\n\nBecause.\n\n</details>\n"
    )
    seen = to_plain("```{seen}\nIt moves.\n```", chapter)
    assert "<summary>What you should have seen</summary>\n\nIt moves." in seen
    number = NUMBER.replace("a-b", "c") + OUTCOME.replace("a-b", "c").replace("2", "0.5", 1)
    assert "**Answer:** 0.5\n" in to_plain(number, chapter)


def test_an_outcome_without_its_prediction_has_no_plain_form(chapter):
    with pytest.raises(UnknownMarkup, match="a prediction above, got 'pr-a-b'"):
        to_plain(OUTCOME, chapter)


def test_search_finds_the_text_and_no_questions(pages):
    for name, found in (("first", "So it is."), ("second", "It moves.\nIt stays.\nSo it is.")):
        section = soup(pages / f"{name}.html").h1.parent
        entries = read_page(f"<article>{section}</article>")
        assert "\n".join(one.text for entry in entries for one in entry.paragraphs) == found
