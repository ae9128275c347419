"""The cache: what it holds, how it grows, and that attention with it equals attention without."""

import pytest
import torch

from lib.attention import FIRST_ROOM, KeyValueCache, MultiHeadAttention
from lib.masks import causal_mask, padding_mask
from lib.positions import make_positions
from lib.transformer import LayerCache, TransformerState
from tests.helpers import assert_close, normal, unchecked


def filled(length, batch=3, grows=True):
    cache = KeyValueCache(grows=grows)
    keys, values = normal(batch, 2, length, 5), normal(batch, 2, length, 7, seed=1)
    cache.append(keys, values)
    return cache, keys, values


@pytest.mark.parametrize("parts", [[1] * 5, [3, 1, 1], [FIRST_ROOM, 1, 40], [100, 1]], ids=str)
def test_it_returns_all_that_was_put_in(parts):
    keys, values = normal(3, 2, sum(parts), 5), normal(3, 2, sum(parts), 7, seed=1)
    cache, start = KeyValueCache(), 0
    for part in parts:
        end = start + part
        got = cache.append(keys[:, :, start:end], values[:, :, start:end])
        assert cache.length == end
        assert torch.equal(got[0], keys[:, :, :end])
        assert torch.equal(got[1], values[:, :, :end])
        assert torch.equal(cache.read()[0], got[0])
        start = end


def test_room_is_made_ahead():
    """1,000 steps move the store 5 times, not 1,000 times."""
    cache, places = KeyValueCache(), set()
    key = torch.ones(1, 1, 1, 1)
    for _ in range(1000):
        places.add(cache.append(key, key)[0].data_ptr())
    assert len(places) <= 6
    assert cache.read()[0].sum().item() == 1000


def test_select_repeats_drops_and_does_not_share():
    cache, keys, values = filled(4)
    rows = torch.tensor([2, 2, 0, 1, 2])
    chosen = cache.select(rows)
    assert torch.equal(chosen.read()[0], keys[rows])
    assert torch.equal(chosen.read()[1], values[rows])
    chosen.append(normal(5, 2, 1, 5), normal(5, 2, 1, 7))
    assert (chosen.length, cache.length) == (5, 4)
    assert torch.equal(cache.read()[0], keys)


def test_the_whole_state_selects_the_same_rows():
    own, keys, _ = filled(4)
    memory, _, values = filled(6, grows=False)
    mask = padding_mask(torch.tensor([1, 6, 3]), 6)
    state = TransformerState(normal(3, 6, 11), mask, [LayerCache(own, memory)])
    rows = torch.tensor([1, 1])
    chosen = state.select(rows)
    assert chosen.memory is state.memory
    assert torch.equal(chosen.memory_mask, mask[rows])
    assert torch.equal(chosen.caches[0].own.read()[0], keys[rows])
    assert torch.equal(chosen.caches[0].memory.read()[1], values[rows])


def stored(cache):
    return [part.data_ptr() for part in cache.stored()]


