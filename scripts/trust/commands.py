"""Fuzz the command line: option values in process, and whole runs on a few sentences.

Whatever is told, `parse` may end in SystemExit with a message, a run in a status of 0, 1, 2 or 130
and one error that is no traceback. A run that ended with 0 has left weights that load.
"""

import contextlib
import io
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from scripts.trust.draw import TEXTS
from scripts.trust.fuzz import finite, judge_error
from train.__main__ import main
from train.checkpoints import load_model
from train.options import FREE, parse, settle

NUMBERS = ("0", "1", "2", "3", "5", "-1", "0.1", "0.5", "1.0", "nan", "inf", "-inf", "1e-320")
NUMBERS += ("1e308", "1_0", "٣", " 2", "2.0", "0x1", "1e1", "")
HUGE = ("100000", "20000000", "1000000000", "100000000000000000000", "9223372036854775807")
WORDS = ("pre", "post", "rotary", "alibi", "learned", "sinusoidal", "none", "relu", "swiglu")
WORDS += ("gelu", "cosine", "paper", "constant", "float32", "bfloat16", "auto", "tiny", "x")
DEVICES = ("cpu", "cuda", "cuda:7", "mps", "meta", "xpu", "cpu:0", "cpu:1", "vulkan", "")
HEAVY = {"size"}  # of a whole run: larger models than a fuzz has time for
LIMIT = 20.0  # seconds of the processor for a run and its resumption
TINY = "--layers 1 --d-model 8 --heads 2 --d-ff 8 --steps 2 --max-tokens 60 --threads 1 --beam 1"
RIGHT = {  # values that are no mistake, so that a whole run goes further than to its first check
    "positions": WORDS[2:7],
    "norm": WORDS[:2],
    "activation": ("relu", "gelu", "swiglu"),
    "schedule": ("cosine", "paper", "constant"),
    "precision": ("float32", "bfloat16"),
}


def option_names() -> list[str]:
    """Every option that there is: a new one is fuzzed too."""
    return sorted(vars(settle(parse([]))))


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def some_value(name: str, rng: random.Random, files: list[str]) -> str:
    if name == "device" and rng.random() < 0.8:
        return rng.choice(DEVICES)
    if name in ("data", "train", "valid", "test", "out") and rng.random() < 0.7:
        return rng.choice(files)
    pools = (RIGHT.get(name, NUMBERS), NUMBERS, NUMBERS, HUGE, WORDS, TEXTS)
    return rng.choice(rng.choice(pools))


def some_options(rng: random.Random, names: list[str], files: list[str]) -> list[str]:
    """Options and values; among them unknown, shortened and forgotten ones."""
    told: list[str] = []
    for name in rng.sample(names, min(len(names), rng.choice((0, 1, 1, 1, 2, 5)))):
        way = rng.random()
        if way < 0.05:
            told.append(flag(name)[: rng.randint(1, 8)])
        elif way < 0.1:
            told.append(rng.choice(TEXTS))
        elif way < 0.2:
            told.append(rng.choice((flag(name), flag(name).replace("--", "--no-"))))
        else:
            told += [
                flag(name),
                *(some_value(name, rng, files) for _ in range(rng.choice((1, 1, 1, 2)))),
            ]
    return told


@contextlib.contextmanager
def captured() -> Any:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        yield out


def judge_options(seed: int, number: int) -> list[str]:
    """Read one random command line."""
    rng = random.Random((seed << 32) + number)
    names = option_names()
    told = some_options(rng, names, ["a", "/dev/null", ".", "x\0y"])
    with captured() as out:
        try:
            settled = vars(settle(parse(told)))
        except SystemExit as error:
            said = out.getvalue().strip()
            fine = (error.code == 2 and "error: " in said) or error.code == 0
            return [
                "refused" if fine else "unclear",
                f"exit {error.code}: {said[-200:]}",
                str(told),
            ]
        except BaseException as error:
            return [*judge_error(error), str(told)]
    if set(settled) != set(names):
        return ["unclear", f"options {set(settled) ^ set(names)}", str(told)]
    numbers = {name: value for name, value in settled.items() if isinstance(value, float)}
    return ["returned" if finite(numbers) else "not finite", str(numbers), str(told)]


def make_data(root: Path) -> list[str]:
    """Sentences to say backwards, and files that are none: their names."""
    rng = random.Random(0)
    made = {"train": 60, "valid": 8, "test": 8}
    for name, number in made.items():
        rows = [rng.choices("abcdef", k=rng.randint(1, 5)) for _ in range(number)]
        text = "".join(f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows)
        (root / name).write_text(text, encoding="utf-8")
    (root / "empty").write_text("", encoding="utf-8")
    (root / "bytes").write_bytes(rng.randbytes(300))
    (root / "folder").mkdir()
    (root / "is_a_file").write_text("x", encoding="utf-8")
    (root / "link").symlink_to(root / "nowhere")
    os.mkfifo(root / "fifo")
    names = [*made, "empty", "bytes", "folder", "is_a_file", "link", "nowhere", "fifo"]
    return [*(str(root / name) for name in names), "/dev/zero", "/dev/null", "/dev/full"]


def judge_run(root: Path, files: list[str], seed: int, number: int) -> list[str]:
    """Train with random options on a few sentences, then go on or score again with others."""
    rng = random.Random((seed << 32) + number)
    out = root / f"out{number}"
    names = [name for name in option_names() if name not in HEAVY | {"resume", "out", "steps"}]
    data = ["--train", files[0], "--valid", files[1], "--test", files[2]]
    told = [*TINY.split(), *data, *some_options(rng, names, files), "--out", str(out)]
    try:
        found = judge_main(told, out)
        if found[0] == "returned" or rng.random() < 0.2:
            free = sorted(FREE - {"resume", "out"})
            again = ["--resume", "--out", str(out), *some_options(rng, free, files)]
            second = judge_main(again, out)
            found = second if second[0] not in ("returned", "refused") else found
        return found
    finally:
        shutil.rmtree(out, ignore_errors=True)


def judge_main(told: list[str], out: Path) -> list[str]:
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    shown = " ".join(told).replace(str(out.parent), "")
    with captured() as said:
        try:
            status: Any = main(told)
        except SystemExit as error:
            status = error.code
        except BaseException as error:
            return ["unclear", "traceback: " + judge_error(error)[1], shown]
        finally:
            torch.set_num_threads(threads)
    text = said.getvalue()
    if "Traceback" in text or signal.getsignal(signal.SIGINT) != handler:
        return ["unclear", f"a traceback, or a signal's handler kept: {text[-200:]}", shown]
    if status in (1, 2) and "error: " in text:
        return ["refused", text.strip()[-200:], shown]
    if status != 0:
        return ["unclear", f"status {status}: {text.strip()[-200:]}", shown]
    best = out / "best.safetensors"
    if best.exists() and not finite(load_model(best)[0].state_dict()):
        return ["not finite", "the weights kept", shown]
    return ["returned", "", shown]


def runner(root: Path, seed: int) -> Callable[[int], list[str]]:
    """What judges whole runs, after their files are made."""
    files = make_data(root)
    return lambda number: judge_run(root, files, seed, number)
