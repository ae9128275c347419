"""The running example: what its numbers are made to say."""

import pytest
import torch

from lib.attention import scaled_dot_product_attention
from tasks.bat import FEATURES, LOOKS_FOR, SENTENCE, W_K, W_Q, W_V, WORDS, matrices, vectors_of


def read(sentence):
    """The new vector of each word, as features by name."""
    x = vectors_of(sentence)
    outputs = scaled_dot_product_attention(*(x @ w for w in matrices()))
    words = sentence.split()
    return {
        word: dict(zip(FEATURES, row, strict=True))
        for word, row in zip(words, outputs.tolist(), strict=True)
    }


def test_shapes_follow_the_names():
    assert vectors_of().shape == (len(SENTENCE), len(FEATURES))
    assert [tuple(w.shape) for w in matrices()] == [
        (len(FEATURES), len(LOOKS_FOR)),
        (len(FEATURES), len(LOOKS_FOR)),
        (len(FEATURES), len(FEATURES)),
    ]
    assert vectors_of(" ".join(SENTENCE)).tolist() == [list(WORDS[word]) for word in SENTENCE]
    for made, written in zip(matrices(), (W_Q, W_K, W_V), strict=True):
        assert made.tolist() == [list(row) for row in written]


def test_bat_is_both_alone_and_an_animal_beside_cave():
    alone = read("bat")["bat"]
    assert alone["animal"] == alone["equipment"] == 1
    in_cave = read("bat bites man in cave")["bat"]
    assert in_cave["animal"] == pytest.approx(1, abs=0.03)
    assert in_cave["equipment"] == pytest.approx(0, abs=0.03)


def test_bat_beside_ball_is_more_equipment_than_animal():
    bat = read("bat hits ball")["bat"]
    assert bat["equipment"] == pytest.approx(2 * bat["animal"])


def test_bites_blends_bat_and_man_whoever_bites():
    blends = [read(s)["bites"] for s in ("bat bites man in cave", "man bites bat in cave")]
    assert blends[0] == pytest.approx(blends[1])
    for feature in ("animal", "equipment", "person"):
        assert blends[0][feature] == pytest.approx(0.5, abs=0.03)


def test_in_asks_for_nothing_and_gets_the_plain_mean():
    x = vectors_of()
    w_q, _, w_v = matrices()
    assert not (x @ w_q)[SENTENCE.index("in")].any()
    got = torch.tensor(list(read(" ".join(SENTENCE))["in"].values()), dtype=torch.float64)
    assert torch.allclose(got, (x @ w_v).mean(0))


def test_unknown_word_is_named():
    with pytest.raises(ValueError, match="got \\['gorilla'\\]"):
        vectors_of("gorilla bites man")
