"""What is chosen by the data: each rule on both of its sides, and that what is said always wins."""

import json
import math
import random
import re

import pytest
import torch

from lib.data import Pair
from train import choice
from train.__main__ import main
from train.checkpoints import peek
from train.choice import (
    CHOSEN,
    DROPOUT,
    FEW,
    FEW_UPDATES,
    KNOWN_UPDATES,
    MORE_DROPOUT,
    SMALL_FROM,
    UPDATES,
    choose_batches,
    choose_epochs,
    choose_model,
    choose_threads,
    unknown_fraction,
)
from train.corpus import Corpus
from train.options import SIZES, parse, settle
from train.ranks import Ranks
from train.run import prepare


def given(text=""):
    return parse(f"--train x {text}".split())


def corpus(pairs, words=9, held="w0 w1"):
    """Sentences of words w0, w1, ... with much the same letters."""
    rng = random.Random(0)
    every = [f"w{i}" for i in range(words)]
    sides = [[tuple(rng.choices(every, k=9)) for _ in range(pairs)] for _ in range(2)]
    covered = Pair(tuple(every), tuple(every))
    train = [covered, *map(Pair, *sides)][:pairs]
    valid = [Pair(tuple(held.split()), tuple(held.split()))]
    return Corpus(train, valid, {"validation": valid}, [])


@pytest.mark.parametrize(("pairs", "size"), [(SMALL_FROM - 1, "tiny"), (SMALL_FROM, "small")])
def test_the_size_follows_the_number_of_pairs(pairs, size):
    chosen, reasons = choose_model(given(), corpus(pairs))
    assert chosen == {"size": size, "dropout": DROPOUT}
    assert reasons[0].startswith(f"size {size}: {pairs:,} pairs are ")
    assert len(reasons) == 3


@pytest.mark.parametrize(
    ("pairs", "dropout", "why"),
    [
        (FEW - 1, MORE_DROPOUT, "fewer than 1,000 pairs, and each is seen many times"),
        (FEW, DROPOUT, "each is seen many times"),
    ],
)
def test_few_pairs_get_more_dropout(pairs, dropout, why):
    chosen, reasons = choose_model(given(), corpus(pairs))
    assert chosen["dropout"] == dropout
    assert reasons[1] == f"dropout {dropout}: {why}"


def test_known_words_stay_whole_and_unknown_ones_are_split():
    whole, reasons = choose_model(given("--size tiny"), corpus(99))
    assert whole == {}
    assert reasons == ["whole words: all of the held-out words are in the training data"]
    split, reasons = choose_model(given("--size tiny"), corpus(400, 300, "w0 w999"))
    assert split == {"subword": 700, "share": True}
    assert reasons == [
        "subword 700, shared: 50 % of the held-out words are in no training sentence"
    ]
    most = "w0 " * 198 + "w999"
    whole, reasons = choose_model(given("--size tiny"), corpus(400, 300, most))
    assert whole == {}
    assert reasons == ["whole words: 99.5 % of the held-out words are in the training data"]


def test_without_room_or_package_words_stay_whole(monkeypatch):
    assert choose_model(given("--size tiny"), corpus(5, 9, "w0 z"))[0] == {}
    letters = [Pair((chr(20_000 + i),) * 30, ("a",)) for i in range(200)]  # more than pieces
    chosen, reasons = choose_model(
        given("--size tiny"), Corpus(letters, [Pair(("x",), ("y",))], {}, [])
    )
    assert chosen == {}
    assert reasons[0].endswith("too little text to learn sub-words from")
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    chosen, reasons = choose_model(given("--size tiny"), corpus(400, 300, "w0 w999"))
    assert chosen == {}
    assert reasons[0].endswith("the package tokenizers is not installed")


def test_the_share_of_unknown_words_counts_each_side_by_itself():
    train = [Pair(("a", "b"), ("c",))]
    held = [Pair(("a", "c", "a"), ("c", "b"))]
    assert unknown_fraction(train, held) == 2 / 5


def test_batches_are_small_where_tokens_are_few():
    few, reasons = choose_batches(given(), "small", [(10, 20)] * 1000)
    assert few == {"max_tokens": 2000}
    assert reasons == ["max-tokens 2,000: so that the 20,000 tokens make more updates"]
    assert choose_batches(given(), "small", [(10, 20)] * 10)[0] == {"max_tokens": 512}
    assert choose_batches(given(), "small", [(10, 20)] * 10_000) == ({}, [])
    long, reasons = choose_batches(given(), "tiny", [(10, 20)] * 10 + [(5, 700)])
    assert long == {"max_tokens": 700}
    assert reasons == ["max-tokens 700: the longest sentence needs as many"]


@pytest.mark.parametrize(
    ("size", "pairs", "held", "updates"),
    [
        ("tiny", 99, "w0", KNOWN_UPDATES),
        ("tiny", FEW - 1, "w0 w999", FEW_UPDATES),
        ("tiny", FEW, "w0 w999", UPDATES["tiny"]),
        ("tiny", FEW, "w0", KNOWN_UPDATES),
        ("small", 99, "w0 w999", UPDATES["small"]),
        ("base", 99, "w0 w999", KNOWN_UPDATES),
    ],
)
def test_few_batches_are_read_more_often(size, pairs, held, updates):
    usual, some = SIZES[size]["epochs"], corpus(pairs, held=held)
    assert choose_epochs(given(), size, 4, some) == (
        {"epochs": math.ceil(updates / 4)},
        [f"epochs {math.ceil(updates / 4):,}: {usual} would be only {4 * usual} updates"],
    )
    enough = math.ceil(updates / usual)
    assert choose_epochs(given(), size, enough, some) == ({}, [])
    twice = choose_epochs(given("--accumulate 2"), size, enough, some)[0]
    assert twice == {"epochs": math.ceil(2 * updates / enough)}


