"""Properties that attention has for every input, searched for a counterexample by hypothesis."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from checks.attention import check_weights
from lib.attention import MultiHeadAttention, attention_weights, scaled_dot_product_attention
from lib.masks import causal_mask, combine_masks, padding_mask, window_mask
from measure.observed import influence
from tests.helpers import assert_close, normal, random_mask, unchecked

small = st.integers(1, 9)
seeds = st.integers(0, 2**20)
dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64])
paths = st.booleans()  # whether the weights are asked for: explicit or fused


def attend(query, key, value, mask=None, *, explicit):
    if explicit:
        return attention_weights(query, key, mask) @ value
    return scaled_dot_product_attention(query, key, value, mask)


def layer(training=False, **sizes):
    torch.manual_seed(0)
    made = MultiHeadAttention(6, 3, **sizes)
    for projection in (made.w_q, made.w_k, made.w_v, made.w_o):
        torch.nn.init.normal_(projection.bias)  # zero at the start, where a mistake would hide
    return made.train(training)


def run(module, *inputs, mask):
    torch.manual_seed(1)  # the same dropout at each call
    return module(*inputs, mask=mask)


@given(small, small, small, st.integers(1, 3), seeds, dtypes, st.floats(0.1, 30.0))
def test_rows_sum_to_one_and_are_zero_where_masked(q, k, d, batch, seed, dtype, size):
    query = normal(batch, q, d, seed=seed, dtype=dtype) * size
    key = normal(batch, k, d, seed=seed + 1, dtype=dtype)
    mask = torch.rand(batch, q, k, generator=torch.Generator().manual_seed(seed)) < 0.5
    check_weights(attention_weights(query, key, mask), mask)
    check_weights(attention_weights(query, key))


@given(small, small, seeds, dtypes, paths)
def test_output_stays_between_the_smallest_and_the_largest_value(q, k, seed, dtype, explicit):
    query, key = normal(q, 3, seed=seed, dtype=dtype), normal(k, 3, seed=seed + 1, dtype=dtype)
    value = normal(k, 5, seed=seed + 2, dtype=dtype)
    output = attend(query, key, value, explicit=explicit)
    slack = 4 * torch.finfo(dtype).eps * value.abs().max()
    assert (output <= value.amax(0) + slack).all()
    assert (output >= value.amin(0) - slack).all()


@given(small, st.integers(2, 40), seeds, dtypes, paths, st.floats(-30.0, 30.0))
def test_a_masked_key_or_value_changes_nothing(q, k, seed, dtype, explicit, other):
    query, key = normal(q, 4, seed=seed, dtype=dtype), normal(k, 4, seed=seed + 1, dtype=dtype)
    value = normal(k, 4, seed=seed + 2, dtype=dtype)
    mask = random_mask(q, k, seed=seed)
    hidden = seed % k
    mask[:, hidden] = False
    before = attend(query, key, value, mask, explicit=explicit)
    key[hidden], value[hidden] = other, -other
    assert torch.equal(attend(query, key, value, mask, explicit=explicit), before)


@given(st.integers(2, 12), seeds, st.booleans(), st.sampled_from([0.0, 0.4]))
def test_padding_changes_no_bit_of_the_layer(n, seed, training, dropout):
    module = layer(training, dropout=dropout)
    x = normal(3, n, 6, seed=seed, dtype=torch.float32)
    lengths = torch.tensor([1, n // 2, n - 1]).clamp(min=1)
    mask = padding_mask(lengths, n)
    before = run(module, x, mask=mask)
    real = mask.transpose(1, 2)  # (batch, time, 1)
    after = run(module, torch.where(real, x, 7.5), mask=mask)
    assert torch.equal(before.where(real, 0.0), after.where(real, 0.0))


@given(st.integers(2, 12), seeds, st.booleans(), st.sampled_from([0.0, 0.4]))
def test_the_future_changes_no_bit_of_the_layer(n, seed, training, dropout):
    module = layer(training, dropout=dropout)
    x = normal(2, n, 6, seed=seed, dtype=torch.float32)
    now = seed % (n - 1)
    changed = x.clone()
    changed[:, now + 1 :] = -4.5
    before = run(module, x, mask=causal_mask(n))
    after = run(module, changed, mask=causal_mask(n))
    assert torch.equal(before[:, : now + 1], after[:, : now + 1])


@given(st.integers(1, 7), seeds)
def test_the_jacobian_is_zero_where_masked_and_only_there(n, seed):
    module = layer().double()
    x = normal(n, 6, seed=seed)
    mask = combine_masks(random_mask(n, n, seed=seed), window_mask(n, 2))

    def one(x):
        return run(module, x[None], mask=mask)[0]

    itself = torch.eye(n, dtype=torch.bool)  # as the query, which no mask hides
    assert not influence(one, x)[~mask & ~itself].any(), "a masked key: exactly zero"
    # A row with a single key has weight 1 whatever its score: the query itself is not felt then,
    # but the terms that cancel in its derivative may leave 1e-16, on some processors.
    expected = mask | (itself & (mask.sum(-1) > 1)[:, None])
    assert torch.equal(influence(one, x, tolerance=1e-13), expected)


@given(st.integers(1, 12), seeds)
def test_self_attention_is_permutation_equivariant(n, seed):
    module = layer().double()
    x = normal(2, n, 6, seed=seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    plain = run(module, x, mask=None)
    permuted = run(module, x[:, order], mask=None)
    assert_close(permuted, plain[:, order], 1e-12)


@given(small, st.integers(1, 12), seeds)
def test_cross_attention_does_not_see_the_order_of_the_keys(q, k, seed):
    module = layer(d_key_in=5).double()
    x, memory = normal(2, q, 6, seed=seed), normal(2, k, 5, seed=seed)
    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    mask = padding_mask(torch.tensor([k, max(1, k // 2)]), k)
    plain = run(module, x, memory, mask=mask)
    permuted = run(module, x, memory[:, order], mask=mask[..., order])
    assert_close(permuted, plain, 1e-12)


@given(st.integers(1, 40), st.integers(0, 40), seeds, dtypes, paths, st.sampled_from([3, 8]))
def test_a_row_without_keys_is_zero_forward_and_backward(k, q, seed, dtype, explicit, d_v):
    shapes = ((q + 1, 8), (k, 8), (k, d_v))
    inputs = [normal(2, 3, *s, seed=seed, dtype=dtype).requires_grad_() for s in shapes]
    mask = random_mask(2, 1, q + 1, k, seed=seed)
    row = seed % (q + 1)
    mask[0, 0, row] = False  # one query of the first sequence, and the whole second sequence
    mask[1] = False
    output = attend(*inputs, mask, explicit=explicit)
    assert output.isfinite().all()
    assert not output[0, :, row].any()
    assert not output[1].any()
    output.backward(normal(*output.shape, seed=seed, dtype=dtype))
    for x in inputs:
        assert x.grad.isfinite().all()
        assert not x.grad[1].any()
    assert not inputs[0].grad[0, :, row].any()


@given(st.integers(1, 40), st.integers(1, 40))
def test_heads_must_divide_the_width(d_model, n_heads):
    if d_model % n_heads == 0:
        assert MultiHeadAttention(d_model, n_heads).w_q.out_features == d_model
        return
    with pytest.raises(ValueError, match=rf"got d_model={d_model} and n_heads={n_heads}"):
        MultiHeadAttention(d_model, n_heads)
    free = MultiHeadAttention(d_model, n_heads, d_k=2, d_v=3)
    assert free(torch.zeros(1, 2, d_model)).shape == (1, 2, d_model)


@given(st.integers(1, 9), st.sampled_from(["x_query", "x_key", "x_value"]))
def test_wrong_widths_are_refused(width, name):
    module = layer(d_key_in=5, d_value_in=4)
    widths = {"x_query": 6, "x_key": 5, "x_value": 4}
    if width == widths[name]:
        width += 1
    expected = widths[name]
    widths[name] = width
    inputs = {name: torch.zeros(2, 3, wide) for name, wide in widths.items()}
    message = rf"cannot be multiplied \(6x{width} and {expected}x6\)"  # torch's own
    with unchecked(), pytest.raises(RuntimeError, match=message):
        module(**inputs)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_a_mask_broadcasts_as_documented_or_is_refused(shape):
    """For scores (2, 3, 4, 4): each axis full or 1; three axes are (batch, query, key)."""
    full = (2, 3, 4, 4)
    rules = {2: full[2:], 3: (2, 4, 4), 4: full}
    fits = len(shape) in rules and all(
        size in (1, whole) for size, whole in zip(shape, rules[len(shape)], strict=True)
    )
    mask = torch.ones(shape, dtype=torch.bool)
    x = normal(2, 4, 6, dtype=torch.float32)
    module = layer()
    if fits:
        wanted = run(module, x, mask=None)
        assert_close(run(module, x, mask=mask), wanted, 1e-6)
        return
    with unchecked(), pytest.raises(ValueError, match=r"expected a mask .* full size or 1"):
        run(module, x, mask=mask)
    with unchecked(), pytest.raises(ValueError, match=r"expected a mask .* full size or 1"):
        module.attention_weights(x, mask=mask)


@given(st.sampled_from([torch.float32, torch.int64, torch.uint8]))
def test_a_mask_of_another_type_is_refused(dtype):
    mask = torch.ones(4, 4, dtype=dtype)
    x = normal(2, 4, 6, dtype=torch.float32)
    with (
        unchecked(),
        pytest.raises(ValueError, match=r"expected a boolean mask.*got torch\.\w+\d+"),
    ):
        run(layer(), x, mask=mask)
