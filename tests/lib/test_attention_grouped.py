"""Grouped-query attention: as if each head of keys and values stood there for each query head."""

from unittest import mock

import pytest
import torch

from lib.attention import KeyValueCache, MultiHeadAttention
from lib.masks import causal_mask
from lib.positions import ALiBi, Rotary
from tests.helpers import assert_close, gradients, normal, random_mask, unchecked

GROUPS = pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
MASKS = {
    "none": None,
    "causal": causal_mask(7),
    "of each sequence": random_mask(3, 7, 7),
    "of the keys": random_mask(3, 1, 7),
    "of each head": random_mask(3, 6, 7, 7),
}


def layer_and_repeated(n_kv_heads, **options):
    """A grouped layer, and one with all heads whose keys and values are the group's, repeated."""
    options = {"d_k": 4, "d_v": 5, **options}
    torch.manual_seed(0)
    layer = MultiHeadAttention(11, 6, n_kv_heads=n_kv_heads, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    full = MultiHeadAttention(11, 6, **options).double()
    state = layer.state_dict()
    for name in ("w_k.weight", "w_k.bias", "w_v.weight", "w_v.bias"):
        heads = state[name].unflatten(0, (n_kv_heads, -1))
        state[name] = heads.repeat_interleave(6 // n_kv_heads, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    return layer, full


@GROUPS
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("positions", [None, Rotary(4), ALiBi(6)], ids=["none", "rotary", "alibi"])
def test_equals_repeated_heads_with_weights_and_gradients(n_kv_heads, mask, positions):
    layer, full = layer_and_repeated(n_kv_heads, positions=positions)
    x = normal(3, 7, 11).requires_grad_()
    output = layer(x, mask=MASKS[mask])
    wanted = full(x, mask=MASKS[mask])
    assert_close(output, wanted, 1e-12)
    weights = full.attention_weights(x, mask=MASKS[mask])
    assert_close(layer.attention_weights(x, mask=MASKS[mask]), weights, 1e-12)

    got = gradients(output, [x, *layer.parameters()])
    true = gradients(wanted, [x, *full.parameters()])
    for (name, _), one, other in zip([("x", x), *layer.named_parameters()], got, true, strict=True):
        if name.startswith(("w_k", "w_v")):  # what is used several times adds up its gradients
            heads = other.unflatten(0, (n_kv_heads, 6 // n_kv_heads, -1))
            other = heads.sum(dim=1).flatten(0, 1)
        assert_close(one, other, 1e-10)


@GROUPS
def test_by_a_loop_over_heads(n_kv_heads):
    layer, _ = layer_and_repeated(n_kv_heads)
    x = normal(3, 7, 11)
    query, key, value = (
        w(x).split(d, dim=-1) for w, d in ((layer.w_q, 4), (layer.w_k, 4), (layer.w_v, 5))
    )
    assert (len(query), len(key), len(value)) == (6, n_kv_heads, n_kv_heads)
    heads = []
    for h in range(6):
        shared = h // (6 // n_kv_heads)  # heads 0, 1, ... of a group stand one after another
        scores = query[h] @ key[shared].mT / 2
        heads.append(scores.softmax(-1) @ value[shared])
    assert_close(layer(x), layer.w_o(torch.cat(heads, dim=-1)), 1e-12)


@GROUPS
@pytest.mark.parametrize("positions", [None, Rotary(4), ALiBi(6)], ids=["none", "rotary", "alibi"])
def test_the_cache_holds_the_group_s_heads_alone_and_gives_the_same(n_kv_heads, positions):
    layer, _ = layer_and_repeated(n_kv_heads, positions=positions)
    x, cache = normal(3, 7, 11), KeyValueCache()
    wanted = layer(x, mask=causal_mask(7))
    got = [layer(x[:, :3], mask=causal_mask(3), cache=cache)]
    got += [layer(x[:, t : t + 1], cache=cache) for t in range(3, 7)]
    assert_close(torch.cat(got, dim=1), wanted, 1e-12)
    key, value = cache.read()
    assert (key.shape, value.shape) == ((3, n_kv_heads, 7, 4), (3, n_kv_heads, 7, 5))


@GROUPS
def test_cross_attention_and_its_cache(n_kv_heads):
    layer, full = layer_and_repeated(n_kv_heads)
    x, memory, mask = normal(3, 7, 11), normal(3, 13, 11), random_mask(3, 1, 13)
    assert_close(layer(x, memory, mask=mask), full(x, memory, mask=mask), 1e-12)
    cache = KeyValueCache(grows=False)
    for _ in range(2):
        assert_close(layer(x, memory, cache=cache), full(x, memory), 1e-12)


@pytest.mark.parametrize("mask", [None, causal_mask(7)])
def test_groups_refuse_other_batch_axes_too(mask):
    layer, _ = layer_and_repeated(2)
    with unchecked(), pytest.raises(ValueError, match="the same batch axes in all three"):
        layer(normal(3, 7, 11), normal(1, 7, 11), mask=mask)


def test_no_key_is_copied_for_its_group():
    layer, _ = layer_and_repeated(2)
    x = normal(3, 7, 11)
    with mock.patch.object(torch.Tensor, "repeat_interleave", side_effect=AssertionError):
        for mask in (None, causal_mask(7)):
            layer(x, mask=mask)


def test_with_all_heads_it_is_the_layer_without_groups_bit_for_bit():
    def made(**options):
        torch.manual_seed(0)
        return MultiHeadAttention(12, 6, **options)

    plain, grouped = made(), made(n_kv_heads=6)
    before, after = plain.state_dict(), grouped.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    x = normal(3, 7, 12, dtype=torch.float32).requires_grad_()
    for mask in (None, causal_mask(7)):
        one, other = plain(x, mask=mask), grouped(x, mask=mask)
        assert torch.equal(one, other)
        pairs = zip(
            gradients(one, [x, *plain.parameters()]),
            gradients(other, [x, *grouped.parameters()]),
            strict=True,
        )
        assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("n_kv_heads", "count"), [(6, 4), (3, 3), (1, 2 + 1 / 3)])
def test_keys_and_values_need_fewer_parameters(n_kv_heads, count):
    layer = MultiHeadAttention(12, 6, n_kv_heads=n_kv_heads, bias=False)
    assert sum(p.numel() for p in layer.parameters()) == round(count * 12 * 12)


@pytest.mark.parametrize("n_kv_heads", [0, -1, 4, 5, 7, 12])
def test_heads_that_are_no_groups_are_refused(n_kv_heads):
    with pytest.raises(ValueError, match=f"divide n_heads, got n_kv_heads={n_kv_heads} and n_hea"):
        MultiHeadAttention(12, 6, n_kv_heads=n_kv_heads)
