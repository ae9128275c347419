"""The whole script in one process: it trains, scores, goes on, and says what is wrong."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lib.checkpoints import load_model
from lib.translation import translation_pairs
from train.__main__ import main
from train.run import Run

SIZE = "--layers 1 --d-model 16 --heads 2 --d-ff 16 --device cpu --threads 1 --beam 1"
TINY = SIZE.split()


@pytest.fixture
def files(tmp_path):
    """Sentences to say backwards: 200 for training, 20 each for the others."""
    rng = random.Random(0)
    given = []
    for name, n in (("train", 200), ("valid", 20), ("test", 20)):
        sources = [rng.choices("abcdefghijk", k=rng.randint(2, 5)) for _ in range(n)]
        lines = [" ".join(s) + "\t" + " ".join(reversed(s)) + "\n" for s in sources]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
        given += [f"--{name}", str(tmp_path / name)]
    return given


def run(*given):
    return main([str(each) for each in given])


def stopped_after(update, monkeypatch, *given):
    """A run, with Ctrl-C pressed during one of its updates."""
    true = Run.after_update

    def stop(self, step, loss):
        if step == update:
            signal.raise_signal(signal.SIGINT)
        true(self, step, loss)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "after_update", stop)
        assert run(*given) == 130


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def folders_of(folder):
    return {path for path in folder.rglob("*") if path.is_dir()}


def log(out):
    return [json.loads(line) for line in (out / "losses.jsonl").read_text().splitlines()]


def test_a_run_from_start_to_summary(files, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(*TINY, *files, "--epochs", 3, "--max-tokens", 100, "--out", out) == 0
    text = capsys.readouterr().out
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert summary in text
    assert "1+1 layers, d_model 16, 2 heads, d_ff 16" in summary
    assert "200 pairs; 20 for validation" in summary
    assert re.search(r"test +BLEU \d+\.\d\d on 20 sentences, greedy", summary)
    assert re.search(
        r"signature nrefs:1\|case:mixed\|eff:no\|tok:none\|smooth:exp\|version", summary
    )
    assert summary.count("  -> ") == 3
    updates = [entry for entry in log(out) if "lr" in entry]
    validations = [entry for entry in log(out) if "validation_loss" in entry]
    assert [entry["step"] for entry in updates] == list(range(1, len(updates) + 1))
    assert f"{len(updates)} updates, {len(updates) // 3} batches an epoch" in summary
    assert len(validations) == 3
    assert updates[-1]["loss"] < updates[0]["loss"]
    model, source_vocab, _ = load_model(out / "best.safetensors")
    assert model.config.d_model == 16
    assert len(source_vocab) == 4 + 11


def test_the_best_weights_are_kept_not_the_last(files, tmp_path, monkeypatch):
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("train.run.validation_loss", lambda *_, **__: next(losses))
    out = tmp_path / "out"
    assert run(*TINY, *files, "--epochs", 3, "--max-tokens", 100, "--out", out) == 0
    steps = [entry["step"] for entry in log(out) if "validation_loss" in entry]
    assert f"the best, after update {steps[1]}: these" in (out / "summary.txt").read_text()
    best, _, _ = load_model(out / "best.safetensors")
    last = torch.load(out / "last.pt", weights_only=True)["model"]
    assert any(not torch.equal(weight, last[name]) for name, weight in best.state_dict().items())


def test_all_options_together(files, tmp_path):
    given = "--norm post --positions learned --activation swiglu --share --subword 40 --dropout 0.2"
    given += " --schedule paper --warmup 7 --accumulate 3 --batch-size 16 --precision bfloat16"
    given += " --steps 9 --seed 5 --smoothing 0 --clip 0.5 --no-lower-case --beam 2 --alpha 0.9"
    out = tmp_path / "out"
    assert run(*TINY, *files, *given.split(), "--out", out) == 0
    rates = [entry["lr"] for entry in log(out) if "lr" in entry]
    assert rates == pytest.approx([16**-0.5 * min(n**-0.5, n * 7**-1.5) for n in range(1, 10)])
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert "cpu, bfloat16" in summary
    assert re.search(r" one vocabulary of \d+ sub-words\n", summary)
    assert "beam 2, alpha 0.9" in summary
    model, source_vocab, target_vocab = load_model(out / "best.safetensors")
    assert model.source_embedding is model.target_embedding
    assert source_vocab.tokens == target_vocab.tokens


def test_constant_rate_after_the_warm_up(files, tmp_path):
    out = tmp_path / "out"
    given = ["--schedule", "constant", "--warmup", 2, "--lr", 0.01, "--steps", 4]
    assert run(*TINY, *files, *given, "--out", out) == 0
    assert [e["lr"] for e in log(out) if "lr" in e] == pytest.approx([0.005, 0.01, 0.01, 0.01])


def test_a_finished_run_is_scored_again(files, tmp_path, capsys):
    out = tmp_path / "out"
    run(*TINY, *files, "--steps", 2, "--out", out)
    first = (out / "summary.txt").read_text()
    assert run("--resume", "--out", out) == 0
    assert (out / "summary.txt").read_text() == first
    assert "Going on after update 2." in capsys.readouterr().out
    assert run("--resume", "--out", out, "--beam", 3) == 0
    assert "beam 3" in (out / "summary.txt").read_text()


def test_ctrl_c_between_updates(files, tmp_path, monkeypatch, capsys):
    """The second half of a run that was stopped ends where the whole run ends."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    given = [*TINY, *files, "--steps", 20, "--dropout", 0.2]
    run(*given, "--out", whole)
    before = signal.getsignal(signal.SIGINT)
    capsys.readouterr()
    stopped_after(7, monkeypatch, *given, "--out", halves)
    assert signal.getsignal(signal.SIGINT) is before
    said = capsys.readouterr().err
    assert "Stopped after 7 of 20 updates" in said
    command = said.split("Go on with: ")[1].splitlines()[0]
    pasted = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert pasted.returncode == 0, pasted.stderr
    assert log(whole) == log(halves)
    one, other = (load_file(out / "best.safetensors") for out in (whole, halves))
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())


