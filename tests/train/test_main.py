"""The whole script in one process: it trains, scores, goes on, and says what is wrong."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tasks.translation import translation_pairs
from tests.helpers import full_disk
from tests.paths import BOOK
from train.__main__ import _again, main
from train.checkpoints import load_model, peek, save_checkpoint, save_model
from train.ranks import Ranks, joined
from train.run import Run

SIZE = "--layers 1 --d-model 16 --heads 2 --d-ff 16 --device cpu --threads 1 --beam 1 --dropout 0.2"
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


def test_the_end_names_the_command_that_translates(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert run(*TINY, *files, "--steps", 1, "--out", out) == 0
    *_, last = capsys.readouterr().out.splitlines()
    command = last.split("Translate with it: ")[1]
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, input="a b\n\n"
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    monkeypatch.chdir(BOOK.parent)
    assert run("--resume", "--out", out) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"Translate with it: make translate RUN={out}"


def test_tensorboard_is_asked_for_and_may_be_missing(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    out = tmp_path / "out"
    given = [*TINY, *files, "--steps", 1, "--out", out]
    assert "run `pip install tensorboard`" in error(capsys, *given, "--tensorboard")
    assert not out.exists()
    assert run(*given) == 0  # without the option nothing is missed
    opened = []
    board = type("Board", (), {"add_scalar": lambda *_: None, "flush": lambda _: None})
    monkeypatch.setattr("train.run.open_board", lambda *what: opened.append(what) or board())
    assert run("--resume", "--out", out, "--tensorboard") == 0
    assert opened == [(out / "tensorboard", 1)]


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
    assert (whole / "losses.csv").read_bytes() == (halves / "losses.csv").read_bytes()
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


def test_the_state_of_another_run_beside_the_own_losses(files, tmp_path, monkeypatch, capsys):
    """Its best weights are gone, so that nothing but the losses tells whose folder it is."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for out, seed, last in ((mine, 1, 3), (theirs, 2, 5)):
        given = [*TINY, *files, "--steps", 9, "--seed", seed, "--out", out]
        stopped_after(last, monkeypatch, *given)
    before = (mine / "losses.jsonl").read_bytes()
    shutil.copy(theirs / "last.pt", mine / "last.pt")
    (mine / "best.safetensors").unlink(missing_ok=True)
    assert "put the files of one run together" in error(capsys, "--resume", "--out", mine)
    assert (mine / "losses.jsonl").read_bytes() == before


