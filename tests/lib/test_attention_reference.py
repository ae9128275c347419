"""The library against torch's own functions: values and gradients, over a grid of shapes."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.masking.conversions import multihead_mask, sdpa_mask
from checks.attention import attention_by_loops
from checks.torch_weights import copy_from_torch
from lib.attention import MultiHeadAttention, attention_weights, scaled_dot_product_attention
from lib.masks import causal_mask, combine_masks, padding_mask
from tests.helpers import assert_close, gradients, normal, random_mask

GRID = list(itertools.product((1, 2, 7, 33), repeat=2))  # (query, key)
EXACT = 1e-10
# Measured on one machine, doubled: about 40, 5 and 5 times the spacing of the type around 1.
TOLERANCE = {torch.float32: 5e-6, torch.bfloat16: 4e-2, torch.float16: 5e-3}
MASKS = {
    "none": lambda b, h, q, k: None,
    "rows": lambda b, h, q, k: random_mask(q, k),
    "batch": lambda b, h, q, k: random_mask(b, q, k),
    "heads": lambda b, h, q, k: random_mask(b, h, q, k),
    "padding": lambda b, h, q, k: padding_mask(torch.arange(b) % k + 1, k),
    "padding_each_query": lambda b, h, q, k: padding_mask(
        torch.arange(b * q).reshape(b, q) % k + 1, k
    ),
    "decoder": lambda b, h, q, k: combine_masks(
        padding_mask(torch.arange(b) % k + 1, k), causal_mask(q, k) if q <= k else None
    ),
}


def inputs(batch, n_heads, n_queries, n_keys, d_k, d_v, dtype=torch.float64):
    shapes = ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v))
    return [
        normal(batch, n_heads, *shape, seed=seed, dtype=dtype).requires_grad_()
        for seed, shape in enumerate(shapes)
    ]


def both_ways(query, key, value, mask):
    """By the fused kernel, and by the weights."""
    weights = attention_weights(query, key, mask)
    return scaled_dot_product_attention(query, key, value, mask), weights @ value


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("batch", "d_k", "d_v"), [(1, 5, 5), (3, 11, 5), (3, 8, 8)])
@pytest.mark.parametrize(("n_queries", "n_keys"), GRID)
def test_attention_equals_torch(n_queries, n_keys, batch, d_k, d_v, mask, explicit):
    made = MASKS[mask](batch, 2, n_queries, n_keys)
    tensors = inputs(batch, 2, n_queries, n_keys, d_k, d_v)
    wanted = F.scaled_dot_product_attention(
        *tensors, attn_mask=None if made is None else sdpa_mask(made)
    )
    got = both_ways(*tensors, made)[explicit]
    assert_close(got, wanted, EXACT)
    for ours, theirs in zip(gradients(got, tensors), gradients(wanted, tensors), strict=True):
        assert_close(ours, theirs, EXACT)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (7, 33), (33, 7), (33, 33)])
def test_both_paths_equal_float64_in_lower_precision(n_queries, n_keys, mask, dtype):
    made = MASKS[mask](3, 2, n_queries, n_keys)
    low = inputs(3, 2, n_queries, n_keys, 8, 8, dtype)
    high = [x.detach().double().requires_grad_() for x in low]
    _, wanted = both_ways(*high, made)
    exact = gradients(wanted, high)
    for got in both_ways(*low, made):
        assert got.dtype == dtype
        assert_close(got, wanted, TOLERANCE[dtype])
        for ours, theirs in zip(gradients(got, low), exact, strict=True):
            # Gradients of keys and values sum over the queries: their rounding grows with them.
            assert_close(ours, theirs, TOLERANCE[dtype] * max(1.0, theirs.abs().max().item()))


@pytest.mark.parametrize("mask", ["none", "rows"])
@pytest.mark.parametrize(("n_queries", "n_keys", "d_k", "d_v"), [(1, 1, 2, 3), (2, 7, 5, 3)])
def test_attention_equals_the_loops(n_queries, n_keys, d_k, d_v, mask):
    made = MASKS[mask](1, 1, n_queries, n_keys)
    tensors = [x.detach()[0, 0].requires_grad_() for x in inputs(1, 1, n_queries, n_keys, d_k, d_v)]
    wanted = attention_by_loops(*tensors, made)
    got = scaled_dot_product_attention(*tensors, made)
    assert_close(got, wanted, EXACT)
    for ours, theirs in zip(gradients(got, tensors), gradients(wanted, tensors), strict=True):
        assert_close(ours, theirs, EXACT)


def paired_parameters(ours, theirs):
    """Yield our gradient and torch's for each weight, also where torch packs three in one."""
    n = theirs.embed_dim
    packed = theirs.in_proj_weight
    apart = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    for number, projection in enumerate((ours.w_q, ours.w_k, ours.w_v)):
        rows = slice(number * n, (number + 1) * n)
        yield projection.weight.grad, apart[number].grad if packed is None else packed.grad[rows]
        if projection.bias is not None:
            yield projection.bias.grad, theirs.in_proj_bias.grad[rows]
    yield ours.w_o.weight.grad, theirs.out_proj.weight.grad


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("batch", "kdim", "vdim", "bias"),
    [(1, None, None, True), (3, None, None, False), (3, 7, 13, True), (1, 5, 12, False)],
)
@pytest.mark.parametrize(("n_queries", "n_keys"), GRID)
def test_multi_head_equals_torch(n_queries, n_keys, batch, kdim, vdim, bias, mask):
    n_heads, d_model = 3, 12
    torch.manual_seed(n_queries * n_keys)
    theirs = nn.MultiheadAttention(
        d_model, n_heads, bias=bias, kdim=kdim, vdim=vdim, batch_first=True, dtype=torch.float64
    )
    if bias:  # torch starts them at zero, where a mix-up would not show
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = copy_from_torch(theirs)
    made = MASKS[mask](batch, n_heads, n_queries, n_keys)
    tensors = [
        normal(batch, n_queries, d_model).requires_grad_(),
        normal(batch, n_keys, kdim or d_model, seed=1).requires_grad_(),
        normal(batch, n_keys, vdim or d_model, seed=2).requires_grad_(),
    ]
    shape = (batch, n_heads, n_queries, n_keys)
    wanted, their_weights = theirs(
        *tensors,
        attn_mask=None if made is None else multihead_mask(made, shape),
        average_attn_weights=False,
    )
    got, weights = ours(*tensors, made), ours.attention_weights(*tensors[:2], made)
    assert_close(weights, their_weights, EXACT)
    assert_close(got, wanted, EXACT)
    direction = normal(*got.shape, seed=5)
    (got * direction).sum().backward()
    our_gradients = [x.grad for x in tensors]
    for x in tensors:
        x.grad = None
    (wanted * direction).sum().backward()
    pairs = list(zip(our_gradients, [x.grad for x in tensors], strict=True))
    for a, b in [*pairs, *paired_parameters(ours, theirs)]:
        assert_close(a, b, EXACT)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_multi_head_equals_torch_in_lower_precision(dtype):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype)
    x = normal(3, 7, 12, dtype=dtype)
    causal = causal_mask(7)
    wanted, _ = theirs(x, x, x, attn_mask=~causal)
    assert_close(copy_from_torch(theirs)(x, mask=causal), wanted, TOLERANCE[dtype])


