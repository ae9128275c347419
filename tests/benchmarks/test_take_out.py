"""What was recorded of the laboratory "Take a part out": the bars, and what its questions say."""

import statistics

import pytest

from benchmarks import take_out
from chapters.transformer.take_out import PARTS
from measure.records import read_results

RECORD = read_results("take_out")
RUNS = RECORD["without"]
FIRST, SWAPPED, *_ = take_out.NAMED


def each(without: str, figure: str) -> list[float]:
    return [run[figure] for run in RUNS[without]]


def writes(without: str, number: str) -> list[str]:
    return [run["writes"][number] for run in RUNS[without]]


@pytest.mark.parametrize("without", take_out.TAKEN)
def test_every_run_keeps_the_bars_of_its_setting(without):
    assert len(RUNS[without]) == len(set(RECORD["seeds"])) >= 10
    for run in RUNS[without]:
        assert take_out.broken(without, run) == []


def test_a_run_that_breaks_a_bar_is_named():
    run = RUNS["norms"][0]
    assert take_out.broken("norms", run | {"accuracy": 0.9}) == [
        "without norms: accuracy is 0.9, not from 0.95 to 1.0"
    ]
    [slow] = take_out.broken("norms", run | {"seconds": 9})
    assert slow.endswith("seconds is 9, not from 0 to 8")


def test_each_part_was_measured_alone():
    assert set(RUNS) == set(take_out.TAKEN)
    assert {parts for parts in take_out.TAKEN.values() if len(parts) == 1} == {
        (part,) for part in PARTS
    }


def test_without_the_mask_the_loss_is_lower_and_the_numbers_are_wrong():
    """On each seed: every next word is right, and the model is lost where it writes alone."""
    losses = zip(each("causal_mask", "loss"), each("nothing", "loss"), strict=True)
    assert all(without < whole for without, whole in losses)
    assert min(each("causal_mask", "next")) > 0.999
    assert max(each("causal_mask", "accuracy")) < 0.05


def test_without_positions_numbers_of_the_same_digits_are_one_number():
    assert sorted(FIRST) == sorted(SWAPPED) != FIRST
    assert writes("positions", FIRST) == writes("positions", SWAPPED)
    for one, other in zip(writes("nothing", FIRST), writes("nothing", SWAPPED), strict=True):
        assert one != other


def test_without_cross_attention_every_number_is_the_same():
    for run in RUNS["cross_attention"]:
        assert len(set(run["writes"].values())) == 1


def test_parts_that_can_go_alone_cannot_all_go():
    alone = min(min(each(part, "accuracy")) for part in take_out.SPARE)
    assert alone > max(each(take_out.FIVE, "accuracy"))
    pairs = zip(each(take_out.FIVE, "accuracy"), each(take_out.SIX, "accuracy"), strict=True)
    assert all(five > six for five, six in pairs)


def test_without_the_encoders_self_attention_some_seeds_find_another_way():
    found = each("encoder_self_attention", "accuracy")
    lost = [i for i, share in enumerate(found) if share < 0.6]
    assert 3 <= len(lost) <= 7
    assert min(share for i, share in enumerate(found) if i not in lost) >= 0.9
    assert statistics.mean(each("nothing", "accuracy")) > 0.99
