"""torch's weights under our names: none is missing, mixed up or, where a copy is made, shared."""

import pytest
import torch
from torch import nn

from checks.torch_weights import copy_from_torch, named_as_ours, torch_masks
from lib.masks import causal_mask, padding_mask
from lib.transformer import Config, Transformer
from tests.helpers import assert_close, normal, unchecked


def random_attention(dtype=torch.float64, **options):
    """torch starts biases at 0, where a mix-up would not show."""
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype, **options)
    with torch.no_grad():
        for number, parameter in enumerate(theirs.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=number))
    return theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 7, "vdim": 5}], ids=["packed", "apart"])
def test_a_copied_layer_has_torchs_sizes_and_gives_its_output(widths, bias):
    theirs = random_attention(bias=bias, dropout=0.25, **widths).eval()
    ours = copy_from_torch(theirs).eval()
    assert (ours.n_heads, ours.dropout) == (3, 0.25)
    assert (ours.w_q.bias is not None) == (ours.w_o.bias is not None) == bias
    numbers = [sum(p.numel() for p in layer.parameters()) for layer in (ours, theirs)]
    assert numbers[0] == numbers[1]
    inputs = normal(2, 4, 12), normal(2, 6, theirs.kdim), normal(2, 6, theirs.vdim, seed=1)
    assert_close(ours(*inputs), theirs(*inputs)[0], 1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_copied_layer_has_torchs_type_and_weights_of_its_own(dtype):
    theirs = random_attention(dtype)
    ours = copy_from_torch(theirs)
    assert {p.dtype for p in ours.parameters()} == {dtype}
    assert all(p.requires_grad for p in ours.parameters())
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], value) for name, value in theirs.state_dict().items())


def test_copy_refuses_what_the_paper_does_not_have():
    with unchecked():
        for extra in ({"add_bias_kv": True}, {"add_zero_attn": True}):
            with pytest.raises(ValueError, match="no bias_kv and no zero attention"):
                copy_from_torch(nn.MultiheadAttention(6, 2, **extra))


def small_transformer(final_norm):
    theirs = nn.Transformer(12, 4, 2, 1, 20, dropout=0.0, batch_first=True, dtype=torch.float64)
    if not final_norm:
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_tensor_comes_once_under_the_name_and_with_the_shape_of_ours(norm):
    """Pre-norm has a norm after each stack; the paper's post-norm has none."""
    theirs = small_transformer(final_norm=norm == "pre")
    found = named_as_ours(theirs)
    config = Config(29, 23, d_model=12, n_heads=4, d_ff=20, n_layers=1, norm=norm)
    shapes = {name: tuple(value.shape) for name, value in Transformer(config).named_parameters()}
    first = {name: value for name, value in found.items() if "encoder.layers.1." not in name}
    assert len(found) == len(first) + 16  # two sub-layers, their norms, and 4 + 2 linear maps
    assert {name: tuple(value.shape) for name, value in first.items()} == {
        name: shape for name, shape in shapes.items() if name.startswith(("encoder.", "decoder."))
    }
    assert sum(x.numel() for x in found.values()) == sum(p.numel() for p in theirs.parameters())


def test_tensors_are_views_each_of_another_part():
    """Number every entry of torch's model: no number may be lost or come twice."""
    theirs = small_transformer(final_norm=True)
    found, start = named_as_ours(theirs), 0
    with torch.no_grad():
        for parameter in theirs.parameters():
            numbers = torch.arange(start, start + parameter.numel(), dtype=parameter.dtype)
            parameter.copy_(numbers.view_as(parameter))
            start += parameter.numel()
    seen = torch.cat([tensor.detach().flatten() for tensor in found.values()])
    assert seen.sort().values.tolist() == list(range(start))
    rows = theirs.decoder.layers[0].multihead_attn.in_proj_weight
    for number, letter in enumerate("qkv"):
        own = found[f"decoder.layers.0.cross_attention.sublayer.w_{letter}.weight"]
        assert torch.equal(own, rows[12 * number : 12 * number + 12])


def test_read_takes_the_gradients():
    theirs = small_transformer(final_norm=True)
    for number, parameter in enumerate(theirs.parameters()):
        parameter.grad = torch.full_like(parameter, number)
    found = named_as_ours(theirs, lambda parameter: parameter.grad)
    norm = theirs.encoder.layers[1].norm2
    assert torch.equal(found["encoder.layers.1.feed_forward.norm.gain"], norm.weight.grad)
    assert found["encoder.layers.1.feed_forward.norm.gain"].unique().numel() == 1


def test_torch_masks_are_the_opposite_of_ours():
    mask = padding_mask(torch.tensor([7, 3, 1, 5]), 7)
    theirs = torch_masks(mask, 11)
    assert torch.equal(theirs["tgt_mask"], ~causal_mask(11))
    assert torch.equal(theirs["src_key_padding_mask"], ~mask[:, 0])
    assert theirs["memory_key_padding_mask"] is theirs["src_key_padding_mask"]


def test_with_our_masks_torch_reads_neither_padding_nor_the_future():
    theirs = small_transformer(final_norm=True)
    source, target = normal(2, 5, 12), normal(2, 4, 12)
    masks = torch_masks(padding_mask(torch.tensor([5, 2]), 5), 4)
    other_source, other_target = source.clone(), target.clone()
    other_source[1, 2:] += 1.0
    other_target[:, 3] += normal(2, 12)
    before = theirs(source, target, **masks)
    assert_close(theirs(other_source, other_target, **masks)[:, :3], before[:, :3], 1e-10)
    other_source[1, 1] += normal(12)
    assert (theirs(other_source, target, **masks)[1] - before[1]).abs().max() > 1e-3
