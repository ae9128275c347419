"""The shapes and numbers that the schematics show are those of the layer."""

import math
import re

import torch

from chapters.self_attention.schematics import (
    SHOWN,
    bat_here,
    every_word_asks,
    example,
    one_layer,
)
from lib.attention import attention_weights, scaled_dot_product_attention
from tasks.bat import FEATURES, matrices, vectors_of
from tests.helpers import assert_shapes, normal

SIZES = {"time": 5, "d_x": 7, "d_k": 3, "d_v": 11}


def numbers(schematic) -> list[str]:
    """What stands in the cells, in the order in which they were drawn."""
    return re.findall(r">(−?\d(?:\.\d\d)?)<", schematic.svg())


def test_the_numbers_of_the_example_are_those_of_the_library():
    x, projections = vectors_of(), matrices()
    outputs = scaled_dot_product_attention(*(x @ w for w in projections))
    shown = [FEATURES.index(name) for name in SHOWN]
    torch.testing.assert_close(example()["output"], outputs[:, shown].tolist())


def test_bat_here_shows_the_old_and_the_new_vector_of_bat():
    found = numbers(bat_here())
    assert found.count("0.97") == found.count("0.00") == 1
    assert found.count("1") == 2
    assert found.count("0.49") == 2


def test_every_word_asks_shows_each_number_of_the_example():
    found = numbers(every_word_asks())
    made = example()
    whole = [f"{n:g}" for name in ("query", "key", "value") for row in made[name] for n in row]
    parts = [f"{n:.2f}" for name in ("weights", "output") for row in made[name] for n in row]
    wanted = [text.replace("-0.00", "0.00").replace("-", "−") for text in whole + parts]
    assert sorted(found) == sorted(wanted)


def test_layer_shows_the_shapes_of_the_layer():
    x, w_q, w_k, w_v = normal(5, 7), normal(7, 3), normal(7, 3), normal(7, 11)
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = attention_weights(q, k)
    output = weights @ v
    scores = q @ k.T / math.sqrt(3)
    torch.testing.assert_close(scores.softmax(-1), weights)
    tensors = {"X": x, "Q": q, "K": k, "V": v, "W^Q": w_q, "W^K": w_k, "W^V": w_v}
    made = {"scores": scores, "weights": weights, "output": output}
    assert_shapes(one_layer(), tensors | made, SIZES)
