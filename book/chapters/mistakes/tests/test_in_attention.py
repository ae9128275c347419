"""Each broken layer does what its record says, and is right where the record says one sees nothing.

A broken layer stands beside the right one with the same weights.
"""

import math
from contextlib import suppress
from itertools import product

import pytest
import torch

from chapters.mistakes import in_attention as broken
from chapters.mistakes.specimen import PlainAttention
from tests.helpers import assert_close, normal, random_mask

EXACT = 1e-10
MASK = random_mask(2, 5, 7)  # every row keeps a key
EMPTY = MASK.clone()
EMPTY[0, 2] = False


def pair(kind, d_in=12, n_heads=3, d_out=None):
    """The broken layer and the right one, in float64, with the same weights."""
    torch.manual_seed(0)
    wrong = kind(d_in, n_heads, d_out).double()
    right = PlainAttention(d_in, n_heads, d_out).double()
    right.load_state_dict(wrong.state_dict())
    return wrong, right


def inputs(d_in=12, batch=2):
    return normal(batch, 5, d_in), normal(batch, 7, d_in)


def differs(one, other):
    return (one - other).abs().max().item() > 1e-3


def weights_of(layer, mask=None, given=None):
    return layer.attention_weights(*(given or inputs()), mask=mask)


@pytest.mark.parametrize(
    ("kind", "root", "unseen"),
    [
        (broken.RootOfHeads, 3, (9, 3)),  # as many heads as each is wide
        (broken.RootOfDModel, 12, (12, 1)),  # one head is as wide as the model
    ],
)
def test_wrong_root_divides_by_another_size(kind, root, unseen):
    wrong, right = pair(kind)
    query, key = normal(2, 3, 5, 4), normal(2, 3, 7, 4)
    wanted = right.scores(query, key) * math.sqrt(4 / root)
    assert_close(wrong.scores(query, key), wanted, EXACT)
    assert differs(wrong(*inputs()), right(*inputs()))
    wrong, right = pair(kind, *unseen)
    given = inputs(unseen[0])
    assert_close(wrong(*given), right(*given), EXACT)


def test_every_axis_turned_stops_unless_all_sizes_are_equal():
    wrong, right = pair(broken.EveryAxisTransposed)
    with pytest.raises(RuntimeError):
        wrong(*inputs())
    wrong, right = pair(broken.EveryAxisTransposed, 4, 2)
    x = normal(2, 2, 4)  # batch, heads, time and d_k are all 2
    assert wrong(x).shape == right(x).shape
    assert differs(wrong(x), right(x))


def test_reversed_axes_run_only_if_batch_keys_and_dimension_are_equal():
    whole = set()
    for batch, time, keys, d in product((1, 2, 3, 4), (1, 2, 3, 4), (2, 3, 4), (2, 3, 4)):
        query, key, value = normal(batch, time, d), normal(batch, keys, d), normal(batch, keys, d)
        try:
            scores = query @ key.permute(2, 1, 0)
        except RuntimeError:
            assert not (keys == d and batch in (1, d))
            continue
        assert keys == d
        assert batch in (1, d)
        with suppress(RuntimeError):
            scores @ value
            whole.add((batch, keys, d))
    assert whole == {(2, 2, 2), (3, 3, 3), (4, 4, 4)}


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_torch_gives_nan_or_the_output_s_bias_where_all_is_masked(heads):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(12, heads, batch_first=True)
    torch.nn.init.normal_(layer.out_proj.bias)
    x, nobody = torch.randn(1, 3, 12), torch.ones(3, 3, dtype=torch.bool)  # True = masked
    for training, asked in product((True, False), (True, False)):
        layer.train(training)
        with torch.no_grad():
            output, _ = layer(x, x, x, attn_mask=nobody, need_weights=asked)
        if asked or not (training or heads % 2):
            assert output.isnan().all()
        else:
            assert_close(output, layer.out_proj.bias.expand_as(output), 1e-6)


@pytest.mark.parametrize(
    ("kind", "axis"), [(broken.SoftmaxOverQueries, -2), (broken.SoftmaxOverBatch, 0)]
)
def test_softmax_sums_to_1_over_another_axis(kind, axis):
    wrong, right = pair(kind)
    for layer, own in ((wrong, axis), (right, -1)):
        weights = weights_of(layer)
        assert_close(weights.sum(own), torch.ones_like(weights.sum(own)), EXACT)
    assert differs(weights_of(wrong).sum(-1), weights_of(right).sum(-1))
    assert not weights_of(wrong, MASK).masked_select(~MASK[:, None]).any()


def test_with_one_sentence_a_softmax_over_the_batch_weighs_all_alike():
    wrong, _ = pair(broken.SoftmaxOverBatch)
    weights = weights_of(wrong, given=inputs(batch=1))
    assert torch.equal(weights, torch.ones_like(weights))


