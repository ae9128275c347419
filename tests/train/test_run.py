"""What a run is made of, beyond what `test_main.py` and `test_resume.py` see from outside."""

import json
import math

import pytest
import torch

from lib.training import cosine
from train import checkpoints
from train.options import parse
from train.ranks import Ranks
from train.run import ALONE, Run, perplexity, prepare


def new(tmp_path, text="", ranks=ALONE):
    lines = [f"{'a ' * (i % 5 + 1)}\tb c\n" for i in range(60)]
    (tmp_path / "t").write_text("".join(lines), encoding="utf-8")
    given = f"--train {tmp_path}/t --out {tmp_path}/out --size tiny --device cpu --threads 1 {text}"
    return prepare(parse(given.split()), ranks)


def test_epochs_become_updates(tmp_path):
    run = new(tmp_path, "--batch-size 10 --epochs 3 --accumulate 4")
    assert isinstance(run, Run)
    assert run.stream.per_epoch == 6  # 57 pairs are left for training
    assert run.steps == math.ceil(3 * 6 / 4)
    assert (run.step, run.kept) == (0, 0)


@pytest.mark.parametrize(("text", "warmup"), [("", 5), ("--warmup 0", 0), ("--warmup 9", 9)])
def test_warm_up_is_a_twentieth_unless_told(tmp_path, text, warmup):
    run = new(tmp_path, f"--steps 100 {text}")
    wanted = cosine(100, warmup)
    assert [run.schedule(i) for i in range(100)] == [wanted(i) for i in range(100)]


def test_paper_schedule_has_the_paper_s_warm_up(tmp_path):
    run = new(tmp_path, "--steps 100 --schedule paper")
    assert run.schedule(3999) == pytest.approx((64 * 4000) ** -0.5)


def test_validation_keeps_the_best_and_counts_epochs(tmp_path):
    run = new(tmp_path, "--steps 5")
    run.validate()
    first = run.progress.best_loss
    assert first == pytest.approx(math.log(len(run.vocabs[1])), rel=0.1)
    assert (tmp_path / "out" / "best.safetensors").exists()
    run.step = 3
    run.validate()  # no better than before
    assert (run.progress.best_step, run.progress.best_loss) == (0, first)


def test_perplexity():
    assert perplexity(math.log(5)) == "perplexity 5.00"
    assert perplexity(1e9).startswith("perplexity")


def test_after_a_restart_the_run_goes_on_by_itself(tmp_path):
    first = new(tmp_path, "--steps 5", Ranks(launch="a"))
    first.step = 3
    first.save()
    again = new(tmp_path, "--steps 5 --save-every 7", Ranks(launch="a", restarted=True))
    assert (again.step, again.options.save_every, first.options.save_every) == (3, 7, 60)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("--steps 5", Ranks(launch="a")),
        ("--steps 5", Ranks(launch="b", restarted=True)),
        ("--steps 6", Ranks(launch="a", restarted=True)),
    ],
)
def test_another_run_is_not_taken_for_the_one_before_the_restart(tmp_path, text, ranks):
    new(tmp_path, "--steps 5", Ranks(launch="a")).save()
    kept = (tmp_path / "out" / "last.pt").read_bytes()
    with pytest.raises(ValueError, match=r"but .* holds one; go on with it by --resume"):
        new(tmp_path, text, ranks)
    assert (tmp_path / "out" / "last.pt").read_bytes() == kept


def test_a_run_knows_how_many_processes_it_had(tmp_path):
    run = new(tmp_path, "--steps 5")
    run.save()
    path = tmp_path / "out" / "last.pt"
    state = torch.load(path, weights_only=True)
    told = json.loads(state["extra"])
    assert told["ranks"] == []
    checkpoints._write(path, state | {"extra": json.dumps(told | {"ranks": [[""]] * 3})})
    given = f"--resume --out {tmp_path}/out"
    assert prepare(parse(given.split())).ranks_before == 3