@pytest.mark.parametrize("away", [shutil.copytree, shutil.move])
@pytest.mark.parametrize(
    ("folder", "told", "where"),
    [
        ("runs/translation", [], "."),  # the folder that stands for --out
        ("second", ["--out", "second"], "."),
        ("second", ["--out", "second/"], "."),
        ("second", ["--out", "link"], "."),
        ("second", ["--out", "../second"], "elsewhere"),
        ("elsewhere/runs/translation", [], "elsewhere"),
    ],
)
def test_a_run_goes_on_in_the_folder_where_it_is_found(
    files, tmp_path, monkeypatch, capsys, folder, told, where, away
):
    """Copied or renamed, it leaves alone what stands under the name that it began with."""
    for name in ("elsewhere", "runs"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("second")
    monkeypatch.chdir(tmp_path)
    near = [Path(each).name if each.startswith("/") else each for each in files]
    first = tmp_path / "first"
    stopped_after(3, monkeypatch, *TINY, *near, "--steps", 9, "--out", first)
    original = contents(first)
    away(first, folder)
    left, folders = contents(first), folders_of(tmp_path)
    monkeypatch.chdir(where)
    capsys.readouterr()
    stopped_after(6, monkeypatch, "--resume", *told)
    named = told[1].rstrip("/") if told else "runs/translation"
    said = capsys.readouterr().err
    assert f"all is kept in {named}/last.pt." in said
    assert f"-m train --resume --out {Path(named).absolute()})\n" in said
    assert run("--resume", *told) == 0
    out = tmp_path / folder
    assert contents(first) == left == (original if away is shutil.copytree else {})
    assert [entry["step"] for entry in log(out) if "lr" in entry] == list(range(1, 10))
    assert torch.load(out / "last.pt", weights_only=True)["step"] == 9
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert f"{named}/best.safetensors" in summary
    assert folders_of(tmp_path) == folders


def test_ctrl_c_before_there_is_a_run(monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("train.__main__.prepare", stop)
    assert main([]) == 130
    assert "Stopped before the first update; nothing is kept." in capsys.readouterr().err


def error(capsys, *given):
    capsys.readouterr()
    assert run(*given) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: ")
    assert "Traceback" not in text
    return text


def test_nothing_to_resume(tmp_path, capsys):
    text = error(capsys, "--resume", "--out", tmp_path)
    assert "expected a run to resume in" in text
    assert "begin one without --resume" in text


def test_a_run_is_not_overwritten(files, tmp_path, capsys):
    out = tmp_path / "out"
    run(*TINY, *files, "--steps", 1, "--out", out)
    kept = (out / "last.pt").read_bytes()
    assert "go on with it by --resume" in error(capsys, *TINY, *files, "--out", out)
    assert (out / "last.pt").read_bytes() == kept


def test_files_that_changed(files, tmp_path, capsys):
    out = tmp_path / "out"
    run(*TINY, *files, "--steps", 1, "--out", out)
    with open(files[1], "a", encoding="utf-8") as stream:
        stream.write("a\tb\n")
    text = error(capsys, "--resume", "--out", out)
    assert "expected the training sentences that the run began with, got others" in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--heads 3", "expected d_model to be a multiple of n_heads"),
        ("--max-tokens 3", "expected sentences of at most max_tokens=3 tokens with EOS"),
        ("--device abacus", "expected a device such as cpu or cuda, got 'abacus'"),
        ("--steps 3 --warmup 3", "expected 0 <= warmup < steps"),
        ("--schedule paper --warmup 0", "expected warmup of at least 1, got 0"),
        (
            "--lr 1e30 --warmup 0 --clip 1e30 --schedule constant --steps 40",
            "expected a finite loss",
        ),
        ("--subword 9", "expected a size with room for each letter"),
        ("--max-length 1", "all are longer; raise --max-length"),
    ],
)
def test_errors_are_one_line(files, tmp_path, capsys, given, message):
    assert message in error(capsys, *TINY, *files, *given.split(), "--out", tmp_path / "out")