@pytest.mark.parametrize("world", ["2", "x"])
def test_processes_that_something_else_has_started_are_refused(
    world, tmp_path, monkeypatch, capsys
):
    """Rank 0 would train alone, and the others would be kept out of its folder."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", world)
    text = error(capsys, *TINY, "--out", tmp_path / "out")
    assert (
        f"expected torchrun to start several processes, got RANK=0 and WORLD_SIZE={world}" in text
    )
    assert not (tmp_path / "out").exists()


def test_one_process_is_one_whatever_names_it(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined() as ranks:
        assert ranks == Ranks()


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [
        (Ranks(), "Go on with: (cd {book} && {python} -m train --resume --out {out})"),
        (
            Ranks(1, 2, here=2),
            "Go on with: (cd {book} && {python} -m torch.distributed.run --standalone "
            "--nproc-per-node=2 -m train --resume --out {out})",
        ),
        (
            Ranks(0, 4, here=2, machines=2, first="10.0.0.7", restarts=1),
            "If torchrun does not start it again, go on, on each machine, with: (cd {book} && "
            "{python} -m torch.distributed.run --nnodes=2 --rdzv-backend=c10d "
            "--rdzv-endpoint=10.0.0.7:29400 --nproc-per-node=2 -m train --resume --out {out})",
        ),
    ],
)
def test_the_way_on_is_the_command_that_began(ranks, wanted):
    out = Path("/runs/one")
    assert _again(out, ranks) == wanted.format(book=BOOK, python=sys.executable, out=out)


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_process_that_lost_the_others_names_what_is_kept(
    restarts, files, tmp_path, monkeypatch, capsys
):
    def closed(self, step, loss):
        raise RuntimeError("gloo: Connection closed by peer")

    monkeypatch.setattr(Run, "after_update", closed)
    monkeypatch.setattr(
        "train.__main__.joined",
        lambda: nullcontext(Ranks(store=torch.distributed.HashStore(), restarts=restarts)),
    )
    monkeypatch.setattr(Ranks, "gather", lambda self, mine: [mine])
    monkeypatch.setattr(Ranks, "replicate", lambda self, model: model)
    monkeypatch.setattr(Ranks, "loss_of_all", lambda self, loss, accumulate=1: loss)
    out = tmp_path / "out"
    said = error(capsys, *TINY, *files, "--steps", 9, "--out", out)
    assert f"What was saved last is kept in {out / 'last.pt'}.\n" in said
    assert ("If torchrun does not start it again, go on" in said) == bool(restarts)
    assert said.rstrip().endswith(f"-m train --resume --out {out})")


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


@pytest.mark.parametrize("use", ["training", "left-out", "validation", "test"])
def test_each_file_that_changed_is_named(files, tmp_path, capsys, use):
    """Also a sentence that is too long to train on."""
    out = tmp_path / "out"
    with open(files[1], "a", encoding="utf-8") as stream:
        stream.write("a b c d e f g h\tb\n")
    assert run(*TINY, *files, "--max-length", 7, "--steps", 1, "--out", out) == 0
    before = contents(out)
    path = Path(files[{"validation": 3, "test": 5}.get(use, 1)])
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[-1 if use == "left-out" else 0] = (
        "k k k k k k k k\tk\n" if use == "left-out" else "k\tk\n"
    )
    path.write_text("".join(lines), encoding="utf-8")
    text = error(capsys, "--resume", "--out", out)
    assert f"expected the {use} sentences that the run began with, got others; put the old" in text
    assert contents(out) == before


@pytest.fixture
def two_runs(files, tmp_path):
    """Two finished runs that differ in the seed alone."""
    outs = tmp_path / "one", tmp_path / "two"
    for seed, out in enumerate(outs):
        assert run(*TINY, *files, "--steps", 2, "--seed", seed, "--out", out) == 0
    return outs


def test_weights_and_losses_of_another_run_are_not_scored(two_runs, capsys):
    one, two = two_runs
    for name, message in (
        ("best.safetensors", "expected the weights of this run in"),
        ("losses.jsonl", "expected the losses of the run"),
    ):
        own = (one / name).read_bytes()
        (one / name).write_bytes((two / name).read_bytes())
        before = contents(one)
        assert message in error(capsys, "--resume", "--out", one)
        assert contents(one) == before
        (one / name).write_bytes(own)
    assert run("--resume", "--out", one) == 0


def test_other_weights_of_the_same_run_are_not_scored(two_runs, capsys):
    out, _ = two_runs
    model, *vocabs = load_model(out / "best.safetensors")
    about = peek(out / "best.safetensors")
    for other in ({"step": 1}, {"validation_loss": 9.0}):
        save_model(out / "best.safetensors", model, *vocabs, about | other)
        text = error(capsys, "--resume", "--out", out)
        assert f"expected the weights after update {about['step']}, with a loss of" in text
    (out / "best.safetensors").unlink()
    assert "best.safetensors is gone; put the run's own" in error(capsys, "--resume", "--out", out)


def test_a_new_run_does_not_overwrite_weights_without_a_state(two_runs, files, capsys):
    out, _ = two_runs
    (out / "last.pt").unlink()
    before = contents(out)
    text = error(capsys, *TINY, *files, "--steps", 2, "--out", out)
    assert "holds the weights of another, best.safetensors, without its state; move them" in text
    assert contents(out) == before


@pytest.mark.parametrize("harm", ["gone", "cut", "older"])
def test_weights_that_are_lost_in_the_middle_are_made_anew(
    files, tmp_path, monkeypatch, capsys, harm
):
    out = tmp_path / "out"
    given = [*TINY, *files, "--steps", 8, "--batch-size", 50, "--save-every", 0]  # 4 an epoch
    stopped_after(6, monkeypatch, *given, "--out", out)
    path = out / "best.safetensors"
    if harm == "gone":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        model, *vocabs = load_model(path)
        save_model(path, model, *vocabs, peek(path) | {"step": 2})
    capsys.readouterr()
    assert run("--resume", "--out", out) == 0
    assert "The next validation makes them anew." in capsys.readouterr().out
    assert "the best, after update 8: these parameters" in (out / "summary.txt").read_text()
    assert peek(path)["step"] == 8


def test_all_files_of_a_run_name_it_and_their_checksums(two_runs):
    runs = []
    for out in two_runs:
        summary = (out / "summary.txt").read_text(encoding="utf-8")
        for name in ("best.safetensors", "losses.jsonl"):
            digest = hashlib.sha256((out / name).read_bytes()).hexdigest()
            assert re.search(rf"{name}\n +SHA-256 {digest}\n", summary)
        names = {
            peek(out / "last.pt")["run"],
            peek(out / "best.safetensors")["run"],
            log(out)[0]["run"],
            re.search(r"run +fingerprint (\w+)", summary).group(1),
        }
        assert len(names) == 1
        runs += names
    assert runs[0] != runs[1]


def test_the_fingerprint_is_that_of_the_sentences_wherever_they_are(two_runs, files, tmp_path):
    for each in files[1::2]:
        (tmp_path / "moved").mkdir(exist_ok=True)
        shutil.move(each, tmp_path / "moved")
    moved = [each.replace(str(tmp_path), str(tmp_path / "moved")) for each in files]
    run(*TINY, *moved, "--steps", 2, "--seed", 1, "--out", tmp_path / "three")
    assert log(tmp_path / "three") == log(two_runs[1])


@pytest.mark.parametrize("deleted", [True, False])
def test_a_run_goes_on_without_its_losses_and_says_so(
    files, tmp_path, monkeypatch, capsys, deleted
):
    out = tmp_path / "out"
    stopped_after(4, monkeypatch, *TINY, *files, "--steps", 6, "--out", out)
    path = out / "losses.jsonl"
    if deleted:
        path.unlink()
    else:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    capsys.readouterr()
    assert run("--resume", "--out", out) == 0
    said = capsys.readouterr().out
    assert f"{path} is gone, and with it the losses of updates 1 to 4.\n" in said or not deleted
    assert f"{path} was truncated: of the " in said or deleted
    steps = [entry["step"] for entry in log(out) if "lr" in entry]
    assert steps[-2:] == [5, 6]
    assert run("--resume", "--out", out) == 0


def test_a_damaged_line_of_the_losses_stops_a_resume(files, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    stopped_after(4, monkeypatch, *TINY, *files, "--steps", 6, "--out", out)
    path = out / "losses.jsonl"
    path.write_text(path.read_text().replace('"step": 2', '"step": two'))
    before = contents(out)
    text = error(capsys, "--resume", "--out", out)
    assert "losses.jsonl, line 3: expected a JSON object with the step" in text
    assert "or delete it: the run goes on without" in text
    assert contents(out) == before


def test_one_folder_is_for_one_run_at_a_time(files, tmp_path, capsys):
    """The second is refused while the first is going on, and the first is not disturbed."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "train", *TINY, *files, "--steps", "100000", "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(BOOK), "TQDM_DISABLE": "1"}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (out / "last.pt").exists():
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for again in (["--resume"], [*TINY, *files, "--steps", 3]):
            text = error(capsys, *again, "--out", out)
            assert f"got {out}, where process {first.pid} on " in text
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=120)[1]
    finally:
        first.kill()
        first.communicate()
    assert first.returncode == 130, said
    assert {path.name for path in out.iterdir()} >= {"last.pt", "losses.jsonl"}
    assert not (out / "run.lock").exists()
    assert "Stopped after" in said


