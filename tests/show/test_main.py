"""The command that shows a run: what it writes, what it prints, and what it refuses unchanged."""

import shutil

import pytest

from show.__main__ import main, parse
from show.page import PAGE, is_page
from tests.helpers import full_disk
from tests.show.runs import finished, turned
from train.folder import BEST, LOSSES, STATE, SUMMARY


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)
        pairs = {"train": turned(40), "valid": turned(9, 1), "test": turned(11, 2)}
        return finished(tmp_path_factory.mktemp("runs"), pairs, "--steps=4", "--min-count=1")


@pytest.fixture(autouse=True)
def _fewer_tokens(monkeypatch):
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", 5)


@pytest.fixture
def one(made, tmp_path):
    """A copy of the run, to be shown or damaged."""
    return shutil.copytree(made, tmp_path / "one")


def run(*given):
    return main([*map(str, given), "--device=cpu"])


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_page_stands_in_the_folder_of_the_run_and_changes_nothing_else(one, capsys):
    before = contents(one)
    capsys.readouterr()
    assert run(one) == 0
    told = capsys.readouterr()
    after = contents(one)
    assert {path: after[path] for path in before} == before
    assert all(path.parts[0] == "show" for path in after.keys() - before.keys())
    assert is_page(one / "show")
    assert f"{one}: BLEU " in told.out
    assert "With 8 bits a parameter: " in told.out
    assert f"Open {one / 'show' / PAGE} in a browser" in told.out
    assert told.err == ""


def test_the_same_run_gives_the_same_page_and_takes_the_place_of_an_earlier_one(one):
    assert run(one) == 0
    first = contents(one / "show")
    (one / "show" / "old").write_text("of an earlier version", encoding="utf-8")
    assert run(one) == 0
    assert contents(one / "show") == first
    assert [path.name for path in one.iterdir() if path.name.startswith(".")] == []


def test_two_runs_are_one_page(made, one, tmp_path, capsys):
    assert run(one, made) == 0
    assert is_page(one / "show-run")
    assert run(one, made, "--out", tmp_path / "both", "--sentences=5") == 0
    text = (tmp_path / "both" / PAGE).read_text(encoding="utf-8")
    assert str(one) in text
    assert str(made) in text
    assert "5 of 11" in text


def test_a_page_without_the_model_says_why(one, monkeypatch, capsys):
    monkeypatch.setattr("show.tracer.MOST_PARAMETERS", 1000)
    assert run(one) == 0
    told = capsys.readouterr().out
    assert "the page is without the model. The model has" in told
    assert "bits a parameter" not in told
    assert 'class="why-not"' in (one / "show" / PAGE).read_text(encoding="utf-8")
    assert list((one / "show" / "widgets" / "models").iterdir()) == []


def test_32_bits_lose_nothing_and_nothing_is_said_of_it(one, capsys):
    capsys.readouterr()
    assert run(one, "--bits=32") == 0
    assert "bits a parameter" not in capsys.readouterr().out


def damage(name, change):
    def spoil(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return spoil


def without(name):
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without(STATE), "expected the folder of a finished run"),
        (without(SUMMARY), "has not come to its end"),
        (without(BEST), BEST),
        (without(LOSSES), "expected the losses of the run"),
        (damage(STATE, lambda data: data[:-100]), "expected a checkpoint"),
        (damage(STATE, lambda data: b""), "expected a checkpoint"),
        (damage(BEST, lambda data: data[:-4] + b"abcd"), BEST),
        (damage(BEST, lambda data: b"{}"), BEST),
        (damage(LOSSES, lambda data: data[:-30]), "expected the losses that this run wrote"),
        (damage(SUMMARY, lambda data: b"BLEU 100"), "expected the summary of this run"),
    ],
)
def test_a_damaged_or_foreign_folder_is_refused_and_stays_as_it_is(one, spoil, message, capsys):
    spoil(one)
    before = contents(one)
    capsys.readouterr()
    assert run(one) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert told.err.startswith("error: ")
    assert message in told.err
    assert contents(one) == before
    assert not (one / "show").exists()


def test_a_folder_with_other_things_is_not_overwritten(one, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / PAGE).write_text("<p>mine</p>", encoding="utf-8")
    assert run(one, "--out", tmp_path / "mine") == 1
    assert "or that of an earlier page" in capsys.readouterr().err
    assert run(one, "--out", one / SUMMARY) == 1
    assert run(one, "--out", tmp_path / "none" / "here") == 1
    assert "expected a folder that is there for --out" in capsys.readouterr().err
    assert contents(tmp_path / "mine") == {next(iter(contents(tmp_path / "mine"))): b"<p>mine</p>"}
    (tmp_path / "empty").mkdir()
    assert run(one, "--out", tmp_path / "empty") == 0


def test_a_full_disk_leaves_the_earlier_page(one, capsys):
    assert run(one) == 0
    before = contents(one)
    with full_disk(10_000):
        assert run(one) == 1
    assert "make room on its disk" in capsys.readouterr().err
    assert contents(one) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b", "c"], "expected one run or two, got 3"),
        (["a", "./a"], "got the same twice"),
        (["a", "--bits", "7"], "--bits"),
        (["a", "--sentences", "0"], "expected a whole number"),
        ([], "RUN"),
    ],
)
def test_a_wrong_command_line_is_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        parse(given)
    assert message in capsys.readouterr().err


def test_ctrl_c_leaves_nothing(one, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("show.__main__.write_page", stop)
    before = contents(one)
    assert run(one) == 130
    assert contents(one) == before
    assert [path for path in one.iterdir() if path.name.startswith(".")] == []
    assert "nothing is written" in capsys.readouterr().err
