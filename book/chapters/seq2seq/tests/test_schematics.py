"""The shapes that the schematics show are those of the encoder and the decoder."""

import torch

from chapters.seq2seq.schematics import SOURCE, TARGET, encoder_decoder, overview, unrolled
from lib.seq2seq import Seq2Seq
from tests.helpers import assert_shapes

SIZES = {"d_{embed}": 3, "d_{hidden}": 5}


def test_unrolled_shows_the_shapes_of_the_encoder():
    encoder = Seq2Seq(11, 13, d_embed=3, d_hidden=5).encoder
    tokens = torch.tensor([[4, 5, 6]])
    states, last = encoder(tokens, torch.tensor([3]))
    x = encoder.embedding(tokens[0])
    tensors = {f"x_{t}": one for t, one in enumerate(x, start=1)} | {"x_t": x[0]}
    tensors |= {f"h_{t}": one for t, one in enumerate(states[0], start=1)}
    assert torch.equal(states[0, -1], last[0])
    assert_shapes(unrolled(), tensors | {"h_0": torch.zeros(encoder.d_hidden)}, SIZES)


def test_encoder_decoder_shows_the_context_and_a_sentence_of_the_data():
    model = Seq2Seq(11, 13, d_embed=3, d_hidden=5)
    state = model.start(torch.tensor([[4, 5, 6, 2]]), torch.tensor([len(SOURCE)]))
    assert len(TARGET) == 4
    for draw in (encoder_decoder, overview):
        assert_shapes(draw(), {"c": state.context[0]}, {"d_{hidden}": SIZES["d_{hidden}"]})
