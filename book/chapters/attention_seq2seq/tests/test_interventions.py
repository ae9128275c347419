"""A model with another mask or other states: the same parameters, and nothing else differs."""

import torch

from chapters.attention_seq2seq.interventions import WithFirstState, WithMask, WithStates
from lib.seq2seq import AttentionSeq2Seq

SOURCE = torch.tensor([[5, 6, 7], [8, 9, 0]])
LENGTHS = torch.tensor([3, 2])
TOKEN = torch.tensor([4, 4])


def small_model():
    torch.manual_seed(0)
    return AttentionSeq2Seq(11, 13, d_embed=2, d_hidden=5, d_scorer=3)


def first_step(change=None):
    """Logits and weights of the first step, of a model or of the same with another mask."""
    model = small_model()
    if change is not None:
        model = WithMask(model, change)
    return model.step(TOKEN, model.start(SOURCE, LENGTHS))[:2]


def test_the_mask_as_it_is_changes_nothing():
    for one, other in zip(first_step(), first_step(lambda mask, source: mask), strict=True):
        assert torch.equal(one, other)


def test_a_hidden_token_gets_no_weight_and_other_sentences_stay():
    logits, weights = first_step()
    hidden_logits, hidden = first_step(lambda mask, source: mask & (source != 6))
    assert (hidden[0] > 0).tolist() == [True, False, True]
    assert torch.equal(hidden[1], weights[1])
    assert torch.equal(hidden_logits[1], logits[1])
    assert not torch.allclose(hidden_logits[0], logits[0])


def test_without_a_mask_padding_gets_weight():
    assert first_step()[1][1, 2] == 0
    assert first_step(lambda mask, source: None)[1][1, 2] > 0


def test_states_are_taken_from_the_other_source_where_asked():
    model = small_model()
    own, other = (model.start(source, LENGTHS) for source in (SOURCE, SOURCE + 1))
    at_six = WithStates(model, lambda source: source + 1, lambda source: source == 6)
    state = at_six.start(SOURCE, LENGTHS)
    assert torch.equal(state.keys[0, 1], other.keys[0, 1])
    assert torch.equal(state.keys[0, ::2], own.keys[0, ::2])
    assert torch.equal(state.keys[1], own.keys[1])
    torch.testing.assert_close(state.projected, model.decoder.attention.key_map(state.keys))
    assert torch.equal(state.s, own.s), "the last state is not taken"
    assert not torch.equal(at_six.step(TOKEN, state)[0][0], model.step(TOKEN, own)[0][0])


def test_the_first_state_goes_with_the_last_token():
    model = small_model()
    own, other = (model.start(source, LENGTHS) for source in (SOURCE, SOURCE + 1))
    state = WithStates(model, lambda source: source + 1, lambda source: source == 7).start(
        SOURCE, LENGTHS
    )
    assert torch.equal(state.s[0], other.s[0])
    assert torch.equal(state.s[1], own.s[1])


def test_without_a_position_taken_nothing_changes():
    model = small_model()
    none = WithStates(model, lambda source: source + 1, lambda source: source < 0)
    for one, same in zip(none.start(SOURCE, LENGTHS), model.start(SOURCE, LENGTHS), strict=True):
        assert torch.equal(one, same)


def test_only_the_first_state_is_of_the_other_source():
    model = small_model()
    own, other = (model.start(source, LENGTHS) for source in (SOURCE, SOURCE + 1))
    mixed = WithFirstState(model, lambda source: source + 1)
    state = mixed.start(SOURCE, LENGTHS)
    assert torch.equal(state.s, other.s)
    assert not torch.equal(state.s, own.s)
    for name in ("keys", "projected", "mask"):
        assert torch.equal(getattr(state, name), getattr(own, name))
    assert not torch.equal(mixed.step(TOKEN, state)[0], model.step(TOKEN, own)[0])
