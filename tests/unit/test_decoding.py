"""Greedy decoding: stops at the end, feeds back its own choice, and does not mind company."""

import pytest
import torch
from torch import nn

from lib.data import BOS, EOS, PAD, Pair, Vocabulary, make_batch
from lib.decoding import BATCH_SIZE, beam_search, greedy, translate
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq

SOURCE_VOCAB, TARGET_VOCAB = 13, 11
SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 10, EOS, PAD]])
LENGTHS = torch.tensor([4, 2, 3])
# What the scripted model wants to say; it talks on after its end.
SCRIPT = torch.tensor([[5, 6, 7, EOS, 5], [8, EOS, 9, 9, 5], [9, 10, EOS, 9, 5]])
SAID = [[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 10, EOS, PAD]]


class Scripted(nn.Module):
    """Follows the script whatever it reads, and remembers what it was fed."""

    def __init__(self, with_weights=False):
        super().__init__()
        self.fed, self.with_weights = [], with_weights

    def start(self, source, source_lengths):
        assert not self.training
        return 0

    def step(self, token, place):
        self.fed.append(token.tolist())
        logits = nn.functional.one_hot(SCRIPT[:, place], TARGET_VOCAB).float()
        weights = torch.full(SOURCE.shape, float(place)) if self.with_weights else None
        return logits, weights, place + 1


def test_stops_after_the_last_end_and_pads_the_others():
    tokens, weights = greedy(Scripted(), SOURCE, LENGTHS, max_length=17)
    assert tokens.tolist() == SAID
    assert weights is None


def test_feeds_back_what_it_said():
    model = Scripted()
    greedy(model, SOURCE, LENGTHS, max_length=17)
    said = torch.tensor(SAID)
    fed = torch.cat([torch.full((3, 1), BOS), said[:, :-1]], dim=1)
    assert torch.tensor(model.fed).T.tolist() == fed.tolist()


def test_stops_at_the_limit():
    tokens, _ = greedy(Scripted(), SOURCE, LENGTHS, max_length=2)
    assert tokens.tolist() == [row[:2] for row in SAID]


def test_weights_have_one_row_for_each_token():
    _, weights = greedy(Scripted(with_weights=True), SOURCE, LENGTHS, max_length=17)
    assert weights.shape == (3, 4, 4)
    assert weights[0, :, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", [True, False])
def test_leaves_the_mode_as_it_was(mode):
    model = Scripted().train(mode)
    greedy(model, SOURCE, LENGTHS, max_length=1)
    assert model.training is mode


def test_needs_room_for_a_token():
    with pytest.raises(ValueError, match="expected max_length of at least 1, got 0"):
        greedy(Scripted(), SOURCE, LENGTHS, max_length=0)


@pytest.fixture(params=[Seq2Seq, AttentionSeq2Seq], ids=lambda model: model.__name__)
def model(request):
    torch.manual_seed(0)
    return request.param(SOURCE_VOCAB, TARGET_VOCAB, 7, 17).double()


def test_each_token_is_the_likeliest_after_those_before_it(model):
    """Teacher forcing on its own output must give the same choices."""
    tokens, _ = greedy(model, SOURCE, LENGTHS, max_length=7)
    target_in = torch.cat([torch.full((3, 1), BOS), tokens[:, :-1]], dim=1)
    likeliest = model(SOURCE, LENGTHS, target_in).argmax(-1)
    real = tokens != PAD
    assert torch.equal(tokens[real], likeliest[real])
    assert not tokens.requires_grad


def test_a_sentence_is_the_same_alone_and_in_a_batch(model):
    tokens, weights = greedy(model, SOURCE, LENGTHS, max_length=7)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        alone, alone_weights = greedy(model, source, lengths, max_length=7)
        steps = alone.shape[1]
        assert torch.equal(alone[0], tokens[row, :steps])
        if weights is not None:
            torch.testing.assert_close(alone_weights[0], weights[row, :steps, :length])
            assert (weights[row, :, length:] == 0).all()


def test_translate_keeps_the_order_over_several_batches():
    words = [f"w{i}" for i in range(7)]
    vocab = Vocabulary(words)
    pairs = [Pair(tuple(words[: 1 + i % 5]), ("w0",)) for i in range(BATCH_SIZE + 3)]
    torch.manual_seed(0)
    model = Seq2Seq(len(vocab), len(vocab), 7, 17)
    sentences = translate(model, pairs, vocab, vocab, max_length=5)
    assert len(sentences) == len(pairs)
    for i in (0, 1, 4, BATCH_SIZE, BATCH_SIZE + 2):
        assert sentences[i] == translate(model, pairs[i : i + 1], vocab, vocab, max_length=5)[0]


def test_translate_with_a_beam():
    words = [f"w{i}" for i in range(7)]
    vocab = Vocabulary(words)
    pairs = [Pair(tuple(words[: 1 + i % 5]), ("w0",)) for i in range(7)]
    torch.manual_seed(0)
    model = Seq2Seq(len(vocab), len(vocab), 7, 17).double()
    assert translate(model, pairs, vocab, vocab, max_length=5, beam=1) == translate(
        model, pairs, vocab, vocab, max_length=5
    )
    batch = make_batch(pairs, vocab, vocab)
    tokens, _ = beam_search(model, batch.source, batch.source_lengths, 5, beam=3, alpha=2.0)
    said = translate(model, pairs, vocab, vocab, max_length=5, beam=3, alpha=2.0)
    assert said == [vocab.decode(row) for row in tokens]
