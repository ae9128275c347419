"""What the scripts of the recurrent chapters measure with; their runs themselves are long."""

import pytest
import torch

from chapters.attention_seq2seq.captioning import COLUMNS, ROWS, on_right_digit
from chapters.attention_seq2seq.experiments import attention_seeds, captioner_seeds
from chapters.attention_seq2seq.experiments.attention_seeds import BothWays, look_at
from chapters.attention_seq2seq.experiments.contexts import (
    FirstQuerySeq2Seq,
    InStepSeq2Seq,
    MeanSeq2Seq,
)
from chapters.attention_seq2seq.interventions import WithFirstState, WithMask
from chapters.attention_seq2seq.pictures import digit_images, make_strips
from checks.sequences import check_sequence_model
from lib.data import Pair, Vocabulary, make_batch
from lib.seq2seq import AttentionSeq2Seq, real_positions
from tasks.lists import Sets


def test_both_ways_is_a_sequence_model():
    check_sequence_model(BothWays(31, 29, 5, 14), 31, 29)


def test_each_key_of_both_ways_depends_on_the_whole_source():
    torch.manual_seed(0)
    model, lengths = BothWays(31, 29, 5, 14), torch.tensor([5, 3])
    source = torch.randint(4, 31, (2, 5)).masked_fill(~real_positions(lengths, 5), 0)
    keys = model.start(source, lengths).keys
    for changed in (0, 4):
        other = source.clone()
        other[0, changed] = 4 + (source[0, changed] - 3) % 27
        moved = (model.start(other, lengths).keys != keys).any(-1)
        assert moved[0].all(), "one half knows what came before, the other what comes after"
        assert not moved[1].any()
    left_only = AttentionSeq2Seq(31, 29, 5, 14).start(source, lengths).keys
    assert left_only.shape == keys.shape


def test_a_hidden_column_gets_no_weight():
    pairs = [Pair(("two", "euros"), ("deux", "euros")), Pair(("six",), ("six",))]
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    sets = object.__new__(Sets)  # of its sentences none is asked for
    sets.vocabularies = [Vocabulary.from_sentences(side) for side in sides]
    model = AttentionSeq2Seq(*map(len, sets.vocabularies), 5, 7)
    with torch.no_grad():
        model.decoder.output.bias[sets.vocabularies[1].encode(["deux"])] = 9.0  # it writes deux
    euros = sets.vocabularies[0].encode(["euros"])[0]
    hidden = WithMask(model, lambda mask, source: mask & (source != euros))
    assert look_at(model, pairs[:1], sets, "deux", "euros")[0, 0] > 0
    assert look_at(hidden, pairs[:1], sets, "deux", "euros")[0, 0] == 0
    assert look_at(model, pairs[:1], sets, "six", "two").tolist() == [[0, 0]], "never written"


def test_given_weights_lie_on_the_digit_of_each_word():
    strips = make_strips(digit_images()[1], 7, seed=3)
    given = captioner_seeds.GivenWeights()
    given.give(strips)
    assert torch.allclose(given.rows.sum(-1), torch.ones(7, 6))
    assert on_right_digit(given.rows.unflatten(-1, (ROWS, COLUMNS)), strips.corners).all()
    digits = (strips.corners[..., 0] >= 0).sum(1)
    ends = given.rows[torch.arange(7), digits]
    assert torch.allclose(ends, torch.full_like(ends, 1 / (ROWS * COLUMNS)))
    assert {1, 5} & set(digits.tolist())


def test_swapped_changes_both_sides():
    pair = Pair(("colombian", "pesos"), ("pesos", "colombiens"))
    words = {"colombian": "mexican", "colombiens": "mexicains"}
    assert attention_seeds.swapped(pair, words) == (("mexican", "pesos"), ("pesos", "mexicains"))


