"""Small data with nothing said: what was recorded, and the sentences that it was measured on."""

import gzip
from pathlib import Path

import pytest

from benchmarks import own_data
from measure.records import read_results
from train.options import parse

ROOT = Path(__file__).parents[2]
RUNS = read_results("own_data")["runs"]


def of(run):
    return run["corpus"], run["setting"]


BLEU = {of(run): run["bleu"] for run in RUNS if run["seed"] == 0}


def test_simple_sentences_are_learned_with_nothing_said():
    assert BLEU["grammar", "nothing said"] > 99
    assert BLEU["grammar", "before"] < 50


@pytest.mark.parametrize("corpus", sorted({run["corpus"] for run in RUNS}))
def test_the_choice_loses_little_to_what_was_searched(corpus):
    """A tenth of BLEU or one, which may be chance there, on the mean over the seeds of both."""
    ours = {run["seed"]: run["bleu"] for run in RUNS if of(run) == (corpus, "nothing said")}
    for setting in own_data.SEARCH:
        theirs = {run["seed"]: run["bleu"] for run in RUNS if of(run) == (corpus, setting)}
        both = ours.keys() & theirs.keys()
        assert bool(both) == bool(theirs)
        ours_sum, theirs_sum = (sum(bleu[n] for n in both) for bleu in (ours, theirs))
        assert ours_sum >= min(0.9 * theirs_sum, theirs_sum - len(both))


def test_the_record_says_what_was_chosen():
    for run in RUNS:
        assert run["setting"] in own_data.SEARCH
        assert run["corpus"] in own_data.CORPORA
        assert 0 < run["best"] <= run["updates"]
        if run["setting"] == "nothing said":
            assert run["chosen"][0].startswith("size ")


def test_a_run_is_known_by_what_it_is_made_of():
    """Settings that come to the same run have its figures; no others have."""
    figures = {}
    for run in RUNS:
        found = [run[name] for name in ("corpus", "seed", "bleu", "updates", "best", "seconds")]
        assert figures.setdefault(run["fingerprint"], found) == found


def test_what_the_rules_choose_today_was_measured(monkeypatch):
    """The grammar's run is the same one today, and is not made a second time."""
    monkeypatch.setattr("train.run.use_threads", lambda threads: None)  # it holds on
    run = next(run for run in RUNS if of(run) == ("grammar", "nothing said"))
    assert own_data.is_the_same(Path(), run)
    assert not own_data.is_the_same(Path(), run | {"seed": 1})
    known = {run["fingerprint"]: {"bleu": -1.0}}
    found = own_data.measure(Path(), known, "grammar", "nothing said", 0)
    assert found == {name: run[name] for name in ("fingerprint", "chosen")} | {"bleu": -1.0}


def test_the_page_says_what_the_choice_came_to():
    page = " ".join((ROOT / "book" / "train_your_own.md").read_text(encoding="utf-8").split())
    few, some, many = (round(BLEU[f"multi30k {n}", "nothing said"]) for n in (300, 1000, 3000))
    assert f"300 pairs came to BLEU {few}, 1,000 to {some} and 3,000 to {many}." in page
    small, tiny = (
        next(run for run in RUNS if of(run) == ("multi30k 10000", setting))
        for setting in ("nothing said", "tiny")
    )
    assert small["seconds"] > 3600
    assert f"it came to BLEU {small['bleu']:.0f}, but in over an hour" in page
    assert f"which came to {tiny['bleu']:.0f} in {tiny['seconds'] / 60:.0f} minutes" in page


def test_the_grammar_gives_other_sentences_for_the_score():
    files = own_data.grammar()
    assert (len(files["train"]), len(files["test"])) == (own_data.GRAMMAR, own_data.TESTED)
    assert not set(files["train"]) & set(files["test"])
    german, english = files["train"][0]
    assert german.split()[0] == "Der"
    assert english.split()[0] == "The"
    assert len({german for pairs in files.values() for german, _ in pairs}) == len(
        {english for pairs in files.values() for _, english in pairs}
    )


def test_the_first_lines_of_a_corpus_are_read_plain_or_packed(tmp_path):
    for name in ("train", "val", "test_2016_flickr"):
        text = "".join(f"{name} {line}\n" for line in range(400))
        (tmp_path / f"{name}.de").write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.en.gz").write_bytes(gzip.compress(text.upper().encode()))
    files = own_data.multi30k(tmp_path, 7)
    assert [len(files[name]) for name in ("train", "val", "test")] == [7, 200, 300]
    assert files["train"][6] == ("train 6", "TRAIN 6")


def test_each_line_of_the_search_is_a_command():
    for told in own_data.SEARCH.values():
        assert parse(["--train", "x", *told.split()])
