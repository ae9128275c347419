"""The checks of assembled Transformers: right answers pass, mistakes are named."""

import runpy

import pytest
import torch

from kit.shared.checks import CheckFailed
from kit.transformer.checks import (
    check_count,
    check_decoder_layer,
    check_forward,
    check_shift_right,
)
from lib.data import BOS
from lib.masks import causal_mask
from tests.helpers import unchecked
from tests.paths import ROOT

ANSWERS = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "10_transformer.py"))
run, count = ANSWERS["run"], ANSWERS["count"]


def shift(target_out):
    return torch.cat([torch.full_like(target_out[:, :1], BOS), target_out[:, :-1]], dim=1)


def decoder_layer(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal_mask(x.shape[1]))
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (check_shift_right, shift),
        (check_shift_right, lambda t: t.roll(1, 1).index_fill_(1, torch.tensor(0), BOS)),
        (check_decoder_layer, decoder_layer),
        (check_forward, run()),
        (check_forward, lambda model, *inputs: model(*inputs)),
        (check_count, count()),
    ],
)
def test_right_answers_pass(check, answer):
    before = torch.get_rng_state()
    assert len(check(answer).held) >= 2
    if check in (check_shift_right, check_count):
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("check", [check_shift_right, check_decoder_layer, check_forward])
def test_no_answer_is_no_tensor(check):
    with pytest.raises(CheckFailed, match=r"expected a tensor.*got None"):
        check(lambda *inputs: None)


@pytest.mark.parametrize(
    ("check", "answer", "words"),
    [
        (check_shift_right, lambda target_out: target_out, "position 0 must read BOS = 1, got 7"),
        (check_shift_right, lambda t: torch.cat([shift(t), t[:, -1:]], 1), r"5\), got \(3, 6\)"),
        (check_decoder_layer, ANSWERS["without_causal_mask"], "before position 1 feels x at 1"),
        (check_decoder_layer, ANSWERS["padding_is_read"], "padding of the memory is read"),
        (check_decoder_layer, ANSWERS["memory_unread"], "never read"),
        (
            check_decoder_layer,
            ANSWERS["queries_from_the_memory"],
            r"got \(3, 7, 12\); it is the shape of x",
        ),
        (check_decoder_layer, ANSWERS["memory_first"], "with post-norm: right shape and nothing"),
        (check_forward, run(encoder_norm=False), "with pre-norm .* norm at the end of a stack"),
        (check_forward, run(take=0), "with post-norm .* last encoder layer"),
        (check_forward, run(layer_by_layer=True), "for every decoder layer"),
        (check_forward, run(masked=False), "no causal mask"),
        (check_forward, run(padded=False), "padding of the source is read"),
        (check_count, count(biases=False), r"the base model.*-67,584.*biases are missing"),
        (check_count, count(norms=False), "layer norms are missing"),
        (check_count, count(biases=False, norms=False), "biases and layer norms are missing"),
        (check_count, count(last=False), "last norm at the end of each stack"),
        (check_count, count(shared=False), "shared counts once"),
        (check_count, lambda config: None, "expected a whole number, got None"),
    ],
)
def test_a_mistake_is_named(check, answer, words):
    with unchecked(), pytest.raises(CheckFailed, match=words):
        check(answer)


def test_the_target_must_stay_as_it_was():
    def in_place(target_out):
        target_out[:, 1:] = target_out[:, :-1].clone()
        target_out[:, 0] = BOS
        return target_out

    with pytest.raises(CheckFailed, match="argument 1 was changed"):
        check_shift_right(in_place)