def test_the_states_that_are_exchanged_are_those_that_the_record_names(monkeypatch):
    words = ("six", "colombian", "pesos", "and", "mexican")
    sets = object.__new__(Sets)  # of its sentences none is asked for
    sets.vocabularies = [Vocabulary.from_sentences([words])]
    source = make_batch([Pair(words, words)], *sets.vocabularies * 2).source
    asked = []
    monkeypatch.setattr(attention_seeds, "share", lambda model, *_: asked.append(model) or 0.5)
    model = AttentionSeq2Seq(len(sets.vocabularies[0]), 5, 3, 7)
    names = attention_seeds.exchanged(model, [], sets)
    mixed = dict(zip(names, asked, strict=True))
    assert mixed["noun"].taken(source).tolist() == [[False, False, True, False, False, False]]
    assert mixed["others"].taken(source).tolist() == [[False, False, False, True, True, True]]
    assert isinstance(mixed["s_0"], WithFirstState)
    mexican = sets.vocabularies[0].encode(["mexican"])[0]
    for one in mixed.values():
        assert (one.other(source) != source).tolist() == [[False, True] + [False] * 4]
        assert one.other(source)[0, 1] == mexican


def test_the_plain_mean_is_attention_with_equal_weights():
    check_sequence_model(MeanSeq2Seq(31, 29, 5, 14), 31, 29)
    torch.manual_seed(0)
    model, attended = MeanSeq2Seq(31, 29, 5, 14), AttentionSeq2Seq(31, 29, 5, 14)
    attended.encoder = model.encoder
    attended.decoder.attention.score.weight.data.zero_()
    lengths = torch.tensor([5, 3])
    source = torch.randint(4, 31, (2, 5)).masked_fill(~real_positions(lengths, 5), 0)
    start, its = model.start(source, lengths), attended.start(source, lengths)
    context, weights = attended.decoder.attention(its.s, its.keys, its.mask)
    assert torch.allclose(weights[1], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0]))
    assert torch.allclose(start.context, context, atol=1e-6)
    assert torch.equal(start.s, its.s)


@pytest.mark.parametrize("rival", [FirstQuerySeq2Seq, InStepSeq2Seq])
def test_every_rival_is_a_sequence_model(rival):
    check_sequence_model(rival(31, 29, 5, 14), 31, 29)


def test_the_weights_of_the_first_query_are_those_of_attention_at_its_first_step():
    torch.manual_seed(0)
    model, attended = FirstQuerySeq2Seq(31, 29, 5, 14), AttentionSeq2Seq(31, 29, 5, 14)
    attended.encoder, attended.decoder.attention = model.encoder, model.attention
    attended.decoder.cell, attended.decoder.context_map = (
        model.decoder.cell,
        model.decoder.context_map,
    )
    attended.decoder.embedding, attended.decoder.output = (
        model.decoder.embedding,
        model.decoder.output,
    )
    source, lengths = torch.randint(4, 31, (2, 5)), torch.tensor([5, 3])
    target_in = torch.randint(4, 29, (2, 6))
    logits, its = model(source, lengths, target_in), attended(source, lengths, target_in)
    torch.testing.assert_close(logits[:, 0], its[:, 0])
    assert not torch.isclose(logits[:, 1], its[:, 1]).all(), "from then on its query is another"
    parameters = [sum(p.numel() for p in one.parameters()) for one in (model, attended)]
    assert parameters[0] == parameters[1]


def test_a_decoder_in_step_reads_each_state_once_and_then_the_last():
    torch.manual_seed(0)
    model, source = InStepSeq2Seq(31, 29, 5, 14), torch.randint(4, 31, (2, 4))
    lengths, target_in = torch.tensor([4, 2]), torch.randint(4, 29, (2, 6))
    state = model.start(source, lengths)
    states, last = model.encoder(source, lengths)
    assert torch.equal(state.context[0], states[0])
    assert torch.equal(state.context[1], torch.stack([states[1, 0], *[last[1]] * 3]))
    contexts = torch.stack([*states[0], states[0, 3], states[0, 3]])
    s, decoder = last[:1], model.decoder
    for t, context in enumerate(contexts):
        y = decoder.cell.input_map(decoder.embedding(target_in[:1, t]))
        s = decoder.cell.advance(y + decoder.context_map(context), s)
        torch.testing.assert_close(decoder(target_in, state)[0][0, t], decoder.output(s)[0])
