"""A model with another mask: the same parameters, and only the mask differs."""

import torch

from kit.attention_seq2seq.interventions import WithMask
from lib.seq2seq import AttentionSeq2Seq

SOURCE = torch.tensor([[5, 6, 7], [8, 9, 0]])
LENGTHS = torch.tensor([3, 2])
TOKEN = torch.tensor([4, 4])


def first_step(change=None):
    """Logits and weights of the first step, of a model or of the same with another mask."""
    torch.manual_seed(0)
    model = AttentionSeq2Seq(11, 13, d_embed=2, d_hidden=5, d_scorer=3)
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
