"""The GRU and the encoder: equal to torch's, and blind to padding."""

import pytest
import torch
from torch import nn

from lib.notebook import assert_same
from lib.seq2seq import Encoder, GRUCell, real_positions

BATCH, TIME, VOCAB, D_EMBED, D_HIDDEN = 5, 7, 13, 3, 11


def same_weights(ours, theirs):
    """Copy the cell's weights into torch's module; return the pairs whose gradients must agree."""
    pairs = []
    for linear, name in ((ours.input_map, "ih"), (ours.hidden_map, "hh")):
        for mine, kind in ((linear.weight, "weight"), (linear.bias, "bias")):
            full = f"{kind}_{name}" if isinstance(theirs, nn.GRUCell) else f"{kind}_{name}_l0"
            yours = getattr(theirs, full)
            yours.data.copy_(mine.data)
            pairs.append((mine, yours))
    return pairs


@pytest.mark.parametrize(("d_in", "d_hidden"), [(3, 11), (11, 3), (1, 1)])
def test_cell_equals_torch(d_in, d_hidden):
    ours, theirs = GRUCell(d_in, d_hidden).double(), nn.GRUCell(d_in, d_hidden).double()
    pairs = same_weights(ours, theirs)
    x, h = torch.randn(BATCH, d_in), torch.randn(BATCH, d_hidden)
    assert assert_same(ours, theirs, x, h, parameters=pairs)


def packed(gru, embedding, source, lengths):
    """torch's own way round the padding."""
    pack = nn.utils.rnn.pack_padded_sequence(
        embedding(source), lengths, batch_first=True, enforce_sorted=False
    )
    states, last = gru(pack)
    full = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
    return full[0], last[0]


@pytest.mark.parametrize("part", [0, 1], ids=["states", "last"])
@pytest.mark.parametrize("lengths", [(1, 7, 3, 5, 2), (7,) * 5, (1,) * 5])
def test_encoder_equals_torch(part, lengths):
    encoder = Encoder(VOCAB, D_EMBED, D_HIDDEN).double()
    gru = nn.GRU(D_EMBED, D_HIDDEN, batch_first=True).double()
    pairs = same_weights(encoder.cell, gru)
    source, lengths = torch.randint(VOCAB, (BATCH, TIME)), torch.tensor(lengths)
    weight = encoder.embedding.weight.detach()

    def run(function):
        def from_table(table):
            if function is None:
                values = {"embedding.weight": table}
                return torch.func.functional_call(encoder, values, (source, lengths))[part]
            return function(gru, lambda ids: table[ids], source, lengths)[part]

        return from_table

    assert_same(run(None), run(packed), weight, parameters=pairs)


def test_a_sequence_is_the_same_alone_and_in_a_batch():
    encoder = Encoder(VOCAB, D_EMBED, D_HIDDEN).double()
    lengths = torch.tensor([2, 7, 1, 5, 3])
    source = torch.randint(VOCAB, (BATCH, TIME))
    states, last = encoder(source, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, alone_last = encoder(source[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(states[row, :length], alone[0])
        torch.testing.assert_close(last[row], alone_last[0])
        assert states[row, length:].abs().sum() == 0


def test_nothing_reads_the_padding():
    encoder = Encoder(VOCAB, D_EMBED, D_HIDDEN)
    lengths = torch.tensor([2, 7, 1, 5, 3])
    real = real_positions(lengths, TIME)
    source = torch.randint(VOCAB, (BATCH, TIME))
    other = torch.where(real, source, (source + 1) % VOCAB)
    for before, after in zip(encoder(source, lengths), encoder(other, lengths), strict=True):
        assert torch.equal(before, after)


def test_last_state_depends_on_every_real_token():
    encoder = Encoder(VOCAB, D_EMBED, D_HIDDEN).double()
    lengths = torch.tensor([TIME])
    source = torch.randint(VOCAB, (1, TIME))
    _, last = encoder(source, lengths)
    for place in range(TIME):
        changed = source.clone()
        changed[0, place] = (changed[0, place] + 1) % VOCAB
        assert not torch.allclose(encoder(changed, lengths)[1], last)


def test_real_positions():
    expected = [[True, False, False], [True, True, True], [True, True, False]]
    assert real_positions(torch.tensor([1, 3, 2]), 3).tolist() == expected


@pytest.mark.parametrize("lengths", [[0, 3], [1, 4], [-1, 2]])
def test_a_length_outside_the_source_is_an_error(lengths):
    with pytest.raises(ValueError, match=r"from 1 to 3, got.*count each sequence's real tokens"):
        real_positions(torch.tensor(lengths), 3)
