"""Both models: step by step equals all at once, padding stays out, gradients reach everything."""

import pytest
import torch

from lib.notebook import assert_same
from lib.seq2seq import (
    AdditiveAttention,
    AttentionDecoder,
    AttentionSeq2Seq,
    Decoder,
    DecoderState,
    Encoder,
    GRUCell,
    Seq2Seq,
    real_positions,
)
from tests.helpers import unchecked

BATCH, SOURCE, TARGET, SOURCE_VOCAB, TARGET_VOCAB = 5, 7, 3, 13, 11
D_EMBED, D_HIDDEN, D_SCORER = 2, 17, 19
LENGTHS = (2, 7, 1, 5, 3)
MODELS = [Seq2Seq, AttentionSeq2Seq]


@pytest.fixture(params=MODELS, ids=lambda model: model.__name__)
def model(request):
    torch.manual_seed(0)
    return request.param(SOURCE_VOCAB, TARGET_VOCAB, D_EMBED, D_HIDDEN).double()


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return (
        torch.randint(SOURCE_VOCAB, (BATCH, SOURCE)),
        torch.tensor(LENGTHS),
        torch.randint(TARGET_VOCAB, (BATCH, TARGET)),
    )


def test_shape(model, inputs):
    assert model(*inputs).shape == (BATCH, TARGET, TARGET_VOCAB)


def test_step_by_step_equals_teacher_forcing(model, inputs):
    source, lengths, target_in = inputs
    state, steps = model.start(source, lengths), []
    for token in target_in.unbind(1):
        logits, weights, state = model.step(token, state)
        steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, dim=1), model(*inputs))
    assert (weights is None) == (type(model) is Seq2Seq)


def test_a_sentence_is_the_same_alone_and_in_a_batch(model, inputs):
    together = model(*inputs)
    for row, length in enumerate(LENGTHS):
        source, lengths, target_in = (x[row : row + 1] for x in inputs)
        torch.testing.assert_close(model(source[:, :length], lengths, target_in)[0], together[row])


def test_padding_gets_no_gradient(model, inputs):
    source, lengths, target_in = inputs
    pad = 0
    source = source.clamp(min=1)
    source[torch.arange(SOURCE) >= lengths[:, None]] = pad
    model(source, lengths, target_in).sum().backward()
    assert model.encoder.embedding.weight.grad[pad].abs().sum() == 0
    assert model.encoder.embedding.weight.grad.abs().sum() > 0


def test_no_step_sees_a_later_target(model, inputs):
    source, lengths, target_in = inputs
    before = model(*inputs)
    for place in range(TARGET):
        changed = target_in.clone()
        changed[:, place] = (changed[:, place] + 1) % TARGET_VOCAB
        after = model(source, lengths, changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert not torch.allclose(before[:, place:], after[:, place:])


def test_every_parameter_learns(model, inputs):
    model(*inputs).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_context_is_all_that_the_plain_decoder_gets():
    """Two sources with the same last state are the same source to it."""
    decoder = Decoder(TARGET_VOCAB, D_EMBED, D_HIDDEN)
    target_in, last = torch.randint(TARGET_VOCAB, (BATCH, TARGET)), torch.randn(BATCH, D_HIDDEN)
    mask = torch.ones(BATCH, SOURCE, dtype=torch.bool)
    one, other = (
        decoder(target_in, decoder.start(torch.randn(BATCH, SOURCE, D_HIDDEN), last, mask))[0]
        for _ in range(2)
    )
    assert torch.equal(one, other)


def attention_by_loops(attention, query, keys, lengths):
    contexts = []
    for q, row, length in zip(query, keys, lengths, strict=True):
        scores = []
        for key in row[:length]:
            hidden = torch.tanh(attention.query_map(q) + attention.key_map(key))
            scores.append((attention.score.weight[0] * hidden).sum())
        exponentials = [score.exp() for score in scores]
        weights = [e / sum(exponentials) for e in exponentials]
        contexts.append(sum(w * key for w, key in zip(weights, row, strict=False)))
    return torch.stack(contexts)


@pytest.mark.parametrize("lengths", [LENGTHS, (SOURCE,) * BATCH])
def test_additive_attention_equals_loops(lengths):
    attention = AdditiveAttention(d_query=3, d_key=2, d_scorer=D_SCORER).double()
    mask = torch.arange(SOURCE) < torch.tensor(lengths)[:, None]
    parameters = [(p, p) for p in attention.parameters()]
    query, keys = torch.randn(BATCH, 3), torch.randn(BATCH, SOURCE, 2)
    assert_same(
        lambda q, k: attention(q, k, mask)[0],
        lambda q, k: attention_by_loops(attention, q, k, lengths),
        query,
        keys,
        parameters=parameters,
    )


def test_weights_are_a_distribution_over_allowed_keys():
    attention = AdditiveAttention(3, 2, D_SCORER).double()
    query, keys = torch.randn(BATCH, 3).double(), torch.randn(BATCH, SOURCE, 2).double()
    mask = torch.arange(SOURCE) < torch.tensor(LENGTHS)[:, None]
    context, weights = attention(query, keys, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH).double())
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()
    torch.testing.assert_close(context, torch.einsum("bk,bkd->bd", weights, keys))


