"""The page as text: all of a run is on it, escaped, and it names no other host."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from bs4 import BeautifulSoup

from show.measured import measure, read
from show.page import EXAMPLES, PAGE, Shown, is_page, options_of, size, text_of, write_page
from show.tracer import make_tracer
from tests.show.runs import finished, turned


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Two runs of the same test; the second shows no model."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)
        pairs = {"train": turned(60), "valid": turned(9, 1), "test": turned(17, 2)}
        for name, steps in (("one", "8"), ("two", "20")):
            folder = tmp_path_factory.mktemp(name)
            run = read(finished(folder, pairs, f"--steps={steps}", "--min-count=1", "--lr=0.02"))
            tracer = make_tracer(run, 8) if name == "one" else None
            reason = "" if tracer else "It is <too> large."
            found.append(Shown(run, measure(run, 8 if tracer else None, 99), 8, tracer, reason))
    return found


def soup(*shown):
    return BeautifulSoup(text_of(shown), "lxml")


def cells(table):
    rows = [
        [cell.get_text() for cell in row.find_all(["th", "td"])] for row in table.find_all("tr")
    ]
    return {first: others for first, *others in rows}


def test_figures_are_those_that_were_measured(shown):
    one = shown[0]
    told = cells(soup(one).table)
    ((name, score, count, how),) = one.run.scores
    assert told[f"BLEU on {name}, as the run was scored"] == [
        f"{score} on {count} sentences, {how}"
    ]
    assert told[f"BLEU on {name}, greedy"] == [f"{one.measured.exact_bleu:.2f} on 17 sentences"]
    eight = told["the same with 8 bits a parameter, as on this page"][0]
    assert eight.startswith(f"{one.measured.bleu:.2f}; {one.measured.alike} of 17 translations")
    assert told["parameters"] == [f"{one.run.parameters:,}"]
    assert told["after update"] == [f"{one.run.progress.best_step} of 8"]


def test_translations_stand_beside_their_references(shown):
    one = shown[0]
    listed = soup(one).find_all("ol", class_="pairs")
    assert len(listed) == 3
    known = {(" ".join(x.source), " ".join(x.words)): x for x in one.measured.translated}
    for part in listed:
        for item in part.find_all("li"):
            source, reference, said = (cell.get_text() for cell in item.find_all("dd"))
            x = known[source, said]
            assert reference == " ".join(x.reference)
            assert item.find_all("dt")[2].get_text() == f"translation, {x.score:.0f}"


def test_options_have_no_paths(shown):
    run = shown[0].run
    options = dict(options_of(run))
    assert options["--train"] == "train.tsv"
    assert options["--steps"] == "8"
    assert "--out" not in options
    page = soup(shown[0])
    page.pre.decompose()  # the run's own summary
    page.title.decompose()
    told = str(page).replace(run.name, "")
    assert "/tmp" not in told


def test_what_no_page_can_hold_is_said_instead(shown):
    page = soup(shown[1])
    assert page.find(class_="why-not").get_text() == "It is <too> large."
    assert not page.find(attrs={"data-module": "forward_tracer"})
    told = cells(page.table)
    assert not any("8 bits" in name for name in told)


def scored(one, shift):
    """The run, with translations that are as good as their place in the test says."""
    said = [
        x._replace(score=float((i + shift) % 17)) for i, x in enumerate(one.measured.translated)
    ]
    return replace(one, measured=replace(one.measured, translated=said))


def test_two_runs_are_compared(shown):
    shown = [scored(one, shift) for shift, one in enumerate(shown)]
    page = soup(*shown)
    first, second = (one.run.name for one in shown)
    told = cells(page.table)
    assert told["parameters"] == [f"{one.run.parameters:,}" for one in shown]
    differ = cells(page.find_all("table")[1])
    assert differ.pop("") == [first, second]
    assert differ == {"--steps": ["8", "20"]}
    parts = page.find_all("h3", string=re.compile("comes nearer"))
    assert [part.get_text().split(" comes")[0] for part in parts] == [first, second]
    by_source = [{" ".join(x.source): x for x in one.measured.translated} for one in shown]
    seen = 0
    for part, better in zip(parts, (0, 1), strict=True):
        for item in part.find_next_sibling(["ol", "p"]).find_all("li"):
            source = item.dd.get_text()
            assert by_source[better][source].score > by_source[1 - better][source].score
            seen += 1
    assert seen == EXAMPLES + 1, "the first run is ahead on one sentence"


def test_headings_follow_each_other(shown):
    for page in (soup(shown[0]), soup(*shown)):
        levels = [int(node.name[1]) for node in page.find_all(re.compile("^h[1-6]$"))]
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))


def test_the_folder_is_whole_and_known(shown, tmp_path):
    write_page(shown, tmp_path)
    page = BeautifulSoup((tmp_path / PAGE).read_text(encoding="utf-8"), "lxml")
    links = [node.get("src") or node.get("href") for node in page.find_all(["script", "link"])]
    local = [link for link in links if link and not link.startswith("data:")]
    assert len(local) == 8
    assert all((tmp_path / link).is_file() for link in local)
    assert page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
    assert is_page(tmp_path)
    (model,) = (tmp_path / "widgets" / "models").iterdir()
    assert model.stem == shown[0].tracer.engine["id"]
    assert size(tmp_path) == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert not is_page(tmp_path / "widgets")


def test_names_are_text(shown):
    run = replace(shown[1].run, name="runs/<script>alert(1)</script>")
    text = text_of([replace(shown[1], run=run)])
    assert "<script>alert" not in text
    assert "runs/&lt;script&gt;" in text
