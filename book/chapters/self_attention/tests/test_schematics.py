"""The shapes and numbers that the schematics show are those of the layer."""

import math

import torch

from chapters.self_attention.schematics import KEYS, OUTPUTS, QUERIES, VALUES, WEIGHTS, one_layer
from lib.attention import attention_weights
from tests.helpers import assert_shapes, normal

SIZES = {"time": 3, "d_x": 5, "d_k": 7, "d_v": 11}


def test_every_word_asks_shows_the_numbers_of_the_layer():
    query, key = torch.tensor(QUERIES), torch.tensor(KEYS).float()
    value = torch.tensor(VALUES).float()[:, None]
    weights = attention_weights(query, key)
    output = weights @ value
    torch.testing.assert_close(weights, torch.tensor(WEIGHTS), atol=5e-3, rtol=0)
    torch.testing.assert_close(output[:, 0], torch.tensor(OUTPUTS), atol=5e-3, rtol=0)


def test_layer_shows_the_shapes_of_the_layer():
    x, w_q, w_k, w_v = normal(3, 5), normal(5, 7), normal(5, 7), normal(5, 11)
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = attention_weights(q, k)
    output = weights @ v
    scores = q @ k.T / math.sqrt(7)
    torch.testing.assert_close(scores.softmax(-1), weights)
    tensors = {"X": x, "Q": q, "K": k, "V": v, "W^Q": w_q, "W^K": w_k, "W^V": w_v}
    made = {"scores": scores, "weights": weights, "output": output}
    assert_shapes(one_layer(), tensors | made, SIZES)
