"""What was recorded of the laboratories on ten seeds, and what chapters and panels say of it."""

import pytest

from benchmarks.laboratory_settings import LEARNT, RATES, SETTINGS, learns, title_of
from engine.laboratory import TASKS
from measure.records import read_results

RECORD = read_results("laboratory_settings")
ROWS = RECORD["settings"]
FAR = "positions 113 to 128"


def accuracies(title: str) -> list[float]:
    return [run["accuracy"] for run in ROWS[title]["runs"]]


def answers(title: str, text: str) -> list[str]:
    return [run["answers"][text] for run in ROWS[title]["runs"]]


def test_the_record_has_every_setting_and_seed():
    assert list(ROWS) == list(SETTINGS)
    assert RECORD["seeds"] == list(range(10))
    assert {len(row["runs"]) for row in ROWS.values()} == {10}


@pytest.mark.parametrize("task", TASKS)
def test_a_panel_advises_the_highest_rate_with_which_every_seed_learns(task):
    advised = TASKS[task].advised
    base, rates = RATES[task]
    assert advised == RECORD["advised"][task]
    assert advised in rates
    assert learns(ROWS[title_of(task, base | {"lr": advised})])
    for lr in rates:
        if lr > advised:
            assert min(accuracies(title_of(task, base | {"lr": lr}))) < LEARNT[task]


def test_what_chapter_7_says_of_each_setting():
    assert all(run["diverged"] is None for row in ROWS.values() for run in row["runs"])
    assert max(accuracies("depth, n_layers 6")) < 0.34
    for rescue in ("warmup 30", "warmup 100", "warmup 200", "lr 0.003"):
        assert min(accuracies(f"depth, n_layers 6, {rescue}")) > 0.985
    assert min(accuracies("depth")) > 0.985
    deep = accuracies("depth, n_layers 12, lr 0.003, warmup 100")
    assert [seed for seed, right in enumerate(deep) if right > 0.8] == [0, 4, 5, 7]
    assert sorted(deep)[5] < 0.34
    assert min(accuracies("depth, norm pre, n_layers 12")) > 0.985
    # Beside the suggested settings
    assert min(accuracies("depth, n_layers 6, d_model 16")) > 0.6
    assert min(accuracies("depth, n_layers 6, warmup 30, d_model 64")) < 0.2
    for heads in (1, 2):
        assert max(accuracies(f"depth, n_layers 6, n_heads {heads}")) < 0.34
        for rescue in ("warmup 30", "warmup 100", "lr 0.003"):
            assert min(accuracies(f"depth, n_layers 6, {rescue}, n_heads {heads}")) > 0.985


def test_what_chapter_11_says_of_a_number_that_is_too_long():
    four, shorter = "one thousand two hundred and thirty four", "one hundred and twenty "
    said = answers("numbers, lr 0.003", "12345")
    assert [seed for seed, text in enumerate(said) if text == four] == [0, 2, 4, 7, 8]
    assert all(text in (four, f"{shorter}four", f"{shorter}three") for text in said)
    for title, row in ROWS.items():
        if row["task"] == "numbers":
            for text in answers(title, "12345"):
                thousands, among, _ = text.partition(" thousand")
                assert not among or thousands in ("one", "five"), "all are smaller"


def test_what_chapter_8_says_of_heads_and_layers():
    def reach(title: str, stretch: str) -> list[float]:
        return [run["numbers"][stretch] for run in ROWS[title]["runs"]]

    assert min(reach("longer, positions rotary", FAR)) > 0.4
    assert max(reach("longer, positions rotary", FAR)) < 0.53
    assert min(reach("longer, positions alibi", FAR)) > 0.78
    assert min(reach("longer, positions alibi, n_layers 2", FAR)) > 0.78
    assert max(reach("longer, positions alibi, n_heads 1", FAR)) < 0.53
    assert min(reach("longer, positions none, n_layers 2", "positions 17 to 32")) > 0.74