def test_a_head_on_a_slice_sees_its_own_features_alone():
    torch.manual_seed(0)
    wrong, right = broken.HeadsOnSlices(12, 3).double(), PlainAttention(12, 3).double()
    assert wrong.w_q.weight.shape == wrong.w_v.weight.shape == (4, 4)
    x, memory = inputs()
    other = memory.clone()
    other[..., 4:] += 1 + normal(2, 7, 8)  # the features of heads 1 and 2
    for layer, blind in ((wrong, True), (right, False)):
        before, after = (weights_of(layer, given=(x, given)) for given in (memory, other))
        assert torch.equal(before[:, 0], after[:, 0]) == blind
        assert differs(before[:, 1:], after[:, 1:])


def test_one_reshape_reads_on_across_positions():
    wrong, right = pair(broken.HeadsByReshape)
    x, memory = inputs()
    heads = wrong.split(x)
    assert heads.shape == right.split(x).shape == (2, 3, 5, 4)
    assert torch.equal(heads[1, 0].flatten(), x[1].flatten()[:20])  # all of token 0, most of 1
    assert not torch.equal(heads, right.split(x))
    assert differs(wrong(x, memory), right(x, memory))
    assert_close(wrong(x[:, :1]), right(x[:, :1]), EXACT)  # a single token has nobody to mix with


def test_wide_heads_make_the_layer_as_many_times_as_large():
    torch.manual_seed(0)
    wrong, right = broken.WideHeads(12, 3, 20), PlainAttention(12, 3, 20)
    assert wrong.split(wrong.w_q(torch.ones(2, 5, 12))).shape == (2, 3, 5, 12)
    assert wrong(torch.ones(2, 5, 12)).shape == (2, 5, 20)
    for own, other in zip(wrong.parameters(), right.parameters(), strict=True):
        is_last_bias = own.shape == (20,)
        assert own.numel() == other.numel() * (1 if is_last_bias else 3)


def test_output_turned_is_seen_unless_the_matrix_is_symmetric():
    wrong, right = pair(broken.OutputTransposed)
    assert wrong(*inputs()).shape == right(*inputs()).shape
    assert differs(wrong(*inputs()), right(*inputs()))
    with torch.no_grad():
        for layer in (wrong, right):
            layer.w_o.weight.copy_(right.w_o.weight + right.w_o.weight.T)
    assert_close(wrong(*inputs()), right(*inputs()), EXACT)
    wrong, _ = pair(broken.OutputTransposed, 12, 3, 20)
    with pytest.raises(RuntimeError):
        wrong(*inputs())


def test_inverted_mask_reads_what_the_right_one_hides():
    wrong, right = pair(broken.InvertedMask)
    assert torch.equal(wrong(*inputs(), mask=MASK), right(*inputs(), mask=~MASK))
    assert differs(wrong(*inputs(), mask=MASK), right(*inputs(), mask=MASK))
    assert torch.equal(wrong(*inputs()), right(*inputs()))


def test_masked_after_the_softmax_leaves_hidden_keys_in_the_denominator():
    wrong, right = pair(broken.MaskedAfterSoftmax)
    weights, whole = weights_of(wrong, MASK), weights_of(right)
    assert torch.equal(weights, whole * MASK[:, None])
    hides = ~MASK.all(-1)[:, None].expand(2, 3, 5)
    assert (weights.sum(-1)[hides] < 1 - 1e-3).all()
    assert torch.equal(weights_of(wrong), whole)


def test_minus_a_billion_fails_in_float16_and_where_no_key_is_open():
    wrong, right = pair(broken.MinusBillion)
    assert_close(wrong(*inputs(), mask=MASK), right(*inputs(), mask=MASK), EXACT)
    empty = weights_of(wrong, EMPTY)[0, :, 2]
    assert_close(empty, torch.full_like(empty, 1 / 7), 1e-7)  # a mean over what was forbidden
    assert not weights_of(right, EMPTY)[0, :, 2].any()
    given = [x.half() for x in inputs()]
    with pytest.raises(RuntimeError, match="overflow"):
        wrong.half()(*given, mask=MASK)
    assert right.half()(*given, mask=MASK).isfinite().all()


def test_minus_infinity_is_nan_where_no_key_is_open():
    wrong, right = pair(broken.MinusInfinity)
    assert_close(wrong(*inputs(), mask=MASK), right(*inputs(), mask=MASK), EXACT)
    is_nan = weights_of(wrong, EMPTY).isnan().all(-1)
    assert torch.equal(is_nan, ~EMPTY.any(-1)[:, None].expand(2, 3, 5))
    assert right(*inputs(), mask=EMPTY).isfinite().all()


def test_output_made_in_forward_is_another_at_each_call_and_is_no_parameter():
    torch.manual_seed(0)
    layer = broken.OutputMadeInForward(12, 3, 20).double()
    one, other = layer(*inputs()), layer(*inputs())
    assert one.shape == (2, 5, 20)
    assert differs(one, other)
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {"w_q", "w_k", "w_v"}
    assert torch.equal(*(layer.attention_weights(*inputs()) for _ in range(2)))
