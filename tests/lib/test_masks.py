"""Masks, number by number; their combination; and what other conventions call the same."""

import pytest
import torch

from lib.masks import (
    causal_mask,
    combine_masks,
    fit_mask,
    padding_mask,
    window_mask,
)
from tests.helpers import random_mask, unchecked

X, o = True, False


def test_padding_from_one_length_for_each_sequence():
    mask = padding_mask(torch.tensor([2, 0, 3]), 3)
    assert mask.shape == (3, 1, 3)
    assert mask[:, 0].tolist() == [[X, X, o], [o, o, o], [X, X, X]]


def test_padding_from_one_length_for_each_query():
    mask = padding_mask(torch.tensor([[1, 3], [0, 2]]), 3)
    assert mask.tolist() == [[[X, o, o], [X, X, X]], [[o, o, o], [X, X, o]]]


def test_a_length_beyond_the_keys_allows_them_all():
    assert padding_mask(torch.tensor([9]), 3).all()


def test_causal():
    assert causal_mask(3).tolist() == [[X, o, o], [X, X, o], [X, X, X]]
    assert causal_mask(1).tolist() == [[X]]
    assert causal_mask(0).shape == (0, 0)


def test_causal_with_earlier_keys_is_the_end_of_the_whole():
    assert causal_mask(2, 4).tolist() == [[X, X, X, o], [X, X, X, X]]
    assert torch.equal(causal_mask(3, 7), causal_mask(7)[-3:])


def test_causal_with_a_sliding_window():
    assert causal_mask(4, window=2).tolist() == [
        [X, o, o, o],
        [X, X, o, o],
        [o, X, X, o],
        [o, o, X, X],
    ]
    assert torch.equal(causal_mask(5, window=1), torch.eye(5, dtype=torch.bool))
    assert torch.equal(causal_mask(5, window=5), causal_mask(5))
    for window in (1, 2, 3, 7, 11):  # with earlier keys, the end of the whole
        assert torch.equal(causal_mask(3, 7, window=window), causal_mask(7, window=window)[-3:])
        both = combine_masks(causal_mask(7), window_mask(7, window - 1))
        assert torch.equal(causal_mask(7, window=window), both)


def test_window():
    assert window_mask(4, 1).tolist() == [
        [X, X, o, o],
        [X, X, X, o],
        [o, X, X, X],
        [o, o, X, X],
    ]
    assert torch.equal(window_mask(4, 0), torch.eye(4, dtype=torch.bool))
    assert window_mask(4, 3).all()
    assert torch.equal(window_mask(2, 1, 5), window_mask(5, 1)[-2:])


def test_combine_allows_what_all_allow():
    causal, padding = causal_mask(5), padding_mask(torch.tensor([2, 5, 0]), 5)
    both = combine_masks(causal, None, padding)
    assert both.shape == (3, 5, 5)
    for b, length in enumerate([2, 5, 0]):
        for i in range(5):
            for j in range(5):
                assert both[b, i, j] == (j <= i and j < length)


def test_combine_passes_none_and_a_single_mask():
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    assert torch.equal(combine_masks(None, causal_mask(3)), causal_mask(3))


def test_combine_does_not_take_the_batch_for_heads():
    """As many sequences as heads: only the explicit heads axis keeps them apart."""
    by_sequence, by_head = random_mask(2, 3, 3), random_mask(2, 2, 3, 3, seed=1)
    both = combine_masks(by_sequence, by_head)
    for b in range(2):
        for h in range(2):
            assert torch.equal(both[b, h], by_sequence[b] & by_head[b, h])
    assert torch.equal(combine_masks(by_head, by_sequence), both)


@pytest.mark.parametrize(
    "shape", [(5, 7), (1, 7), (3, 5, 7), (3, 1, 7), (3, 2, 5, 7), (1, 1, 1, 1)]
)
def test_fit_takes_each_documented_form(shape):
    mask = random_mask(*shape)
    fitted = fit_mask(mask, (3, 2, 5, 7))
    assert fitted.broadcast_to(3, 2, 5, 7).shape == (3, 2, 5, 7)
    assert torch.equal(fitted.flatten(), mask.flatten())
    assert fitted.dim() != 3


@pytest.mark.parametrize(
    "shape", [(7,), (7, 5), (5, 6), (2, 5, 7), (3, 2, 7), (2, 3, 5, 7), (1, 3, 2, 5, 7)]
)
def test_fit_refuses_others(shape):
    message = r"broadcasts to the scores \(3, 2, 5, 7\), got .*padding of the keys is"
    with pytest.raises(ValueError, match=message):
        fit_mask(torch.ones(shape, dtype=torch.bool), (3, 2, 5, 7))


def test_fit_for_scores_without_heads():
    assert fit_mask(random_mask(3, 1, 7), (3, 5, 7)).shape == (3, 1, 7)
    with pytest.raises(ValueError, match=r"scores \(5, 7\), got \(3, 5, 7\)"):
        fit_mask(random_mask(3, 5, 7), (5, 7))


@pytest.mark.parametrize(
    "lengths",
    [torch.tensor([1.0]), torch.tensor([True]), torch.tensor(3), torch.ones(2, 2, 2).int()],
)
def test_padding_refuses_other_lengths(lengths):
    with unchecked(), pytest.raises(ValueError, match="expected integer lengths"):
        padding_mask(lengths, 3)


def test_fewer_keys_than_queries_are_refused():
    for make in (lambda: causal_mask(5, 4), lambda: window_mask(5, 1, 4)):
        with pytest.raises(ValueError, match="got 5 queries and 4 keys"):
            make()
    with pytest.raises(ValueError, match="window of 1 or more, got 0"):
        causal_mask(3, window=0)
    with pytest.raises(ValueError, match="radius of 0 or more, got -1"):
        window_mask(3, -1)


def test_masks_that_are_not_boolean_are_refused():
    numbers = torch.ones(3, 3)
    with unchecked():
        for use in (
            lambda: combine_masks(causal_mask(3), numbers),
            lambda: fit_mask(numbers, (1, 1, 3, 3)),
        ):
            with pytest.raises(ValueError, match=r"expected a boolean mask.*got torch.float32"):
                use()


def test_masks_that_do_not_fit_together_are_refused():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match .* b \(4\)"):
        combine_masks(causal_mask(3), causal_mask(4))


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 5, 7)])
def test_a_mask_that_does_not_fit_is_told_the_forms_that_do(shape):
    forms = r"\(query, key\), \(batch, query, key\) or with all axes of the scores"
    with pytest.raises(
        ValueError, match=rf"expected a mask {forms}, that .* scores \({shape[0]}, "
    ):
        fit_mask(torch.ones(11, 7, dtype=torch.bool), shape)


def test_no_mask_has_fewer_than_no_keys():
    with unchecked(), pytest.raises(RuntimeError):  # torch's own
        padding_mask(torch.tensor([1]), -1)


def test_masks_are_made_on_the_device():
    assert causal_mask(3, 5, device=torch.device("meta")).device.type == "meta"
    assert window_mask(3, 1, device=torch.device("meta")).device.type == "meta"
