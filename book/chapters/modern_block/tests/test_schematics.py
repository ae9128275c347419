"""The shapes and numbers that the schematics show are those of the layers."""

import torch

from chapters.modern_block.decoder import ModernDecoder, paper_2017, today
from chapters.modern_block.experts import MixtureOfExperts
from chapters.modern_block.schematics import (
    HEADS,
    SCORES,
    WEIGHTS,
    gate,
    router,
    shared_heads,
    two_blocks,
)
from lib.attention import MultiHeadAttention
from lib.layers import FeedForward
from tests.helpers import assert_shapes, normal


def test_two_blocks_keep_the_shape_of_the_residual_stream():
    sizes = {"time": 3, "d_{model}": 10}
    x = normal(1, 3, 10).float()
    for make in (paper_2017, today):
        config = make(7, d_model=10, n_heads=5, d_ff=11, n_layers=1)
        output = ModernDecoder(config).decoder.layers[0](x)
        assert_shapes(two_blocks(), {"x": x[0], "output": output[0]}, sizes)


def test_gate_shows_the_shapes_of_swiglu():
    layer = FeedForward(5, 7, "swiglu", bias=False).double()
    x = normal(5)
    weights = {f"W_{i}": getattr(layer, f"w_{i}").weight.T for i in (1, 2, 3)}
    inner = torch.nn.functional.silu(x @ weights["W_1"]) * (x @ weights["W_3"])
    torch.testing.assert_close(inner @ weights["W_2"], layer(x))
    assert_shapes(gate(), {"x": x, "output": layer(x)} | weights, {"d_{model}": 5, "d_{ff}": 7})


def test_shared_heads_are_those_of_the_layer():
    names = [part.name for part in shared_heads().parts]
    for n_kv_heads in (4, 2, 1):
        layer = MultiHeadAttention(4 * HEADS, HEADS, n_kv_heads=n_kv_heads)
        assert layer.w_k.out_features == 4 * n_kv_heads
    assert sum(name.startswith("q_") for name in names) == 3 * HEADS
    assert sum(name.startswith("k_") for name in names) == 4 + 2 + 1


def test_router_shows_the_choice_of_the_layer():
    layer = MixtureOfExperts(4, 5, n_experts=4)
    with torch.no_grad():
        layer.router.weight.copy_(torch.eye(4))
    x = torch.tensor(SCORES).float()  # with this router each entry is a score
    chosen, weights = layer.route(x)
    assert chosen.tolist() == list(WEIGHTS)
    assert [round(w, 2) for w in weights.tolist()] == list(WEIGHTS.values())
    assert_shapes(router(), {"x": x, "output": layer(x)}, {"d_{model}": 4})
