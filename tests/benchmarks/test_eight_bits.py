"""What 8 bits change: the script runs, with little to do, and what was recorded of it."""

import pytest
import torch

from benchmarks import eight_bits
from lib.data import EOS, PAD
from measure.records import read_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published

RECORD = read_results("eight_bits")
RUNS = {run["model"]: run for run in RECORD["runs"]}


@pytest.fixture
def little(monkeypatch):
    size = type(eight_bits.SIZES["medium"])(16, 2, 1, 24, 0, 3, 7, 5)
    monkeypatch.setattr(eight_bits, "SIZES", {"medium": size, "base": size})
    monkeypatch.setattr(eight_bits, "WAYS", {"greedy": (None, 5), "beam 4": (4, 3)})
    monkeypatch.setattr(eight_bits, "MOST", 9)
    monkeypatch.setenv("TQDM_DISABLE", "1")


def test_a_model_is_trained_and_both_say_what_they_say(little, tmp_path):
    told = ["--steps", "3", "--warmup", "1", "--batch-size", "2", "--into", str(tmp_path)]
    eight_bits.main([*told, "--only", "medium"])
    record = read_results("eight_bits", [tmp_path])
    assert record["training"] == {"steps": 3, "warmup": 1, "batch_size": 2}
    (run,) = record["runs"]
    assert run["trained"]["loss"] > 1
    for way, sentences in (("greedy", 5), ("beam 4", 3)):
        assert run[way]["sentences"] == sentences
        assert 0 <= run[way]["same"] <= sentences
        assert run[way].keys() >= {"float32", "8 bits"}


def test_translations_have_no_padding_and_scores_only_with_a_beam(little):
    model, *vocabs = load_published()
    pairs = translation_pairs()[1][:3]
    tokens, scores = eight_bits.translations(model, pairs, vocabs, None)
    assert len(tokens) == len(scores) == 3
    assert not any(PAD in row for row in tokens)
    assert all(row[-1] == EOS or len(row) == 9 for row in tokens)
    assert not scores.any()
    _, scores = eight_bits.translations(model, pairs, vocabs, 4)
    assert (scores < 0).all()
    assert scores.isfinite().all()


def test_a_change_of_a_score_and_of_tokens_is_seen(little, monkeypatch):
    """In place of 8 bits: a model whose every second choice is another."""

    def spoil(model):
        with torch.no_grad():
            model.projection.weight.mul_(-1)
        return model

    monkeypatch.setattr(eight_bits, "EightBitTransformer", lambda model: spoil(load_published()[0]))
    found = eight_bits.run("published")
    assert found["greedy"]["same"] == 0
    assert found["beam 4"]["change of score"] > 0.1
    assert found["greedy"]["8 bits"]["exact"] < found["greedy"]["float32"]["exact"]


def test_the_record_has_every_model():
    assert list(RUNS) == list(eight_bits.MODELS)
    assert RUNS["base"]["parameters"] > 7 * RUNS["medium"]["parameters"] > 0


@pytest.mark.parametrize("model", eight_bits.MODELS)
def test_8_bits_say_the_same_on_99_of_100_sentences(model):
    run = RUNS[model]
    assert run["greedy"]["sentences"] == 500
    for way in eight_bits.WAYS:
        assert run[way]["same"] >= 0.99 * run[way]["sentences"]
        assert run[way]["float32"]["exact"] > 0.5, "a model that has learned its task"