def test_a_memory_is_shared_and_not_copied():
    cache, keys, values = filled(6, batch=5, grows=False)
    first = torch.tensor([4, 0, 0, 3, 4, 0, 2])  # nobody reads 1
    chosen = cache.select(first)
    assert torch.equal(chosen.read()[0], keys[first])
    assert torch.equal(chosen.read()[1], values[first])
    assert stored(chosen) == stored(cache)
    then = torch.tensor([6, 3, 3, 0, 1])
    again = chosen.select(then)
    assert torch.equal(again.read()[1], values[first][then])
    assert stored(again) == stored(cache)
    few = again.select(torch.tensor([3, 1, 3]))  # two of the five are left: the others go
    assert torch.equal(few.read()[0], keys[torch.tensor([4, 3, 4])])
    assert len(few.stored()[0]) == 2
    assert torch.equal(cache.read()[0], keys)
    for rows in (torch.tensor([3]), torch.tensor([-4])):
        with pytest.raises(IndexError):  # torch's own
            few.select(rows)
    assert few.select(torch.tensor([], dtype=torch.long)).read()[0].shape == (0, 2, 6, 5)


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("masked", ["no", "all alike", "by row", "by head"])
@pytest.mark.parametrize("rows", [[1, 0, 1, 2, 1, 2], [0, 0, 0, 0], [2, 1], [1]], ids=str)
def test_attention_to_a_shared_memory_is_that_to_a_copy(rows, masked, n_kv_heads):
    layer = MultiHeadAttention(12, 4, n_kv_heads=n_kv_heads)
    memory, rows = normal(3, 7, 12).float(), torch.tensor(rows)
    layer = layer.float()
    cache = KeyValueCache(grows=False)
    layer(normal(3, 1, 12).float(), memory, cache=cache)
    x = normal(len(rows), 1, 12, seed=1).float()
    shape = {"all alike": (1, 7), "by row": (len(rows), 1, 7), "by head": (len(rows), 4, 1, 7)}
    mask = None if masked == "no" else normal(*shape[masked], seed=2) > -1
    shared = cache.select(rows)
    with torch.no_grad():
        found = layer(x, memory, mask=mask, cache=shared)
        copied = KeyValueCache(grows=False)
        copied.append(*(part.contiguous() for part in shared.read()))
        assert torch.equal(found, layer(x, memory[rows], mask=mask, cache=copied))
        maps = layer.attention_weights(x, memory, mask, cache=shared)
        assert torch.equal(maps, layer.attention_weights(x, memory[rows], mask, cache=copied))


def test_another_batch_is_refused():
    cache, _, _ = filled(4)
    with (
        unchecked(),
        pytest.raises(
            ValueError, match=r"as stored, \(3, .* got \(2, 2, 1, 5\).*use select to keep some"
        ),
    ):
        cache.append(normal(2, 2, 1, 5), normal(2, 2, 1, 7))


@pytest.mark.parametrize("scheme", ["none", "rotary", "alibi"])
@pytest.mark.parametrize("parts", [[1] * 7, [3, 1, 2, 1]], ids=str)
def test_self_attention_with_a_cache_equals_without(scheme, parts):
    positions = make_positions(scheme, 12, 3).double()
    layer = MultiHeadAttention(12, 3, d_v=5, positions=positions).double()
    x = normal(2, 7, 12)
    wanted = layer(x, mask=causal_mask(7))
    cache, outputs, start = KeyValueCache(), [], 0
    for part in parts:
        end = start + part
        outputs.append(layer(x[:, start:end], mask=causal_mask(part, end), cache=cache))
        start = end
    assert_close(torch.cat(outputs, 1), wanted, 1e-12)


def test_self_attention_that_names_its_keys_goes_on_storing_them():
    """x_key=x is self-attention still: whether keys are added is the cache's affair."""
    layer, x = MultiHeadAttention(12, 3).double(), normal(2, 7, 12)
    cache, outputs = KeyValueCache(), []
    for at in range(7):
        one = x[:, at : at + 1]
        outputs.append(layer(one, one, cache=cache))
    assert cache.length == 7
    assert_close(torch.cat(outputs, 1), layer(x, mask=causal_mask(7)), 1e-12)


def test_a_cache_that_does_not_grow_is_filled_once():
    cache = KeyValueCache(grows=False)
    cache.append(normal(2, 3, 4, 5), normal(2, 3, 4, 7))
    with pytest.raises(ValueError, match="grows=False that holds 4 positions"):
        cache.append(normal(2, 3, 1, 5), normal(2, 3, 1, 7))
    assert cache.length == 4
    assert not cache.select(torch.tensor([1])).grows