def test_a_file_that_is_not_there(tmp_path, capsys):
    text = error(capsys, "--train", tmp_path / "no", tmp_path / "file", "--out", tmp_path / "out")
    assert "No such file" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_no_gpu(files, tmp_path, capsys):
    text = error(capsys, *TINY, *files, "--device", "cuda", "--out", tmp_path / "out")
    assert "but torch sees no GPU" in text


def test_too_little_memory(monkeypatch, capsys):
    def fails(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("train.__main__.prepare", fails)
    assert main([]) == 1
    assert "begin again with a lower --max-tokens" in capsys.readouterr().err


def test_sub_words_without_their_package(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    text = error(capsys, *TINY, *files, "--subword", 40, "--out", tmp_path / "out")
    assert "pip install tokenizers" in text


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_and_on_from_there_without(files, tmp_path):
    """A run of the GPU, in bfloat16, is scored there and can be taken up by the processor."""
    out = tmp_path / "out"
    given = ["--epochs", 8, "--max-tokens", 100, "--device", "cuda"]
    assert run(*TINY, *files, *given, "--out", out) == 0
    assert "cuda, bfloat16" in (out / "summary.txt").read_text(encoding="utf-8")
    losses = [entry["validation_loss"] for entry in log(out) if "validation_loss" in entry]
    assert losses[-1] < 0.9 * losses[0]
    assert run("--resume", "--out", out, "--device", "cpu") == 0


@pytest.mark.slow
def test_the_book_s_task_is_learned(tmp_path):
    """Without any file: the defaults, but 300 updates; greedy gets most of it."""
    out = tmp_path / "out"
    assert run("--steps", 300, "--threads", 1, "--device", "cpu", "--beam", 1, "--out", out) == 0
    _, test = translation_pairs()
    assert f"on {len(test):,} sentences" in (out / "summary.txt").read_text(encoding="utf-8")
    losses = [e["validation_loss"] for e in log(out) if "validation_loss" in e]
    assert losses[-1] < 1.5