def test_a_narrow_model_gets_one_thread():
    assert choose_threads(given(), 64, "cpu")[0] == {"threads": 1}
    for text, d_model, device in (("", 256, "cpu"), ("", 64, "cuda"), ("--threads 2", 64, "cpu")):
        assert choose_threads(given(text), d_model, device) == ({}, [])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("--size tiny --min-count 2", set()),
        ("--size tiny --subword 300", set()),
        ("--dropout 0.5 --min-count 1", {"size"}),
        ("--size small", {"subword", "share"}),
        ("--size small --share", {"subword"}),
    ],
)
def test_what_is_said_is_not_chosen(text, left):
    chosen, reasons = choose_model(given(text), corpus(400, 300, "w0 w999"))
    assert set(chosen) == left
    assert len(reasons) == len(left - {"share"})


def test_said_batches_and_epochs_are_not_chosen():
    for text in ("--max-tokens 99", "--batch-size 9"):
        assert choose_batches(given(text), "small", [(10, 20)]) == ({}, [])
    for text in ("--epochs 2", "--steps 2"):
        assert choose_epochs(given(text), "small", 3, corpus(99)) == ({}, [])


def test_what_may_be_chosen_are_options_and_none_is_missed():
    settled = vars(settle(parse(["--train", "x"])))
    assert set(settled) >= CHOSEN
    assert {"size", "subword", "share", "threads", *SIZES["tiny"]} <= CHOSEN
    chosen = {"size": "tiny", "dropout": 0.2, "subword": 7, "epochs": 9, "max_tokens": 11}
    assert chosen.items() <= vars(settle(given("--lr 1"), chosen)).items()
    assert settle(given("--clip 3"), chosen).epochs == 9
    assert settle(given("--dropout 0.5"), chosen).dropout == 0.5
    assert settle(given("--batch-size 3"), {"dropout": 0.2}).max_tokens is None


# --- in a run ---------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    rng = random.Random(0)
    rows = [rng.choices("abcdefg", k=rng.randint(2, 5)) for _ in range(60)]
    text = "".join(f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows)
    (tmp_path / "t").write_text(text, encoding="utf-8")
    return ["--train", str(tmp_path / "t"), "--device", "cpu", "--out", str(tmp_path / "out")]


def test_a_run_is_made_of_what_was_chosen_and_remembers_why(files, tmp_path, capsys):
    threads = torch.get_num_threads()
    small = ["--layers", "1", "--d-model", "16", "--heads", "2", "--d-ff", "16", "--steps", "3"]
    try:
        assert main([*files, *small]) == 0
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    summary = (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")
    reasons = peek(tmp_path / "out" / "last.pt")["reasons"]
    options = peek(tmp_path / "out" / "last.pt")["options"]
    assert [reason.split(":")[0] for reason in reasons] == [
        "size tiny",
        f"dropout {MORE_DROPOUT}",
        "whole words",
        "threads 1",
    ]
    for text in (said, summary):
        assert re.search(rf"^chosen +{re.escape(reasons[0])}$", text, re.M)
        assert all(f" {reason}\n" in text for reason in reasons)
    assert (options["size"], options["dropout"], options["threads"]) == ("tiny", MORE_DROPOUT, 1)
    assert (options["subword"], options["steps"], options["epochs"]) == (None, 3, None)
    assert main(["--resume", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8") == summary


def test_chosen_epochs_make_enough_updates(files):
    run = prepare(parse([*files, "--threads", "1"]))
    assert run.steps >= KNOWN_UPDATES
    assert run.steps - KNOWN_UPDATES < run.stream.per_epoch
    assert run.options.epochs == run.steps / run.stream.per_epoch
    assert run.options.max_tokens == 512


def test_without_files_only_the_threads_are_chosen(tmp_path):
    threads = torch.get_num_threads()
    try:
        run = prepare(parse(["--device", "cpu", "--steps", "1", "--out", str(tmp_path)]))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert [reason.split(":")[0] for reason in run.reasons] == ["threads 1"]
    assert run.options.epochs is None
    assert run.options.dropout == 0


def test_a_restarted_run_chooses_nothing_anew(files, tmp_path):
    first = prepare(parse([*files, "--threads", "1"]), Ranks(launch="a"))
    first.step = 3
    first.save()
    again = prepare(parse([*files, "--threads", "1"]), Ranks(launch="a", restarted=True))
    assert again.step == 3
    assert again.fingerprint == first.fingerprint
    assert json.dumps(again.reasons) == json.dumps(first.reasons)
    told = parse([*files, "--threads", "1", "--dropout", "0.5"])
    with pytest.raises(ValueError, match="go on with it by --resume"):
        prepare(told, Ranks(launch="a", restarted=True))