def test_free_widths_equal_an_einsum_over_heads():
    """nn.MultiheadAttention knows no d_k, d_v or d_out of its own; a plain sum judges."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        7, 3, d_k=5, d_v=2, d_query_in=11, d_key_in=13, d_value_in=17, d_out=19
    ).double()
    x_query, x_key, x_value = normal(2, 4, 11), normal(2, 6, 13), normal(2, 6, 17)
    output = layer.w_o.bias
    for head in range(3):
        of_keys, of_values = slice(5 * head, 5 * head + 5), slice(2 * head, 2 * head + 2)
        query = x_query @ layer.w_q.weight[of_keys].T
        key = x_key @ layer.w_k.weight[of_keys].T
        value = x_value @ layer.w_v.weight[of_values].T
        weights = (torch.einsum("bqd,bkd->bqk", query, key) / 5**0.5).softmax(-1)
        mixed = torch.einsum("bqk,bkv->bqv", weights, value)
        output = output + mixed @ layer.w_o.weight[:, of_values].T
    assert_close(layer(x_query, x_key, x_value), output, EXACT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_gpu_gives_what_the_cpu_gives(dtype):
    tensors = inputs(3, 2, 33, 33, 64, 64, dtype)
    mask = random_mask(3, 33, 33)
    mask[1, 5] = False
    mask[2] = False
    wanted = scaled_dot_product_attention(*tensors, mask)
    there = [x.detach().cuda().requires_grad_() for x in tensors]
    for got in both_ways(*there, mask.cuda()):
        assert not got[1, :, 5].any()
        assert not got[2].any()
        assert_close(got.cpu(), wanted, TOLERANCE[dtype])
        direction = normal(*got.shape, dtype=dtype)
        ours = torch.autograd.grad((got * direction.cuda()).sum(), there)
        exact = torch.autograd.grad((wanted * direction).sum(), tensors, retain_graph=True)
        for a, b in zip(ours, exact, strict=True):
            assert_close(a.cpu(), b, TOLERANCE[dtype] * max(1.0, b.abs().max().item()))
