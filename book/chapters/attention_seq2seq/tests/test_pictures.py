"""Strips of digits: what a caption says stands in the picture, where `corners` says."""

from itertools import pairwise

import pytest
import torch

from chapters.attention_seq2seq.pictures import (
    CAPTION_WORDS,
    CHUNK,
    HEIGHT,
    MOST,
    SIDE,
    WIDTH,
    Digits,
    digit_images,
    make_strips,
    single_digits,
    strip_batches,
)
from lib.data import BOS, EOS, PAD, UNK

N = 211


@pytest.fixture(scope="module")
def marked():
    """Ten digits that can be told apart by their grey: digit k has the value (k + 1) / 11."""
    labels = torch.arange(10)
    return Digits(((labels + 1) / 11).view(10, 1, 1).expand(10, SIDE, SIDE), labels)


@pytest.fixture(scope="module")
def strips(marked):
    return make_strips(marked, N, seed=3)


def test_digits_are_apart_and_always_the_same():
    train, test = digit_images()
    assert (len(train.labels), len(test.labels)) == (1437, 360)
    assert train.images.min() == 0
    assert train.images.max() == 1
    assert set(train.labels.tolist()) == set(test.labels.tolist()) == set(range(10))
    both = torch.cat([train.images, test.images]).flatten(1)
    assert len(both.unique(dim=0)) == len(both)
    torch.testing.assert_close(digit_images()[1].images, test.images, rtol=0, atol=0)


def test_words_are_numbered_in_order():
    names = " ".join(CAPTION_WORDS.tokens[UNK + 1 :])
    assert names == "zero one two three four five six seven eight nine"


def test_what_the_caption_says_stands_where_the_corners_say(strips):
    for image, caption, corners in zip(
        strips.source, strips.target_out, strips.corners, strict=True
    ):
        expected = torch.zeros(HEIGHT, WIDTH)
        digits = [int(token) - UNK - 1 for token in caption if token > UNK]
        for digit, (top, left) in zip(digits, corners.tolist(), strict=False):
            place = expected[top : top + SIDE, left : left + SIDE]
            assert not place.any(), "digits overlap"
            place += (digit + 1) / 11
        torch.testing.assert_close(image[0], expected)


def test_digits_stand_from_left_to_right(strips):
    assert sorted(strips.target_out[:, 0].unique().tolist()) == list(range(UNK + 1, UNK + 11))
    for corners in strips.corners.tolist():
        left = [x for _, x in corners if x >= 0]
        assert all(b - a >= SIDE for a, b in pairwise(left))
        assert 0 <= left[0] <= left[-1] <= WIDTH - SIDE
        assert corners[len(left) :] == [[-1, -1]] * (MOST - len(left))
    shown = (strips.corners[..., 0] >= 0).sum(1)
    assert set(shown.tolist()) == {1, 2, 3, 4, 5}
    assert strips.corners[..., 0].max() == HEIGHT - SIDE
    assert strips.corners[..., 1].max() == WIDTH - SIDE


def test_captions_start_end_and_are_shifted(strips):
    assert (strips.target_in[:, 0] == BOS).all()
    assert ((strips.target_out == EOS).sum(1) == 1).all()
    for read, said in zip(strips.target_in.tolist(), strips.target_out.tolist(), strict=True):
        end = said.index(EOS)
        assert read[1 : end + 1] == said[:end]
        assert set(said[end + 1 :]) <= {PAD}


def test_seed_fixes_the_strips(marked, strips):
    again, other = make_strips(marked, N, seed=3), make_strips(marked, N, seed=4)
    assert torch.equal(again.source, strips.source)
    assert not torch.equal(other.source, strips.source)


def test_batches_are_new_each_time_and_repeatable(marked):
    def draw(n):
        stream = strip_batches(marked, 3, seed=5)
        return [next(stream) for _ in range(n)]

    first, again = draw(CHUNK + 2), draw(CHUNK + 2)
    assert all(len(batch) == 3 for batch in first)
    pictures = torch.cat([batch.source for batch in first]).flatten(1)
    assert len(pictures.unique(dim=0)) > 0.95 * len(pictures)
    assert torch.equal(pictures, torch.cat([batch.source for batch in again]).flatten(1))


def test_rows_and_devices_keep_all_fields(strips):
    some = strips[2:7].to("cpu")
    assert len(some) == 5
    for name, tensor in vars(strips).items():
        assert torch.equal(getattr(some, name), tensor[2:7])


def test_single_digits_stand_anywhere(marked):
    images, labels = single_digits(marked, N, torch.Generator().manual_seed(0))
    assert images.shape == (N, 1, HEIGHT, HEIGHT)
    ink = images > 0
    assert (ink.sum((1, 2, 3)) == SIDE * SIDE).all()
    torch.testing.assert_close(images.amax((1, 2, 3)), (labels + 1) / 11)
    assert ink[:, 0, 0].any(dim=0)[0]
    assert ink[:, 0, -1].any(dim=0)[-1]


def test_nothing_to_draw_is_an_error(marked):
    with pytest.raises(ValueError, match="expected at least one strip to draw, got n=0"):
        make_strips(marked, 0, seed=0)
    with pytest.raises(ValueError, match="expected a batch size of at least 1, got 0"):
        next(strip_batches(marked, 0, seed=0))
