"""What is measured of a run: as it stands in its files, and as torch computes it."""

import json
import shutil

import pytest

from lib.data import Pair
from lib.metrics import bleu
from show.measured import Translated, extremes, greedy, in_numbers, measure, near, read, read_losses
from tests.show.runs import finished, turned
from train.folder import LOSSES
from widgets.rounding import rounded


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that has learned a little, on sentences of which the folder has the files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)
        pairs = {"train": turned(60), "valid": turned(9, 1), "test": turned(17, 2)}
        return finished(
            tmp_path_factory.mktemp("runs"), pairs, "--steps=24", "--batch-size=20", "--min-count=1"
        )


@pytest.fixture(autouse=True)
def _fewer_tokens(monkeypatch):
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", 5)


@pytest.fixture
def run(made):
    return read(made)


def test_the_run_is_read_as_it_is(made, run):
    assert run.name == str(made)
    assert run.parameters == sum(p.numel() for p in run.model.parameters())
    assert [n for n, _ in run.losses.training] == list(range(1, 25))
    best = min(run.losses.validation, key=lambda point: point[1])
    assert (run.progress.best_step, run.progress.best_loss) == pytest.approx(best)
    ((name, score, count, how),) = run.scores
    assert (name, count, how) == ("test.tsv", "17", "greedy")
    assert f"BLEU {score} on 17" in run.summary


def test_greedy_translations_are_those_of_the_run_s_score(run):
    measured = measure(run, None, 1000)
    assert f"{measured.exact_bleu:.2f}" == run.scores[0][1]
    assert measured.bleu == measured.exact_bleu
    assert (measured.alike, measured.of, len(measured.translated)) == (17, 17, 17)


def test_8_bits_are_measured_with_the_page_s_parameters(run):
    measured = measure(run, 8, 1000)
    pairs = run.test[1]
    said = greedy(rounded(run.model, 8), run.vocabs, [pair.source for pair in pairs])
    assert [one.words for one in measured.translated] == said
    assert measured.bleu == bleu(said, [pair.target for pair in pairs]).score
    exact = greedy(run.model, run.vocabs, [pair.source for pair in pairs])
    assert measured.alike == sum(a == b for a, b in zip(exact, said, strict=True))


def test_of_a_long_test_some_are_taken_from_all_of_it(run):
    measured = measure(run, 8, 5)
    pairs = run.test[1]
    some = [pairs[i] for i in (0, 3, 6, 10, 13)]
    assert [Pair(one.source, one.reference) for one in measured.translated] == some
    assert measured.of == 17


def test_a_score_tells_equal_near_and_far():
    assert near(["a", "cat"], ["a", "cat"]) == 100
    assert near(["xyz"], ["a", "cat"]) == 0
    assert 0 < near(["a", "cat"], ["the", "cat"]) < 100
    assert near([], ["a"]) == 0


def test_extremes_are_ordered_and_none_stands_twice():
    translated = [Translated((str(i),), ("x",), ["x"], float(i)) for i in range(20)]
    found = extremes(translated, 5)
    assert {kind: [one.score for one in some] for kind, some in found.items()} == {
        "best": [19, 18, 17, 16, 15],
        "median": [12, 11, 10, 9, 8],
        "worst": [0, 1, 2, 3, 4],
    }
    few = extremes(translated[:7], 5)
    assert [len(some) for some in few.values()] == [2, 2, 2]
    assert len({one.source for some in few.values() for one in some}) == 6
    assert [len(some) for some in extremes(translated[:1], 5).values()] == [1, 1, 1]


def test_among_equals_the_longest_are_the_best():
    translated = [Translated(("w",) * n, ("x",), ["x"], 100.0) for n in (1, 3, 2)]
    assert [len(one.source) for one in extremes(translated, 1)["best"]] == [3]


def test_numbers_are_those_of_the_files(made, run):
    counted = {name: sides for name, *sides in in_numbers(run)}
    lines = (made.parent / "train.tsv").read_text(encoding="utf-8").splitlines()
    words = [word for line in lines for word in line.split("\t")[0].split()]
    assert counted["words of training"] == [f"{len(words):,}"] * 2
    assert counted["different words"] == [f"{len(set(words)):,}"] * 2
    assert counted["words a sentence, on average"] == [f"{len(words) / len(lines):.1f}"] * 2
    test = (made.parent / "test.tsv").read_text(encoding="utf-8").splitlines()
    held = [word for line in test for word in line.split("\t")[0].split()]
    lost = 100 * sum(word not in words for word in held) / len(held)
    assert counted["words of test.tsv that are unknown"] == [f"{lost:.1f} %"] * 2
    assert lost > 0


@pytest.mark.parametrize("name", ["train", "test"])
def test_other_sentences_are_refused(made, name, tmp_path):
    """Before anything is computed; the files are put back, as the run is shared."""
    path = made.parent / f"{name}.tsv"
    kept = path.read_text(encoding="utf-8")
    try:
        path.write_text(kept.replace("a", "b"), encoding="utf-8")
        with pytest.raises(ValueError, match=f"expected the {name}.*sentences that .*run was"):
            read(made)
        path.unlink()
        with pytest.raises(OSError, match=f"{name}.tsv"):
            read(made)
    finally:
        path.write_text(kept, encoding="utf-8")
    read(made)


def test_losses_must_be_the_run_s_own(made, tmp_path):
    copy = shutil.copytree(made, tmp_path / "copy")
    path = copy / LOSSES
    entries = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*entries[:-1], json.dumps({"step": 24, "loss": 0.1})]) + "\n")
    with pytest.raises(ValueError, match="expected the losses that this run wrote"):
        read(copy)
    path.unlink()
    with pytest.raises(ValueError, match="there are none"):
        read(copy)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]\n{", "expected a JSON object in each line"),
        ('{"step": 1, "loss": []}', "expected a JSON object in each line"),
        ('{"step": 1, "loss": 2.5}\n', "none of its validation"),
    ],
)
def test_losses_without_a_checksum_are_looked_at(tmp_path, text, message):
    (tmp_path / LOSSES).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_losses(tmp_path / LOSSES, None)
