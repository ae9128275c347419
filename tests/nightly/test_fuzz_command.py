"""The command line with any options: an error in one line, no traceback, no weights of NaN."""

import contextlib
import io
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.nightly.judging import BASE, finite, watched
from tests.nightly.texts import texts
from train.__main__ import main
from train.checkpoints import load_model
from train.options import FREE, parse, settle

OPTIONS = sorted(vars(settle(parse([]))))  # a new one is tried too
FILES = ("data", "train", "valid", "test", "out")
NUMBERS = ("0", "1", "2", "3", "5", "-1", "0.1", "0.5", "1.0", "nan", "inf", "-inf", "1e-320")
NUMBERS += ("1e308", "1_0", "٣", " 2", "2.0", "0x1", "1e1", "")
HUGE = ("100000", "20000000", "1000000000", "100000000000000000000", "9223372036854775807")
DEVICES = ("cpu", "cuda", "cuda:7", "mps", "meta", "xpu", "cpu:0", "cpu:1", "vulkan", "")
WORDS = {  # values that are no mistake
    "positions": ("rotary", "alibi", "learned", "sinusoidal", "none"),
    "norm": ("pre", "post"),
    "activation": ("relu", "gelu", "swiglu"),
    "schedule": ("cosine", "paper", "constant"),
    "precision": ("float32", "bfloat16", "auto"),
    "device": DEVICES,
}
pytestmark = pytest.mark.timeout(1800)  # of many examples
TINY = "--layers 1 --d-model 8 --heads 2 --d-ff 8 --steps 2 --max-tokens 60 --threads 1 --beam 1"


@st.composite
def commands(draw, names, files):
    """Options and values; among them unknown, shortened and forgotten ones."""
    told = []
    for name in draw(st.lists(st.sampled_from(names), max_size=5, unique=True)):
        flag = "--" + name.replace("_", "-")
        way = draw(st.sampled_from(["value"] * 8 + ["shortened", "text", "alone", "no"]))
        if way == "value":
            every = st.sampled_from(NUMBERS) | st.sampled_from(HUGE) | texts
            right = st.sampled_from(files if name in FILES else WORDS.get(name, NUMBERS))
            value = draw(right | right | every)
            told += [flag, value, *draw(st.sampled_from([[], [], [], [value]]))]
        elif way == "text":
            told.append(draw(texts))
        else:
            shortened = flag[: draw(st.integers(1, 8))]
            told.append({"shortened": shortened, "alone": flag}.get(way, f"--no-{flag[2:]}"))
    return told


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        yield out


@settings(max_examples=BASE * 5)
@given(commands(OPTIONS, ["a", "/dev/null", ".", "x\0y"]))
def test_options_are_read_or_refused_in_one_line(told):
    with captured() as said, watched():
        try:
            settled = vars(settle(parse(told)))
        except SystemExit as error:
            status = error.code
            settled = None
    if settled is None:
        assert status == 0 or (status == 2 and "error: " in said.getvalue())
        return
    assert sorted(settled) == OPTIONS
    assert finite([value for value in settled.values() if isinstance(value, float)])


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """Sentences to say backwards, and files that are none: their names."""
    root, rng = tmp_path_factory.mktemp("files"), random.Random(0)
    made = {"train": 60, "valid": 8, "test": 8}
    for name, number in made.items():
        rows = [rng.choices("abcdef", k=rng.randint(1, 5)) for _ in range(number)]
        text = "".join(f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows)
        (root / name).write_text(text, encoding="utf-8")
    (root / "empty").write_text("", encoding="utf-8")
    (root / "bytes").write_bytes(rng.randbytes(300))
    (root / "folder").mkdir()
    (root / "link").symlink_to(root / "nowhere")
    os.mkfifo(root / "fifo")
    names = [*made, "empty", "bytes", "folder", "link", "nowhere", "fifo"]
    return [*(str(root / name) for name in names), "/dev/zero", "/dev/null", "/dev/full"]


@settings(max_examples=BASE // 6)
@given(data=st.data())
def test_a_run_ends_well_or_is_refused_in_one_line(data, files, tmp_path_factory):
    names = sorted(set(OPTIONS) - {"resume", "out", "steps", "size"})
    corpus = ["--train", files[0], "--valid", files[1], "--test", files[2]]
    folder = tmp_path_factory.mktemp("run", numbered=True)
    out = folder / "out"
    try:
        told = data.draw(commands(names, files))
        run([*TINY.split(), *corpus, *told, "--out", str(out)], out)
        again = data.draw(commands(sorted(FREE - {"resume", "out"}), files))
        run(["--resume", "--out", str(out), *again], out)
    finally:
        shutil.rmtree(folder)


def run(told: list[str], out: Path) -> None:
    """What must hold after any command."""
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    note(" ".join(told))
    with captured() as said, watched(20.0):
        try:
            status = main(told)
        except SystemExit as error:
            status = error.code
        finally:
            torch.set_num_threads(threads)
    text = said.getvalue()
    assert "Traceback" not in text
    assert signal.getsignal(signal.SIGINT) == handler
    assert status == 0 or (status in (1, 2) and "error: " in text)
    if status == 0 and (best := out / "best.safetensors").exists():
        assert finite(load_model(best)[0].state_dict())
