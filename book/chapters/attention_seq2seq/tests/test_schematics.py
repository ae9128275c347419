"""The shapes that the schematics show are those of the layers."""

import pytest
import torch

from chapters.attention_seq2seq.captioning import COLUMNS, D_GRID, ROWS, Captioner, DigitNet
from chapters.attention_seq2seq.experiments.attention_seeds import BothWays
from chapters.attention_seq2seq.pictures import digit_images, make_strips
from chapters.attention_seq2seq.schematics import (
    INVENTED,
    LOOKING,
    looking_back,
    one_step,
    picture_as_keys,
)
from lib.seq2seq import AttentionDecoder, AttentionSeq2Seq
from tests.helpers import assert_shapes, normal


def test_one_step_shows_the_shapes_of_the_decoder():
    decoder = AttentionDecoder(vocab=11, d_embed=2, d_hidden=5, d_key=7)
    keys, s = normal(1, 3, 7).float(), normal(1, 5).float()
    context, weights = decoder.attention(s, keys)
    _, maps, after = decoder(torch.tensor([[4]]), decoder.start(keys, s))
    torch.testing.assert_close(maps[:, 0], weights)
    states = {f"h_{i}": one for i, one in enumerate(keys[0], start=1)}
    tensors = states | {"s_{t-1}": s[0], "c_t": context[0], "s_t": after.s[0]}
    assert_shapes(one_step(), tensors, {"d_{key}": 7, "d_{hidden}": 5})


def test_looking_back_draws_the_context_as_long_as_a_state_of_the_encoder():
    keys = normal(1, len(LOOKING), 7).float()
    context, _ = AttentionDecoder(11, 2, 5, 7).attention(normal(1, 5).float(), keys)
    assert context[0].shape == keys[0, 0].shape
    parts = {part.name: part for part in looking_back().parts}
    assert sorted((parts["c"].width, parts["c"].height)) == sorted(
        (parts["h ago"].width, parts["h ago"].height)
    )


def test_every_row_of_invented_weights_sums_to_one():
    torch.testing.assert_close(torch.tensor(INVENTED).sum(1), torch.ones(3))
    torch.testing.assert_close(sum(LOOKING), 1.0)


@pytest.mark.parametrize(("encoder", "reads_it"), [(AttentionSeq2Seq, False), (BothWays, True)])
def test_only_an_encoder_that_reads_both_ways_has_read_the_word_after_a_key(encoder, reads_it):
    model, length = encoder(11, 13, 3, 4), torch.tensor([3])
    one, other = (model.start(torch.tensor([[5, 6, last]]), length).keys[0] for last in (7, 8))
    assert torch.equal(one[1], other[1]) is not reads_it
    assert not torch.equal(one[2], other[2])


@torch.no_grad()
def test_picture_as_keys_shows_the_shapes_of_the_captioner():
    strips = make_strips(digit_images()[1], 1, seed=0)
    model = Captioner(DigitNet(), d_hidden=5)
    start = model.start(strips.source, strips.source_lengths)
    context, weights = model.decoder.attention(start.s, start.keys)
    _, _, after = model.step(strips.target_in[:, 0], start)
    assert weights.shape[1] == ROWS * COLUMNS
    tensors = {
        "picture": strips.source[0, 0],
        "grid": model.net.grid(strips.source)[0],
        "keys": start.keys[0],
        "s_{t-1}": start.s[0],
        "c_t": context[0],
        "s_t": after.s[0],
    }
    sizes = {"d_{grid}": D_GRID, "d_{key}": start.keys.shape[-1], "d_{hidden}": start.s.shape[-1]}
    assert_shapes(picture_as_keys(), tensors, sizes)
