"""The records of the models without a part: how they are made, and what was found."""

import pytest

from chapters.transformer.experiments import parts, parts_real_text
from chapters.transformer.numbers import is_held_out
from chapters.transformer.part_runs import LEFT_OUT, NOTHING
from chapters.transformer.parts import PARTS
from lib.data import UNK
from measure.records import read_results

RECORDS = pytest.mark.parametrize("name", ["parts", "parts_real_text"])


def figures(task, part, figure="exact"):
    return read_results("parts")["needed"][task][part][figure]


@RECORDS
def test_figures_by_part_are_those_of_the_runs(name):
    kept = read_results(name)
    again = parts.record(kept["runs"], {})
    assert kept["needed"] == again["needed"]
    assert kept["used"] == again["used"]
    assert kept["parts"] == LEFT_OUT


@RECORDS
def test_every_run_says_something_about_every_sentence(name):
    kept = read_results(name)
    for one in kept["runs"]:
        assert len(one["said"]) == len(kept["shown"][one["task"]]), one
        whole = one["part"] == NOTHING
        assert set(one.get("used", {})) == ({NOTHING, *PARTS} if whole else set()), one


def test_numbers_that_are_shown_are_held_out():
    assert all(map(is_held_out, parts.SHOWN_NUMBERS))
    shown = read_results("parts")["shown"]["numbers"]
    assert [int(pair["source"].replace(" ", "")) for pair in shown] == list(parts.SHOWN_NUMBERS)


def test_each_part_was_left_out_on_three_seeds():
    needed = read_results("parts")["needed"]["numbers"]
    assert {part: len(found["exact"]) >= 3 for part, found in needed.items()} == dict.fromkeys(
        LEFT_OUT, True
    )
    assert len(needed[NOTHING]["exact"]) == len(needed["encoder_self_attention"]["exact"]) == 10


def test_a_task_of_numbers_knows_all_its_tokens():
    work = parts.numbers_work(says_and=True)
    for pair in (*work.test, *work.shown):
        for side, vocabulary in zip(pair, work.vocabularies, strict=True):
            assert UNK not in vocabulary.encode(side)
    assert len(work.test) == 500


def test_files_are_found_packed_or_plain(tmp_path):
    for name in ("train", "test_2016_flickr"):
        for side, text in (("de", "Ein Hund."), ("en", "A dog.")):
            (tmp_path / f"{name}.{side}").write_text(f"{text}\n" * 3, encoding="utf-8")
    work = parts_real_text.real_text(tmp_path)
    assert work.test[0] == (("ein", "hund", "."), ("a", "dog", "."))
    assert len(work.shown) == 10
    assert [len(vocabulary) for vocabulary in work.vocabularies] == [7, 7]


# What benchmarks/README.md says of the numbers


@pytest.mark.parametrize("task", ["numbers", "translation"])
def test_it_translates_nothing_without_cross_attention_or_the_causal_mask(task):
    for part in ("cross_attention", "causal_mask"):
        assert max(figures(task, part)) < 0.05
    assert min(figures(task, "causal_mask", "next_right")) > 0.995
    assert max(figures(task, "cross_attention", "next_right")) < 0.6


def test_without_positions_the_words_are_there_and_the_order_is_not():
    assert max(figures("numbers", "positions")) < 0.1
    assert max(figures("translation", "positions")) < 0.5


@pytest.mark.parametrize(
    ("task", "failed"), [("numbers", 6), ("numbers_end_hidden", 9), ("numbers_and", 3)]
)
def test_some_runs_need_the_encoder_s_self_attention_and_others_find_another_way(task, failed):
    assert min(figures(task, NOTHING)) > 0.95
    found = figures(task, "encoder_self_attention")
    assert len(found) == 10
    assert (sum(x < 0.6 for x in found), sum(x > 0.95 for x in found)) == (failed, 10 - failed)


def test_of_the_runs_that_find_a_way_most_lose_it_with_the_end_mark():
    both = [figures(task, "encoder_self_attention") for task in ("numbers", "numbers_end_hidden")]
    ways = [hidden for seen, hidden in zip(*both, strict=True) if seen > 0.95]
    assert (len(ways), sum(x < 0.6 for x in ways)) == (4, 3)


def test_what_the_book_s_task_needs_is_little():
    run = read_results("parts")["needed"]["translation"]
    needs = {part for part in run if min(figures("translation", part)) < 0.85}
    assert needs == {
        "cross_attention",
        "causal_mask",
        "residual",
        "positions",
        "embedding_scale",
    }


def test_the_mask_makes_no_difference_to_a_trained_decoder_of_one_layer():
    used = read_results("parts")["used"]
    assert used["numbers"]["causal_mask"] == used["numbers"][NOTHING]
    assert used["translation"]["causal_mask"] != used["translation"][NOTHING]
