"""The recorded maps: one for each layer, as the layer computed them, and a model left as it was."""

import pytest
import torch

from lib.attention import MultiHeadAttention, attention_maps
from lib.transformer import Config, Transformer
from tests.helpers import assert_close

LENGTHS = torch.tensor([7, 3])


@pytest.fixture
def case():
    torch.manual_seed(0)
    config = Config(29, d_model=12, n_heads=3, d_ff=5, n_layers=2, positions="alibi")
    return Transformer(config).eval(), torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (2, 5))


def test_every_map_has_its_name_and_shape(case):
    model, source, target = case
    maps = attention_maps(model, source, LENGTHS, target)
    shapes = {name: tuple(weights.shape) for name, weights in maps.items()}
    wanted = {}
    for n in range(2):
        wanted[f"encoder.layers.{n}.self_attention"] = (2, 3, 7, 7)
    for n in range(2):
        wanted[f"decoder.layers.{n}.self_attention"] = (2, 3, 5, 5)
        wanted[f"decoder.layers.{n}.cross_attention"] = (2, 3, 5, 7)
    assert shapes == wanted


def test_rows_sum_to_one_and_respect_the_masks(case):
    model, source, target = case
    for name, weights in attention_maps(model, source, LENGTHS, target).items():
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]), 1e-6)
        if "decoder" in name and "self" in name:
            assert not weights.triu(1).any()
        else:
            assert not weights[1, ..., 3:].any()
            assert weights[1, ..., :3].all()


def test_a_map_is_what_its_layer_computes(case):
    model, source, target = case
    maps = attention_maps(model, source, LENGTHS, target)
    encoder = model.encoder
    layer = encoder.layers[0].self_attention.sublayer
    mask = model.encode(source, LENGTHS)[1]
    x = model.source_embedding(source)
    _, weights = layer(x, mask=mask, return_weights=True)
    assert_close(maps["encoder.layers.0.self_attention"], weights, 1e-6)


def test_the_model_is_left_as_it_was(case):
    model, source, target = case
    before = model(source, LENGTHS, target)
    attention_maps(model, source, LENGTHS, target)
    assert torch.equal(model(source, LENGTHS, target), before)
    with pytest.raises(ValueError, match="from 0 to 28"):
        attention_maps(model, source + 29, LENGTHS, target)
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in layers)
