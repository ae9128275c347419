"""The specimen is right: the library's own layer and Transformer, with the same weights."""

import math

import pytest
import torch
from torch.nn import functional as F

from chapters.mistakes.specimen import TABLE, PlainAttention, Specimen
from lib.attention import MultiHeadAttention
from lib.data import BOS, PAD
from tests.helpers import assert_close, normal, random_mask


class Tied(Specimen):
    tied = True


def attention(*sizes):
    torch.manual_seed(0)
    return PlainAttention(*sizes).double()


def specimen(kind=Specimen, **sizes):
    torch.manual_seed(0)
    return kind(29, 23, **sizes).double()


def batch():
    """Sources with padding, and targets without any."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([7, 2, 5])
    source = torch.randint(4, 29, (3, 7), generator=draw)
    target = torch.randint(4, 23, (3, 5), generator=draw).index_fill(1, torch.tensor(0), BOS)
    return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths, target


@pytest.mark.parametrize("mask", [None, random_mask(5, 7), random_mask(2, 5, 7)], ids=str)
def test_plain_attention_is_the_librarys_layer(mask):
    layer, right = attention(12, 3, 20), MultiHeadAttention(12, 3, d_out=20).double()
    right.load_state_dict(layer.state_dict())
    x, memory = normal(2, 5, 12), normal(2, 7, 12)
    assert_close(layer(x, memory, mask=mask), right(x, memory, mask=mask), 1e-10)
    weights = layer.attention_weights(x, memory, mask=mask)
    assert_close(weights, right.attention_weights(x, memory, mask=mask), 1e-10)


def test_plain_attention_reads_itself_where_no_memory_is_given():
    layer, x = attention(12, 3), normal(2, 5, 12)
    assert torch.equal(layer(x), layer(x, x))
    query, key, value = (layer.split(part(x)) for part in (layer.w_q, layer.w_k, layer.w_v))
    wanted = F.scaled_dot_product_attention(query, key, value)
    assert_close(layer(x), layer.output(layer.join(wanted)), 1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_a_row_without_a_key_has_weight_0(dtype):
    mask = torch.tensor([[True, False], [False, False]])
    weights = attention(12, 3).weigh(normal(2, 3, 2, 2).to(dtype), mask)
    assert torch.equal(weights[..., 0, :], torch.tensor([1.0, 0.0]).to(dtype).expand(2, 3, 2))
    assert not weights[..., 1, :].any()


def test_split_and_join_are_inverse_and_a_head_is_a_slice_of_each_vector():
    layer, x = attention(12, 3), normal(2, 5, 12)
    heads = layer.split(x)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[1, 2, 3], x[1, 3, 8:])
    assert torch.equal(layer.join(heads), x)


@pytest.mark.parametrize("kind", [Specimen, Tied])
@pytest.mark.parametrize("sizes", [{}, {"d_model": 10, "n_heads": 5, "d_ff": 7, "n_layers": 1}])
def test_specimen_is_the_librarys_transformer(kind, sizes):
    model = specimen(kind, **sizes)
    other = model.reference().double()
    other.load_state_dict(model.state_dict())  # strict: the same names and shapes
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in other.named_parameters()]
    with torch.no_grad():
        got, wanted = (m(*batch()) for m in (model, other))
    assert_close(got, wanted, 1e-6)  # its table is float32


@pytest.mark.parametrize("kind", [Specimen, Tied])
def test_step_by_step_gives_what_teacher_forcing_gives(kind):
    model, (source, lengths, target) = specimen(kind), batch()
    state, logits = model.start(source, lengths), []
    for position, token in enumerate(target.unbind(1)):
        assert model.next_position(state) == position
        one, weights, state = model.step(token, state)
        assert weights is None
        logits.append(one)
    assert torch.equal(state.tokens, target)
    assert_close(torch.stack(logits, dim=1), model(source, lengths, target).detach(), 1e-10)


def test_target_mask_hides_later_tokens_and_padding():
    seen = specimen().target_mask(torch.tensor([[BOS, 5, PAD]]))
    assert seen.tolist() == [[[True, False, False], [True, True, False], [True, True, False]]]


def test_table_moves_with_the_model_and_is_neither_parameter_nor_saved():
    model = specimen()
    assert model.table.shape == (TABLE, 24)
    assert model.table.dtype == torch.float64
    assert "table" in dict(model.named_buffers())
    assert "table" not in model.state_dict()


def test_tokens_are_embedded_at_the_position_where_they_start():
    model, tokens = specimen(), torch.tensor([[5, 6, 7]])
    both = model.embed(tokens, model.source_embedding)
    assert torch.equal(model.embed(tokens[:, 1:], model.source_embedding, 1), both[:, 1:])
    added = both - model.source_embedding(tokens)
    assert_close(added[0], model.table[:3], 1e-10)


def test_a_tied_model_has_one_matrix_for_words_and_begins_with_a_guess():
    model = specimen(Tied)
    assert model.projection.weight is model.target_embedding.weight
    loss = F.cross_entropy(model(*batch()).flatten(0, 1), batch()[2].flatten())
    assert abs(loss.item() - math.log(23)) < 1
