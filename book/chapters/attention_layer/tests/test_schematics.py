"""The shapes that the schematics show are those of the layer."""

import torch

from chapters.attention_layer.schematics import (
    KEYS,
    OTHER_QUERY,
    OUTPUT,
    QUERY,
    VALUES,
    WORDS,
    one_query,
    projection,
    q_k_v,
)
from lib.attention import attention_weights, scaled_dot_product_attention
from tasks.bat import FEATURES, LOOKS_FOR, matrices, vectors_of
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


def test_the_example_is_that_of_the_chapters_to_come():
    x, (_, w_k, w_v) = vectors_of(" ".join(WORDS)), matrices()
    asked = [LOOKS_FOR.index(name) for name in ("clue", "living")]
    said = [FEATURES.index(name) for name in ("animal", "equipment")]
    assert (x @ w_k)[:, asked].tolist() == [list(key) for key in KEYS]
    assert (x @ w_v)[:, said].tolist() == [list(value) for value in VALUES]
    weights = (torch.tensor([QUERY]).double() @ (x @ w_k)[:, asked].T).softmax(-1)
    output = (weights @ (x @ w_v)[:, said])[0]
    assert tuple(f"{entry + 0.0:.2f}" for entry in output.abs()) == OUTPUT


def test_projections_are_those_of_the_other_query():
    query, keys = torch.tensor(OTHER_QUERY).double(), torch.tensor(KEYS).double()
    assert (keys @ query).tolist() == [1, -1, 2]  # as the schematic says
    feet = torch.tensor([projection(*key) for key in KEYS], dtype=torch.float64)
    along = feet @ query / query.norm()
    assert [round(length, 2) for length in along.tolist()] == [0.45, -0.45, 0.89]
    torch.testing.assert_close(along * query.norm(), keys @ query)
    torch.testing.assert_close((keys - feet) @ query, torch.zeros(3).double())
