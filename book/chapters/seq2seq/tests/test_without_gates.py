"""The translator without gates: a plain recurrent network, and PyTorch's."""

import torch
from torch import nn

from chapters.seq2seq.without_gates import TanhCell, TanhSeq2Seq
from checks.sequences import check_sequence_model
from lib.seq2seq import Seq2Seq


def test_it_is_a_sequence_model():
    check_sequence_model(TanhSeq2Seq(31, 29, 5, 14), 31, 29)


def test_its_step_is_torchs():
    ours, theirs = TanhCell(3, 5), nn.RNNCell(3, 5)
    theirs.weight_ih, theirs.bias_ih = ours.input_map.weight, ours.input_map.bias
    theirs.weight_hh, theirs.bias_hh = ours.hidden_map.weight, ours.hidden_map.bias
    x, h = torch.randn(7, 3), torch.randn(7, 5)
    torch.testing.assert_close(ours(x, h), theirs(x, h))


def test_at_twice_the_dimension_it_has_no_fewer_parameters_than_with_gates():
    def count(model):
        return sum(p.numel() for p in model.parameters())

    assert count(TanhSeq2Seq(155, 160, 64, 256)) > count(Seq2Seq(155, 160, 64, 128))
