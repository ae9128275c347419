"""What self-attention does without projections: a vector finds what is long and alike."""

import math

import torch

from lib.attention import attention_weights


def test_of_keys_in_the_direction_of_the_query_the_longest_gets_the_most_weight():
    x = torch.tensor([[1.0, 0, 1], [0, 1, 0], [1, 0, 2]])  # a dog, to bite, a larger man
    weights = attention_weights(x, x)
    assert weights[0].argmax() == 2


def test_random_tokens_attend_to_themselves_unless_they_are_projected():
    draw, d = torch.Generator().manual_seed(0), 512
    tokens = torch.randn(64, d, generator=draw)
    w_query, w_key = torch.randn(2, d, d, generator=draw) / math.sqrt(d)
    alike = attention_weights(tokens, tokens).diagonal()
    assert alike.min() > 0.99
    assert attention_weights(0.4 * tokens, 0.4 * tokens).diagonal().mean() < 0.5
    assert attention_weights(tokens @ w_query, tokens @ w_key).diagonal().max() < 0.5
