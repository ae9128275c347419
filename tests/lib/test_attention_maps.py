"""The recorded maps: one for each layer, as the layer computed them, and a model left as it was."""

import pytest
import torch

from lib.attention import MultiHeadAttention, attention_maps
from lib.transformer import Config, LanguageModel, Transformer
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
    weights = layer.attention_weights(x, mask=mask)
    assert_close(maps["encoder.layers.0.self_attention"], weights, 1e-6)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_a_step_of_decoding_has_the_last_rows_of_the_maps(positions):
    torch.manual_seed(0)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 5, "n_layers": 2}
    model = LanguageModel(Config(29, **sizes, positions=positions)).eval()
    text = torch.randint(4, 29, (2, 7))
    whole, caches = attention_maps(model, text), model.start()
    model(text[:, :5], caches)
    for name, weights in attention_maps(model, text[:, 5:], caches).items():
        assert_close(weights, whole[name][:, :, 5:], 1e-6)


def test_cross_attention_in_a_step_has_the_last_row_of_its_map(case):
    model, source, target = case
    whole = attention_maps(model, source, LENGTHS, target)
    memory, mask = model.encode(source, LENGTHS)
    caches, layer = model.decoder.new_caches(), model.decoder.layers[0]
    x = model.decoder.positions.add(model.target_embedding(target))
    for t in range(5):
        maps = attention_maps(layer, x[:, t : t + 1], memory, memory_mask=mask, cache=caches[0])
    name = "cross_attention"
    assert_close(maps[name], whole[f"decoder.layers.0.{name}"][:, :, 4:], 1e-6)


def test_the_model_is_left_as_it_was(case):
    model, source, target = case
    before = model(source, LENGTHS, target)
    attention_maps(model, source, LENGTHS, target)
    assert torch.equal(model(source, LENGTHS, target), before)
    with pytest.raises(ValueError, match="from 0 to 28"):
        attention_maps(model, source + 29, LENGTHS, target)
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in layers)
