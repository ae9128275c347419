"""What is told of a run: numbers that read well, in two columns."""

import re

import pytest

from train.options import parse
from train.report import duration, facts, table
from train.run import prepare


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3723, "1 h 2 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_table():
    assert (
        table([("a", "one"), ("", "two"), ("long", "three")]) == "a     one\n      two\nlong  three"
    )


def test_facts_count_in_thousands(tmp_path):
    lines = [f"{'a ' * (i % 5 + 1)}\tb{i}\n" for i in range(1300)] + ["a " * 9 + "\tb\n"] * 1250
    (tmp_path / "t").write_text("".join(lines), encoding="utf-8")
    given = f"--train {tmp_path}/t --out {tmp_path}/out --size tiny --threads 1 --device cpu"
    told = "--min-count 1 --max-length 6 --steps 12345 --batch-size 1 --seed 3 --precision bfloat16"

    def right(*more):
        return [text for _, text in facts(prepare(parse([*given.split(), *told.split(), *more])))]

    model, kind, data, words, training, schedule, machine = right()
    assert model.startswith("2+2 layers, d_model 64, 4 heads, d_ff 128, ")
    assert model.endswith(" parameters")
    assert kind == "norm pre, positions rotary, dropout 0.0"
    kept, left, held = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", data))
    assert (kept + left, held) == (2550 - 127, 127)
    assert data == f"{kept:,} pairs, {left:,} too long ones left out; 127 for validation"
    assert words == "vocabularies of 5 and 15 words"
    assert training == f"12,345 updates, {kept:,} batches an epoch"
    assert schedule == "schedule cosine, rate 0.004, smoothing 0.1, seed 3"
    assert machine == "cpu, bfloat16"
    assert right("--share")[3] == "one vocabulary of 16 words"