def test_cross_attention_reads_its_memory_once():
    layer = MultiHeadAttention(12, 3).double()
    x, memory = normal(2, 5, 12), normal(2, 7, 12)
    mask = padding_mask(torch.tensor([7, 2]), 7)
    wanted = layer(x, memory, mask=mask)
    calls = []
    layer.w_k.register_forward_hook(lambda *_: calls.append(1))
    cache = KeyValueCache(grows=False)
    outputs = [layer(x[:, t : t + 1], memory, mask=mask, cache=cache) for t in range(5)]
    assert_close(torch.cat(outputs, 1), wanted, 1e-12)
    assert (len(calls), cache.length) == (1, 7)


@pytest.mark.parametrize("new", [(3, 1, 1, 5), (3, 2, 1, 11), (2, 2, 1, 5), (3, 2, 2, 5), "float"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_refused_append_leaves_the_cache_as_it_was(new, side):
    """Another number of heads, another d_k or batch, two lengths, another type."""
    cache, keys, values = filled(4)
    parts = [normal(3, 2, 1, 5), normal(3, 2, 1, 7)]
    parts[side] = parts[side].float() if new == "float" else normal(*new)
    if side and new != "float" and new[3] == 5:
        parts[side] = normal(*new[:3], 7)
    with (
        unchecked(),
        pytest.raises(
            ValueError, match=r"expected (keys and values|\(batch, heads, new, d\) as stored)"
        ),
    ):
        cache.append(*parts)
    assert cache.length == 4
    assert torch.equal(cache.read()[0], keys)
    assert torch.equal(cache.read()[1], values)
    cache.append(normal(3, 2, 1, 5), normal(3, 2, 1, 7))
    assert cache.length == 5


def test_a_first_append_must_fit_too():
    cache = KeyValueCache()
    with (
        unchecked(),
        pytest.raises(
            ValueError, match=r"one value for each key, got \(3, 2, 4, 5\) and \(3, 1, 4, 7\)"
        ),
    ):
        cache.append(normal(3, 2, 4, 5), normal(3, 1, 4, 7))
    assert cache.length == 0


def test_an_empty_cache_can_be_selected_from():
    chosen = KeyValueCache().select(torch.tensor([1, 0, 1]))
    chosen.append(normal(3, 2, 1, 5), normal(3, 2, 1, 7))
    assert chosen.length == 1


@pytest.mark.parametrize("rows", [[3], [-4], [0, 7], [0.5], [True]])
def test_rows_that_are_not_there(rows):
    cache, _, _ = filled(4)
    with unchecked(), pytest.raises(IndexError):  # torch's own
        cache.select(torch.tensor(rows))


def test_a_cache_begins_with_no_row_at_all():
    assert [part.shape for part in KeyValueCache().read()] == [(0, 0, 0, 0)] * 2


@pytest.mark.parametrize("scheme", ["none", "rotary", "alibi"])
def test_attend_is_what_stands_between_the_projections(scheme):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, positions=make_positions(scheme, 12, 3)).double()
    x, heads = normal(2, 5, 12), {}
    for name in ("w_q", "w_k", "w_v"):
        heads[name] = getattr(layer, name)(x).unflatten(-1, (3, 4)).transpose(1, 2)
    joined = layer.attend(*heads.values()).transpose(1, 2).flatten(2)
    assert_close(layer.w_o(joined), layer(x), 1e-12)
    cache = KeyValueCache()
    for t in range(5):
        one = layer.attend(*(each[:, :, t : t + 1] for each in heads.values()), cache=cache)
    assert_close(one, layer.attend(*heads.values())[:, :, -1:], 1e-12)


def test_attend_wants_keys_and_values():
    layer, heads = MultiHeadAttention(12, 3), normal(2, 3, 1, 4)
    expected = pytest.raises(ValueError, match="expected both keys and values, or a cache")
    with expected:
        layer.attend(heads)
    with expected:
        layer.attend(heads, heads)
    with expected:
        layer.attend(heads, heads, cache=KeyValueCache())
