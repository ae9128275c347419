"""Names of BERT's and GPT-2's parameters: each of the book's once, and c_attn cut in three."""

from dataclasses import replace

import pytest
import torch

from chapters.families.pretrained import BertEncoder, bert_names, gpt2_shapes, gpt2_state
from lib.transformer import Config, LanguageModel
from tests.helpers import normal

CONFIG = Config(11, d_model=6, n_heads=2, d_ff=7, n_layers=3, max_length=5, positions="learned",
                norm="pre")  # fmt: skip


def test_bert_names_cover_each_parameter_once():
    for head in (False, True):
        for tied in (False, True):
            names = bert_names(3, head, tied=tied)
            ours = set(BertEncoder(CONFIG, head=head).state_dict())
            assert set(names) == ours - ({"projection.weight"} if tied else set())
            assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("tied", [True, False])
def test_gpt2_state_fills_a_language_model(tied):
    model = LanguageModel(replace(CONFIG, tied=tied))
    shapes = gpt2_shapes(model)
    weights = {name: normal(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    state, ours = gpt2_state(weights, 3, tied=tied), model.state_dict()
    assert set(state) == set(ours) - ({"projection.weight"} if tied else set())
    assert all(state[name].shape == ours[name].shape for name in state)
    counted = sum(tensor.numel() for tensor in weights.values())
    assert counted == sum(p.numel() for p in model.parameters())


def test_c_attn_is_queries_keys_values_of_x():
    weights = {name: normal(*shape) for name, shape in gpt2_shapes(LanguageModel(CONFIG)).items()}
    state, x = gpt2_state(weights, 3), normal(4, 6)
    fused = x @ weights["h.1.attn.c_attn.weight"] + weights["h.1.attn.c_attn.bias"]
    for i, letter in enumerate("qkv"):
        name = f"decoder.layers.1.self_attention.sublayer.w_{letter}"
        own = x @ state[f"{name}.weight"].T + state[f"{name}.bias"]
        assert torch.allclose(own, fused[:, 6 * i : 6 * (i + 1)])
