"""Where heads look: hand-made maps whose answers are known."""

import pytest
import torch

from chapters.positions.heads import weight_on
from lib.masks import causal_mask, window_mask


def test_weight_on_some_keys():
    maps = torch.zeros(2, 3, 4, 4)
    maps[0, 1, 2] = torch.tensor([0.5, 0.2, 0.3, 0.0])
    maps[0, 1, 3] = torch.tensor([0.1, 0.1, 0.2, 0.6])
    newest = causal_mask(4) & window_mask(4, 1)  # the query's own and the one before
    assert weight_on(maps, newest, range(2, 4)).tolist() == pytest.approx([0, (0.5 + 0.8) / 4, 0])
    assert weight_on(maps, newest, range(3, 4)).tolist() == pytest.approx([0, 0.4, 0])
