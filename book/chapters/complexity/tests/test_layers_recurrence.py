"""The recurrence and the convolution of Table 1 against torch's."""

import pytest
import torch
import torch.nn.functional as F

from chapters.complexity.layers import CausalConvolution, Recurrence, UnchainedRecurrence
from measure.observed import count_flops, longest_chain


def test_recurrence_is_torchs():
    torch.manual_seed(0)
    ours, n, d = Recurrence(7), 11, 7
    theirs = torch.nn.RNN(d, d, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.from_input.weight)
        theirs.weight_hh_l0.copy_(ours.from_state.weight)
    x = torch.randn(3, n, d)
    assert torch.allclose(ours(x), theirs(x)[0], atol=1e-6)
    assert torch.allclose(ours.rounds(x, n - 1), ours(x), atol=1e-6)
    assert not torch.allclose(ours.rounds(x, n - 2), ours(x), atol=1e-6)


def test_unchained_recurrence_does_the_same_work_and_waits_for_nothing():
    torch.manual_seed(0)
    layer, chained = UnchainedRecurrence(7), Recurrence(7)
    x = torch.randn(3, 11, 7)
    convolution = CausalConvolution(7, 2)
    with torch.no_grad():  # the later of two taps reads the position itself
        both = torch.stack([layer.from_state.weight, layer.from_input.weight], dim=-1)
        convolution.convolution.weight.copy_(both)
    assert torch.allclose(layer(x), torch.tanh(convolution(x)), atol=1e-6)
    assert count_flops(layer, x) == count_flops(chained, x)
    x.requires_grad_()
    assert (longest_chain(layer(x)), longest_chain(chained(x))) == (1, 11)


def test_convolution_sees_no_later_position():
    x = torch.randn(2, 3, 9, dtype=torch.float64).transpose(1, 2)
    layer = CausalConvolution(3, 4, dilation=2).double()
    padded = F.pad(x.transpose(1, 2), (6, 0))
    expected = F.conv1d(padded, layer.convolution.weight, dilation=2).transpose(1, 2)
    assert torch.allclose(layer(x), expected, rtol=0, atol=1e-12)


def test_no_round_is_refused():
    with pytest.raises(ValueError, match="one round or more, got 0"):
        Recurrence(3).rounds(torch.zeros(1, 2, 3), 0)
