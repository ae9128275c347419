"""The command that translates: typed lines and files, and what it refuses without changing it."""

import gzip
import io
import os
import random
import re
import shutil
import sys

import pytest
import torch

from lib.data import EOS, tokenise
from lib.metrics import bleu
from tests.helpers import full_disk
from train.__main__ import main as train
from train.checkpoints import PUBLISHED, load_model, peek, save_checkpoint, save_model
from train.run import Run
from train.translate import main, map_as_text, parse, read_lines
from train.translator import Hypothesis, Translator

SIZE = [
    "--layers=1",
    "--d-model=16",
    "--heads=2",
    "--d-ff=16",
    "--device=cpu",
    "--threads=1",
    "--dropout=0.2",
]
MORE = 5  # tokens than the source has, instead of 50: a model that has learned little uses them


@pytest.fixture(autouse=True, scope="module")
def _fewer_tokens():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", MORE)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs, one in sub-words, with what they said of their test sentences, and one
    that was stopped.
    """
    root, rng, said = tmp_path_factory.mktemp("runs"), random.Random(0), {}
    files = []
    for name, n in (("train", 60), ("valid", 9), ("test", 17)):
        sources = [rng.choices("abcdefghijk", k=rng.randint(1, 11)) for _ in range(n)]
        lines = [" ".join(s) + "\t" + " ".join(reversed(s)) + "\n" for s in sources]
        (root / name).write_text("".join(lines), encoding="utf-8")
        files += [f"--{name}", str(root / name)]
    true = Translator.translate

    def remember(self, sentences, n=1):
        said[self.beam] = true(self, sentences, n)
        return said[self.beam]

    def stop(self):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "translate", remember)
        files += ["--steps", "90"]
        assert train([*SIZE, *files, "--beam", "3", "--out", str(root / "one")]) == 0
        given = [*SIZE, *files, "--beam", "1", "--subword", "30", "--out", str(root / "two")]
        assert train(given) == 0
        patch.setattr(Run, "validate", stop)
        assert train([*SIZE, *files, "--out", str(root / "stopped")]) == 130
    return root, said


@pytest.fixture
def one(runs, tmp_path):
    """A copy of a finished run, to be damaged."""
    return shutil.copytree(runs[0] / "one", tmp_path / "one")


def run(*given):
    return main([str(each) for each in given])


def typed(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.glob("*")} if folder.is_dir() else {}


def error(capsys, *given):
    capsys.readouterr()
    assert run(*given) == 1
    text = capsys.readouterr()
    assert text.out == ""
    assert text.err.count("error: ") == 1
    assert "Traceback" not in text.err
    return text.err


def sources(root):
    return [line.split("\t")[0] for line in (root / "test").read_text().splitlines()]


# --- the same as the run's score --------------------------------------------------------------


@pytest.mark.parametrize(("name", "beam"), [("one", 3), ("two", 1)])
def test_a_file_gets_the_translations_that_the_run_scored(runs, name, beam, tmp_path, capsys):
    root, said = runs
    (tmp_path / "in").write_text("\n".join(sources(root)) + "\n", encoding="utf-8")
    assert run(root / name, "--in", tmp_path / "in", "--out", tmp_path / "out") == 0
    lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert lines == [" ".join(best[0].words) for best in said[beam]]
    truths = [line.split("\t")[1].split() for line in (root / "test").read_text().splitlines()]
    summary = (root / name / "summary.txt").read_text(encoding="utf-8")
    score = bleu([line.split() for line in lines], truths).score
    assert f"BLEU {score:.2f} on 17 sentences" in summary
    told = capsys.readouterr().err
    tokens = sum(len(best[0].tokens) for best in said[beam])
    assert re.search(
        rf"\n17 sentences, {tokens} tokens in [\d.]+ s: [\d,]+ sentences and [\d,]+ tokens a sec",
        told,
    )


@pytest.mark.parametrize(("name", "beam"), [("one", 3), ("two", 1)])
def test_a_typed_sentence_gets_the_translation_that_the_run_scored(
    runs, name, beam, monkeypatch, capsys
):
    root, said = runs
    some = sources(root)[:5]
    typed(monkeypatch, "".join(line.upper() + "\n" for line in some))  # the run has lower case
    assert run(root / name) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [" ".join(best[0].words) for best in said[beam][:5]]
    assert f"beam {beam}, alpha 0.6." in shown.err
    assert "unknown" not in shown.err


# --- 8 bits, a minimum length, references -----------------------------------------------------


def with_references(root, tmp_path):
    pairs = [line.split("\t") for line in (root / "test").read_text().splitlines()]
    for name, side in (("in", 0), ("right", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return ["--in", tmp_path / "in", "--reference", tmp_path / "right"]


def test_8_bits_are_scored_beside_32(runs, tmp_path, capsys):
    root, _ = runs
    given = with_references(root, tmp_path)
    assert run(root / "one", *given) == 0
    plain = capsys.readouterr()
    summary = (root / "one" / "summary.txt").read_text(encoding="utf-8")
    score = re.search(r"BLEU ([\d.]+) on 17 sentences", summary)[1]
    assert f"BLEU {score} on 17 sentences\nsignature " in plain.err
    assert run(root / "one", *given, "--bits", "8") == 0
    packed = capsys.readouterr()
    assert "parameters in 8 bits." in packed.err
    told = re.search(
        r"BLEU ([\d.]+) on 17 sentences with 8 bits, ([\d.]+) with 32: ([+-][\d.]+); (\d+) transl",
        packed.err,
    )
    assert told[2] == score
    assert float(told[3]) == pytest.approx(float(told[1]) - float(score), abs=0.02)
    same = sum(a == b for a, b in zip(plain.out.splitlines(), packed.out.splitlines(), strict=True))
    assert int(told[4]) <= same
    truths = [line.split() for line in (tmp_path / "right").read_text().splitlines()]
    found = bleu([line.split() for line in packed.out.splitlines()], truths).score
    assert told[1] == f"{found:.2f}"


def test_typed_lines_in_8_bits_and_of_a_minimum_length(runs, monkeypatch, capsys):
    typed(monkeypatch, "a b c\n")
    assert run(runs[0] / "one", "--bits", "8", "--min-length", "7") == 0
    shown = capsys.readouterr()
    assert "at least 7 tokens, parameters in 8 bits." in shown.err
    assert len(shown.out.split()) >= 7


def test_more_tokens_than_a_sentence_may_have_are_refused(runs, monkeypatch, capsys):
    typed(monkeypatch, "a b c\n")
    assert run(runs[0] / "one", "--min-length", "100") == 1
    assert "min_length from 0 to 13, got 100" in capsys.readouterr().err


def test_8_bits_and_references_that_do_not_fit_are_refused(runs, tmp_path, monkeypatch, capsys):
    root = runs[0]
    given = with_references(root, tmp_path)
    (tmp_path / "right").write_text("a\n")
    assert "expected 17 lines in" in error(capsys, root / "one", *given)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert "leave out --bits 8" in error(capsys, root / "one", "--bits", "8")
    for wrong in (["--bits", "4"], ["--reference", "x"], ["--min-length", "-1"]):
        with pytest.raises(SystemExit):
            parse([str(root / "one"), *wrong])


# --- typed lines ------------------------------------------------------------------------------


def test_unknown_words_are_named_and_empty_lines_kept(runs, monkeypatch, capsys):
    typed(monkeypatch, "a b\n\n  \nc wombat d \x1b emu\n")
    assert run(runs[0] / "one") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert len(lines) == 4
    assert lines[1:3] == ["", ""]
    assert lines[0]
    assert lines[3]
    assert shown.err.splitlines()[2:] == [r"  unknown: wombat, '\x1b', emu"]


def test_the_n_best_have_scores(runs, monkeypatch, capsys):
    typed(monkeypatch, "a b c\n")
    assert run(runs[0] / "one", "--best", 2, "--beam", 4, "--alpha", 0) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    model, *vocabs = load_model(runs[0] / "one" / "best.safetensors")
    (best,) = Translator(model, *vocabs, 4, 0.0).translate([["a", "b", "c"]], n=2)
    assert lines == [f"{h.score:8.3f}  {' '.join(h.words)}" for h in best]
    assert 1 <= len(lines) <= 2
    assert "beam 4, alpha 0.0." in shown.err


def test_attention_is_shown_as_text(runs, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    typed(monkeypatch, "a b c\n")
    assert run(runs[0] / "one", "--show-attention") == 0
    said, head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["a", "b", "c", "<eos>"]
    assert [row.split()[0] for row in rows][: len(said.split())] == said.split()
    for row in rows:
        assert 97 <= sum(map(int, re.findall(r"\d+", row))) <= 103


def test_a_map_as_text():
    weights = [[0.75, 0.25, 0.0], [0.0, 0.004, 0.996]]
    text = map_as_text(weights, ["le", "châ-"], ["the", "castle", "<eos>"], 80)
    assert text.splitlines() == [
        "      the castle <eos>",
        "  le ▆ 75   ▂ 25     0",
        "châ-    0      0  █100",
    ]
    first, second = map_as_text(weights, ["le", "châ-"], ["the", "castle", "<eos>"], 16).split(
        "\n\n"
    )
    assert [len(line) for line in first.splitlines()] == [16] * 3
    assert second.splitlines()[0] == "     <eos>".rjust(10)
    assert len(map_as_text(weights, ["a", "b"], ["the", "castle", "<eos>"], 1).split("\n\n")) == 3
    wide = map_as_text([[1.0]], ["城"], ["e\u0301"], 80).splitlines()  # two columns, and one
    assert wide == ["      e\u0301", "城 █100"]


def test_from_a_terminal_lines_are_typed_behind_a_prompt(runs, monkeypatch, capsys):
    lines = iter(["a b", "c"])
    asked = []

    def ask(prompt):
        asked.append(prompt)
        if (line := next(lines, None)) is None:
            raise EOFError
        return line

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", ask)
    assert run(runs[0] / "one") == 0
    assert asked == ["> "] * 3
    assert len(capsys.readouterr().out.splitlines()) == 3  # the last ends the prompt's own line


def test_ctrl_c_ends_without_a_traceback(runs, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("train.translate._typed", stop)
    assert run(runs[0] / "one") == 130
    assert "Traceback" not in capsys.readouterr().err


# --- files ------------------------------------------------------------------------------------


def test_order_empty_lines_and_ends_of_lines(runs, tmp_path, capsys):
    root, _ = runs
    lines = ["\ufeffa b c d e f g h i", "", "a", "b a \t", " ", "wombat k k k", "a emu wombat"]
    (tmp_path / "in.gz").write_bytes(gzip.compress("\r\n".join(lines).encode()))
    given = [root / "one", "--in", tmp_path / "in.gz"]
    assert run(*given, "--out", tmp_path / "out") == 0
    err = capsys.readouterr().err
    got = (tmp_path / "out").read_bytes().decode().split("\n")
    assert len(got) == len(lines) + 1
    assert got[1] == got[4] == got[7] == ""
    assert got[0]
    assert "unknown in 2 lines: wombat, emu\n5 sentences, " in err
    model, *vocabs = load_model(root / "one" / "best.safetensors")
    translator = Translator(model, *vocabs, 3, 0.6)
    for place in (0, 2, 3, 5, 6):
        ((best,),) = translator.translate([tokenise(lines[place].removeprefix("\ufeff"))])
        assert got[place] == " ".join(best.words)
    assert run(*given) == 0  # without --out they are shown
    assert capsys.readouterr().out.split("\n") == got
    assert run(*given, "--best", 2) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    wanted = []  # a row for each that has ended, at most two, and one for an empty line
    for number, line in enumerate(lines, 1):
        (found,) = translator.translate([tokenise(line.removeprefix("\ufeff"))], n=2)
        wanted += [number] * (len(found) if line.strip() else 1)
    assert [int(row[0]) for row in rows] == wanted
    assert [row for row in rows if row[0] in ("2", "5")] == [["2", "", ""], ["5", "", ""]]
    assert next(row[2] for row in rows if row[0] == "3") == got[2]


def test_an_empty_file_gives_an_empty_one(runs, tmp_path):
    (tmp_path / "in").touch()
    assert run(runs[0] / "one", "--in", tmp_path / "in", "--out", tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_the_output_is_written_whole_or_not_at_all(runs, tmp_path, capsys, monkeypatch):
    (tmp_path / "in").write_text("a b c d\n" * 7, encoding="utf-8")
    (tmp_path / "out").write_text("before", encoding="utf-8")
    given = [runs[0] / "one", "--in", tmp_path / "in", "--out", tmp_path / "out"]
    with full_disk(10):
        assert "expected to write" in error(capsys, *given)
    assert contents(tmp_path).keys() == {"in", "out"}
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "_decode", stop)
        assert run(*given) == 130
    assert "Stopped; nothing is written." in capsys.readouterr().err
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before"
    assert run(*given) == 0
    assert len((tmp_path / "out").read_text(encoding="utf-8").splitlines()) == 7


# --- folders that are refused -----------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def other_weights(folder, **told):
    path = folder / "best.safetensors"
    model, *vocabs = load_model(path)
    save_model(path, model, *vocabs, peek(path) | told)


def other_checkpoint(folder):
    model = torch.nn.Linear(2, 3)
    save_checkpoint(folder / "last.pt", model, torch.optim.Adam(model.parameters()), step=1)


def from_another(name):
    return lambda folder: shutil.copy(folder.parent / "other" / name, folder / name)


DAMAGE = {
    "no folder": (shutil.rmtree, "where there is no last.pt; name the folder that a run had"),
    "an empty folder": (
        lambda folder: [path.unlink() for path in folder.iterdir()],
        "expected the folder of a finished run, got",
    ),
    "a file": (
        lambda folder: [shutil.rmtree(folder), folder.touch()],
        "expected the folder of a finished run, got",
    ),
    "the book's own weights": (
        lambda folder: [
            *(path.unlink() for path in folder.iterdir()),
            shutil.copy(PUBLISHED, folder / "best.safetensors"),
        ],
        "there is no last.pt",
    ),
    "a cut state": (lambda folder: cut(folder / "last.pt"), "or is damaged"),
    "a changed state": (lambda folder: flip(folder / "last.pt"), "its checksum is another one"),
    "another checkpoint": (other_checkpoint, "expected the state of a run, got another checkpoint"),
    "the state of another run": (from_another("last.pt"), "expected the summary of this run in"),
    "no weights": (
        lambda folder: (folder / "best.safetensors").unlink(),
        "best.safetensors is gone; put the run's own file back",
    ),
    "cut weights": (lambda folder: cut(folder / "best.safetensors"), "or a part of one"),
    "changed weights": (lambda folder: flip(folder / "best.safetensors"), "the file is damaged"),
    "the weights of another run": (
        from_another("best.safetensors"),
        "got those of another one, with the fingerprint",
    ),
    "earlier weights": (lambda folder: other_weights(folder, step=1), "got others; put the run's"),
    "no summary": (
        lambda folder: (folder / "summary.txt").unlink(),
        "expected a finished run in",
    ),
    "the summary of another run": (
        from_another("summary.txt"),
        "with the fingerprint",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_or_foreign_folder_is_refused_and_left_alone(
    runs, one, damage, message, tmp_path, capsys
):
    shutil.copytree(runs[0] / "two", tmp_path / "other")
    (tmp_path / "in").write_text("a b\n", encoding="utf-8")
    damage(one)
    before = contents(one)
    assert message in error(capsys, one, "--in", tmp_path / "in", "--out", tmp_path / "out")
    assert contents(one) == before
    assert {path.name for path in tmp_path.iterdir()} - {"one"} == {"other", "in"}


def test_a_run_that_is_not_finished_is_refused(runs, monkeypatch, capsys):
    folder = runs[0] / "stopped"
    before = contents(folder)
    typed(monkeypatch, "a b\n")
    text = error(capsys, folder)
    assert "got one that has not come to its end: there is no summary.txt; go on with it" in text
    assert f"--resume --out {folder}" in text
    assert contents(folder) == before


def test_a_finished_folder_is_only_read(one, monkeypatch):
    before = contents(one)
    for path in one.iterdir():
        path.chmod(0o400)
    one.chmod(0o500)
    typed(monkeypatch, "a b\n")
    assert run(one, "--best", 3) == 0
    one.chmod(0o700)
    assert contents(one) == before


# --- inputs that are refused ------------------------------------------------------------------


INPUTS = {
    "no file": (None, "No such file or directory"),
    "not UTF-8": (b"a b\n\xff b\n", "in, line 2: expected UTF-8, got"),
    "a folder": ("folder", "expected a file, got a folder, a pipe or a device"),
    "a pipe": ("pipe", "expected a file, got a folder, a pipe or a device"),
    "a cut archive": (gzip.compress(b"a b\n" * 99)[:-9], "expected a whole gzip archive"),
    "no archive": (b"a b\n", "expected a whole gzip archive"),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_a_wrong_input_is_refused(runs, kind, tmp_path, capsys):
    content, message = INPUTS[kind]
    path = tmp_path / ("in.gz" if "archive" in kind else "in")
    if content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content:
        path.write_bytes(content)
    there = {each.name for each in tmp_path.iterdir()}
    text = error(capsys, runs[0] / "one", "--in", path, "--out", tmp_path / "out")
    assert message in text
    assert path.name in text
    assert {each.name for each in tmp_path.iterdir()} == there


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("folder", "expected the name of a file after --out"),
        ("nowhere/out", "expected a folder that is there for --out"),
        ("in", "expected another file after --out than after --in"),
        ("link", "expected another file after --out than after --in"),
        ("one/best.safetensors", "expected --out to leave the files of the run alone"),
        ("one/summary.txt", "expected --out to leave the files of the run alone"),
        ("/dev/null", "expected the name of a file after --out"),
    ],
)
def test_an_output_that_would_do_harm_is_refused(one, out, message, tmp_path, capsys):
    (tmp_path / "in").write_text("a b\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "folder").mkdir()
    before = contents(one)
    assert message in error(capsys, one, "--in", tmp_path / "in", "--out", tmp_path / out)
    assert contents(one) == before
    assert (tmp_path / "in").read_text(encoding="utf-8") == "a b\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--best 4", "expected --best of at most 3, the beam, got 4; widen it with --beam 4"),
        ("--beam 99", "expected --beam of at most 15, the target's vocabulary, got 99"),
        ("--threads 9999", "expected --threads of at most"),
        ("--device meta", "expected a device that computes, got 'meta'"),
    ],
)
def test_options_that_do_not_fit_the_run(runs, given, message, monkeypatch, capsys):
    typed(monkeypatch, "a b\n")
    assert message in error(capsys, runs[0] / "one", *given.split())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "the following arguments are required: RUN"),
        ("x --out y", "expected --in FILE together with --out"),
        ("x --in y --show-attention", "--show-attention is for sentences that you type"),
        ("x --beam 0", "--beam: expected a whole number of at least 1, got '0'"),
        ("x --best two", "--best: expected a whole number of at least 1, got 'two'"),
        ("x --alpha -1", "--alpha: expected a number of at least 0.0 and below 100"),
    ],
)
def test_a_command_line_that_is_refused(given, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        parse(given.split())
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


NOTHING = Hypothesis([], [EOS], 0.0)


@pytest.fixture
def learned(runs, tmp_path, monkeypatch):
    """A finished run with learned positions, which have room for five tokens of a source."""
    monkeypatch.setattr("train.run.EXTRA_LENGTH", 512 - 11)
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", 512 - 11)
    out = tmp_path / "learned"
    files = [f"--{name}={runs[0] / name}" for name in ("train", "valid", "test")]
    given = [*SIZE, *files, "--positions", "learned", "--beam", "1", "--steps", "1"]
    monkeypatch.setattr(Translator, "translate", lambda self, some: [[NOTHING] for _ in some])
    assert train([*given, "--out", str(out)]) == 0
    monkeypatch.undo()
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", 512 - 5)
    return out


def test_a_sentence_beyond_learned_positions_is_named(learned, tmp_path, monkeypatch, capsys):
    (tmp_path / "in").write_text("a\n\na b c d e f\n", encoding="utf-8")
    text = error(capsys, learned, "--in", tmp_path / "in", "--out", tmp_path / "out")
    assert "in, line 3: expected at most 5 tokens for learned positions, got 6; split it" in text
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", 512 - 5)
    typed(monkeypatch, "a b c d e f\n\n")
    assert run(learned) == 1  # and it went on
    shown = capsys.readouterr()
    assert "error: expected a sentence of at most 5 tokens for learned positions" in shown.err
    assert shown.out == "\n\n"


def test_lines_end_as_on_any_system(tmp_path):
    (tmp_path / "in").write_bytes("\ufeffä\r\nb\rc\x85\u2028\n\nd".encode())
    assert read_lines(tmp_path / "in") == ["ä", "b", "c\x85\u2028", "", "d"]