def test_a_full_disk_in_the_middle_and_on_from_there(files, tmp_path, capsys):
    """One line says it; with room again the run ends as if nothing had happened."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    given = [*TINY, *files, "--steps", 8, "--batch-size", 50, "--save-every", 0]
    assert run(*given, "--out", whole) == 0
    room = (whole / "last.pt").stat().st_size - 1  # the state grows with the optimiser's moments
    with full_disk(room):
        text = error(capsys, *given, "--out", out)
    assert re.search(r"expected to write .*, got: File too large; what stood there before", text)
    assert re.search(r"; \d of 8 updates are kept: go on with --resume\n$", text)
    assert text.count("\n") == 1
    assert not list(out.glob("*.part"))
    assert peek(out / "last.pt")["progress"]["best_step"] == 0
    assert run("--resume", "--out", out) == 0
    assert log(out) == log(whole)
    weights = [load_file(each / "best.safetensors") for each in (whole, out)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_a_checkpoint_of_something_else(tmp_path, capsys):
    model = torch.nn.Linear(3, 5)
    save_checkpoint(tmp_path / "last.pt", model, torch.optim.Adam(model.parameters()), step=1)
    text = error(capsys, "--resume", "--out", tmp_path)
    assert "expected the state of a run, got another checkpoint" in text


def test_too_little_memory_of_the_processor(monkeypatch, capsys, tmp_path):
    def fails(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 B")

    monkeypatch.setattr("train.__main__.prepare", fails)
    assert "the memory is too small; begin" in error(capsys, "--out", tmp_path / "out")


def test_an_error_of_the_program_itself_is_not_hidden(monkeypatch, tmp_path):
    def fails(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("train.__main__.prepare", fails)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        run("--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", ["--clip 0", "--lr 0", "--seed -1"])
def test_a_bad_number_leaves_no_folder(files, tmp_path, capsys, given):
    with pytest.raises(SystemExit):
        run(*TINY, *files, *given.split(), "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert run(*TINY, *files, "--steps", 1, "--out", tmp_path / "out") == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--heads 3", "expected d_model to be a multiple of n_heads"),
        ("--max-tokens 3", "expected sentences of at most max_tokens=3 tokens with EOS"),
        ("--threads 100000", "the processors of this machine, got 100000"),
        ("--d-model 20000000", "expected a model that fits into the memory of"),
        ("--layers 1000000000", "expected a model that fits into the memory of"),
        ("--accumulate 100000000", "expected --accumulate of at most 3, the batches of an epoch"),
        ("--subword 1000000000", "the letters of the training text, got 1,000,000,000"),
        ("--beam 100000", "expected --beam of at most 15, the target's vocabulary"),
        ("--device meta", "expected a device that computes, got 'meta'"),
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
    text = error(capsys, *TINY, *files, *given.split(), "--out", tmp_path / "out")
    assert message in text
    assert text.count("\n") == 1


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
