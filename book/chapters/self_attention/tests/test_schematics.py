"""The shapes and numbers that the schematics show are those of the layer."""

import math
import re

import torch

from chapters.self_attention.schematics import (
    SHOWN,
    bat_here,
    every_word_asks,
    example,
    from_word_to_answer,
    one_layer,
    way_of_bat,
)
from engine.text import FOLDER
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


def shown(*lists: list[float], digits: str = "g") -> list[str]:
    """Numbers as the schematics write them."""
    texts = [f"{number:{digits}}" for numbers in lists for number in numbers]
    return [text.replace("-0.00", "0.00").replace("-", "−") for text in texts]


def test_bat_here_shows_what_the_words_offer_and_the_new_vector_of_bat():
    made = example()
    output, weights = made["output"][0], made["weights"][0]
    parts = [*output, *(weight for weight in weights if weight > 0.4)]
    wanted = shown(*made["value"]) + shown(parts, digits=".2f")
    assert sorted(numbers(bat_here())) == sorted(wanted)
    assert wanted.count("−1") == 1  # what cave says of equipment


def test_way_of_bat_shows_each_number_from_its_vector_to_its_new_one():
    x, (w_q, w_k, w_v) = vectors_of(), matrices()
    query, key, value = x[0] @ w_q, x @ w_k, (x @ w_v)[:, [FEATURES.index(name) for name in SHOWN]]
    products = key @ query
    weights = attention_weights(query[None], key)[0]
    parts = weights[:, None] * value
    whole = [x[0], query, key.flatten(), products, products / 2, value.flatten()]
    wanted = shown(*(tensor.tolist() for tensor in whole))
    wanted += shown(*(t.tolist() for t in (weights, parts.flatten(), parts.sum(0))), digits=".2f")
    assert sorted(numbers(way_of_bat())) == sorted(wanted)


def test_every_word_asks_shows_each_number_of_the_example():
    found = numbers(every_word_asks())
    made = example()
    wanted = shown(*(row for name in ("query", "key", "value") for row in made[name]))
    wanted += shown(*(row for name in ("weights", "output") for row in made[name]), digits=".2f")
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


def test_the_answers_drawn_are_two_of_the_laboratory_and_its_doubt():
    texts = re.findall(r">([^<>]+)</text>", from_word_to_answer().svg())
    task = (FOLDER / "words.js").read_text(encoding="utf-8")
    [meanings] = re.findall(r"bat: \[\[\"(\w+)\".*\[\"(\w+)\"", task)
    assert {*meanings, "?"} <= {*texts}
    assert texts.index(meanings[0]) < texts.index(meanings[1]) < texts.index("?")
