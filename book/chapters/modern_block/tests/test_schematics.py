"""The shapes and numbers that the schematics show are those of the layers."""

import torch

from chapters.modern_block.decoder import ModernDecoder, paper_2017, today
from chapters.modern_block.experts import MixtureOfExperts
from chapters.modern_block.schematics import (
    HEADS,
    LAYERS,
    SCORES,
    WEIGHTS,
    WINDOW,
    WORDS,
    changed_block,
    gate,
    router,
    shared_heads,
    window_reach,
)
from lib.attention import MultiHeadAttention
from lib.layers import FeedForward
from lib.masks import causal_mask
from tests.helpers import assert_shapes, normal


def test_the_block_keeps_the_shape_of_the_residual_stream():
    sizes = {"time": 3, "d_{model}": 10}
    x = normal(1, 3, 10).float()
    for make in (paper_2017, today):
        config = make(7, d_model=10, n_heads=5, d_ff=11, n_layers=1)
        output = ModernDecoder(config).decoder.layers[0](x)
        assert_shapes(changed_block(), {"x": x[0], "output": output[0]}, sizes)


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


def test_the_reach_of_the_window_is_that_of_a_model():
    """A part is lit if a gradient flows from the last word of the last layer to it."""
    sizes = {"d_model": 12, "n_layers": LAYERS, "n_heads": 3, "d_ff": 17, "window": WINDOW}
    torch.manual_seed(0)
    model, time = ModernDecoder(today(29, **sizes)).double(), len(WORDS)
    rows = [model.embedding(torch.randint(29, (1, time)))]
    for layer in model.decoder.layers:
        rows.append(layer(rows[-1], mask=causal_mask(time, window=WINDOW)))
    gradients = torch.autograd.grad(rows[-1][0, -1].square().sum(), rows)
    lit = {
        f"lit {depth} {i}"
        for depth, gradient in enumerate(gradients)
        for i in gradient[0].abs().sum(-1).nonzero()[:, 0].tolist()
    }
    parts = [part.name for part in window_reach().parts]
    assert len(parts) == (LAYERS + 1) * time
    assert {name for name in parts if name.startswith("lit")} == lit


def test_router_shows_the_choice_of_the_layer():
    layer = MixtureOfExperts(4, 5, n_experts=4)
    with torch.no_grad():
        layer.router.weight.copy_(torch.eye(4))
    x = torch.tensor(SCORES).float()  # with this router each entry is a score
    chosen, weights = layer.route(x)
    assert chosen.tolist() == list(WEIGHTS)
    assert [round(w, 2) for w in weights.tolist()] == list(WEIGHTS.values())
    assert_shapes(router(), {"x": x, "output": layer(x)}, {"d_{model}": 4})
