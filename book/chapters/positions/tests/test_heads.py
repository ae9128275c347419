"""Where heads look: hand-made maps whose answers are known."""

import pytest
import torch

from chapters.positions.heads import explained_by_offset, weight_on
from lib.masks import causal_mask, window_mask


def test_weight_on_some_keys():
    maps = torch.zeros(2, 3, 4, 4)
    maps[0, 1, 2] = torch.tensor([0.5, 0.2, 0.3, 0.0])
    maps[0, 1, 3] = torch.tensor([0.1, 0.1, 0.2, 0.6])
    newest = causal_mask(4) & window_mask(4, 1)  # the query's own and the one before
    assert weight_on(maps, newest, range(2, 4)).tolist() == pytest.approx([0, (0.5 + 0.8) / 4, 0])
    assert weight_on(maps, newest, range(3, 4)).tolist() == pytest.approx([0, 0.4, 0])


def test_what_the_offset_explains():
    torch.manual_seed(0)
    n = 12
    offset = torch.arange(n)[:, None] - torch.arange(n)
    of_offset, of_query, of_both = torch.randn(n)[offset], torch.randn(n, 1), torch.randn(n, n)
    tokens = torch.randn(40, 1, n, n)
    tokens -= tokens.mean(0)
    heads = torch.stack([of_offset + of_query, of_both - 3 * of_query, of_offset + 3 * of_both])
    maps = (heads + tokens).masked_fill(~causal_mask(n), -torch.inf).softmax(-1)
    alone, nothing, little = explained_by_offset(maps)
    assert alone == pytest.approx(1, abs=1e-9)
    # Of independent entries a function of the offset explains as many as it has numbers to choose.
    assert nothing == pytest.approx((n - 1) / (n * (n - 1) / 2), abs=0.2)
    assert nothing < little < 0.7
