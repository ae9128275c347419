"""The shapes that the schematics show are those of the layer."""

import torch

from chapters.attention_layer.schematics import KEYS, QUERY, one_query, projection, q_k_v
from lib.attention import attention_weights, scaled_dot_product_attention
from tests.helpers import assert_shapes, normal

SIZES = {"query": 2, "key": 3, "d_k": 5, "d_v": 7, "d_q": 11, "d_x": 13}


def test_one_query_shows_the_shapes_of_the_layer():
    sizes = {name: SIZES[name] for name in ("d_k", "d_v")}
    q, k, v = normal(5), normal(3, 5), normal(3, 7)
    o = scaled_dot_product_attention(q[None], k, v)[0]
    keys = {f"k_{i}": one for i, one in enumerate(k, start=1)}
    values = {f"v_{i}": one for i, one in enumerate(v, start=1)}
    assert_shapes(one_query(), {"q": q, "output": o} | keys | values, sizes)


def test_q_k_v_shows_the_shapes_of_the_layer():
    y, x = normal(2, 11), normal(3, 13)
    w_q, w_k, w_v = normal(11, 5), normal(13, 5), normal(13, 7)
    q, k, v = y @ w_q, x @ w_k, x @ w_v
    o, weights = scaled_dot_product_attention(q, k, v), attention_weights(q, k)
    scores = q @ k.T
    torch.testing.assert_close((scores / 5**0.5).softmax(-1), weights)
    tensors = {"X_Q": y, "X": x, "Q": q, "K": k, "V": v, "W^Q": w_q, "W^K": w_k, "W^V": w_v}
    made = {"scores": scores, "weights": weights, "output": o}
    assert_shapes(q_k_v(), tensors | made, SIZES)


def test_projections_are_those_of_the_example():
    query, keys = torch.tensor(QUERY).double(), torch.tensor(KEYS).double()
    assert (keys @ query).tolist() == [2, 0, 3]  # as the schematic says
    feet = torch.tensor([projection(*key) for key in KEYS], dtype=torch.float64)
    torch.testing.assert_close(feet.norm(dim=1) * query.norm(), keys @ query)
    assert [round(length, 2) for length in feet.norm(dim=1).tolist()] == [0.89, 0, 1.34]
    torch.testing.assert_close((keys - feet) @ query, torch.zeros(3).double())