def test_projecting_the_keys_beforehand_changes_nothing():
    attention = AdditiveAttention(3, 2, D_SCORER)
    query, keys = torch.randn(BATCH, 3), torch.randn(BATCH, SOURCE, 2)
    for one, other in zip(
        attention(query, keys),
        attention(query, keys, projected=attention.key_map(keys)),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_keys_are_a_set():
    decoder = AttentionDecoder(TARGET_VOCAB, D_EMBED, D_HIDDEN, d_key=2).double()
    keys, s = torch.randn(BATCH, SOURCE, 2).double(), torch.randn(BATCH, D_HIDDEN).double()
    target_in = torch.randint(TARGET_VOCAB, (BATCH, TARGET))
    order = torch.randperm(SOURCE)
    logits, maps, _ = decoder(target_in, decoder.start(keys, s))
    moved, moved_maps, _ = decoder(target_in, decoder.start(keys[:, order], s))
    torch.testing.assert_close(moved, logits)
    torch.testing.assert_close(moved_maps, maps[:, :, order])


def test_maps_of_a_batch_ignore_padding(inputs):
    model = AttentionSeq2Seq(SOURCE_VOCAB, TARGET_VOCAB, D_EMBED, D_HIDDEN)
    source, lengths, target_in = inputs
    _, maps, _ = model.decoder(target_in, model.start(source, lengths))
    assert maps.shape == (BATCH, TARGET, SOURCE)
    padding = torch.arange(SOURCE) >= lengths[:, None]
    assert (maps.transpose(1, 2)[padding] == 0).all()


def test_one_length_is_not_taken_for_all_rows(model, inputs):
    source, lengths, target_in = inputs
    with unchecked(), pytest.raises(ValueError, match="one length for each sequence"):
        model(source, lengths[:1], target_in)


def test_usual_sizes():
    """64 for a token, 128 for a state, 64 for the layer that scores."""
    for model in (Seq2Seq(7, 11), AttentionSeq2Seq(7, 11)):
        assert model.encoder.embedding.weight.shape == (7, 64)
        assert model.decoder.embedding.weight.shape == (11, 64)
        assert model.decoder.output.weight.shape == (11, 128)
    assert model.decoder.attention.query_map.weight.shape == (64, 128)


@pytest.mark.parametrize("make", [lambda: GRUCell(-3, 3), lambda: Encoder(-3, 3, 5)])
def test_sizes_below_zero_are_refused(make):
    with pytest.raises(RuntimeError, match="negative dimension -3"):  # torch's own
        make()


@pytest.mark.parametrize("tokens", [torch.tensor([[3, 7]]), torch.tensor([[-1]])])
def test_a_token_outside_the_vocabulary_is_named(tokens):
    with pytest.raises(ValueError, match="expected token numbers from 0 to 6, got"):
        Encoder(7, 3, 5)(tokens, torch.tensor([1]))


def test_a_decoder_needs_a_token():
    decoder = Decoder(7, 3, 5)
    h = torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"expected tokens \(batch, time\), got \(2, 0\)"):
        decoder(torch.zeros(2, 0, dtype=torch.long), DecoderState(h, h))


def test_lengths_are_whole_numbers():
    with unchecked(), pytest.raises(ValueError, match="expected integer lengths"):
        real_positions(torch.tensor([True]), 1)


def test_additive_attention_refuses_what_is_no_query_with_its_keys():
    layer = AdditiveAttention(3, 5, 2)
    keys = torch.randn(2, 7, 5)
    for query in (torch.randn(1, 3), torch.randn(3)):  # one would be broadcast
        with unchecked(), pytest.raises(ValueError, match=r"expected query .* got \[\("):
            layer(query, keys)
    for mask in (torch.ones(1, 7), torch.ones(2, 1), torch.ones(7), torch.ones(2, 2, 7)):
        with unchecked(), pytest.raises(ValueError, match=r"expected query .* \(2, 7, 5\), \("):
            layer(torch.randn(2, 3), keys, mask.bool())
    with unchecked(), pytest.raises(ValueError, match="expected a boolean mask"):
        layer(torch.randn(2, 3), keys, torch.ones(2, 7))


def test_additive_attention_has_one_bias():
    names = [name for name, _ in AdditiveAttention(3, 5, 2).named_parameters()]
    assert names == ["query_map.weight", "key_map.weight", "key_map.bias", "score.weight"]


def test_the_usual_size_of_the_layer_that_scores():
    assert AttentionDecoder(7, 3, 5, 2).attention.query_map.out_features == 64


def test_what_attention_finds_goes_to_the_gates_without_another_bias():
    assert AttentionDecoder(7, 3, 5, 2).context_map.bias is None
    assert Decoder(7, 3, 5).context_map.bias is None
