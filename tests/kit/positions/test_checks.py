"""The checks of chapter 8's answers: they pass what is right and name the classic mistakes."""

import runpy

import pytest
import torch
from torch import nn

from kit.positions.checks import check_alibi_bias, check_fixed_positions, check_rotary_attention
from kit.shared.checks import CheckFailed
from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, sinusoidal_table
from tests.paths import ROOT

LISTED = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "08_positions.py"))


class Right(nn.Module):
    def __init__(self, d_model, max_length, persistent=True):
        super().__init__()
        table = sinusoidal_table(max_length, d_model)
        self.register_buffer("table", table, persistent=persistent)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


def turned_attention(query, key, value):
    turn = Rotary(query.shape[-1]).to(query.dtype).rotate
    return scaled_dot_product_attention(turn(query), turn(key), value)


def test_right_answers_pass():
    assert "buffer" in repr(check_fixed_positions(Right))
    check_fixed_positions(lambda d_model, n: Right(d_model, n, persistent=False))
    assert "values untouched" in repr(check_rotary_attention(turned_attention))
    assert "slope" in repr(check_alibi_bias(lambda n_heads, n: ALiBi(n_heads).bias(n, n)))


def test_alibi_may_say_anything_about_later_keys():
    check_alibi_bias(lambda n_heads, n: ALiBi(n_heads).bias(n, n).tril())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WrongExponent", "sin\\^2 \\+ cos\\^2 of a pair is not 1"),
        ("PlainAttribute", "does not follow"),
        ("Trained", "is a parameter"),
        ("BatchForTime", "differs between the sequences of a batch"),
        ("FirstPositionOnly", r"expected PE\(1\)"),
        ("Concatenated", "expected an output of shape"),
        ("CosineFirst", "even entries are sines"),
        ("FromOne", r"expected PE\(1\)"),
    ],
)
def test_table_mistakes_are_named(name, message):
    with pytest.raises(CheckFailed, match=message):
        check_fixed_positions(LISTED[name])


def test_a_module_that_cannot_add_is_named():
    class Rows(Right):
        def forward(self, x):
            return x + self.table[: x.shape[0]]

    with pytest.raises(CheckFailed, match=r"x is \(batch, time, d_model\)"):
        check_fixed_positions(Rows)


def test_a_module_that_adds_nothing_is_named():
    with pytest.raises(CheckFailed, match="nothing is added"):
        check_fixed_positions(lambda d_model, n: nn.Identity())


@pytest.mark.parametrize(
    ("turned", "message"),
    [
        ("", "nothing is turned"),
        ("q", "only the queries"),
        ("k", "only the keys"),
        ("qkv", "the values are turned too"),
    ],
)
def test_rotary_mistakes_are_named(turned, message):
    with pytest.raises(CheckFailed, match=message):
        check_rotary_attention(lambda *inputs: LISTED["rotary"](*inputs, turned))


@pytest.mark.parametrize(
    ("name", "message"),
    [("halves", "entry i is paired with"), ("backwards", "the scores are not those")],
)
def test_pairs_and_directions_are_named(name, message):
    with pytest.raises(CheckFailed, match=message):
        check_rotary_attention(LISTED[name])


def test_rotary_must_pass_gradients():
    def cut(query, key, value):
        return turned_attention(query, key.detach(), value)

    with pytest.raises(CheckFailed, match="the gradient of key is wrong or missing"):
        check_rotary_attention(cut)


@pytest.mark.parametrize(
    ("number", "message"),
    [(0, "the sign is wrong"), (1, "expected slopes"), (5, "in proportion"), (6, "distance 0")],
)
def test_alibi_mistakes_are_named(number, message):
    with pytest.raises(CheckFailed, match=message):
        check_alibi_bias(LISTED["WRONG"]["alibi_bias"][number])


def test_empty_answers_are_refused():
    for check in (check_rotary_attention, check_alibi_bias):
        with pytest.raises(CheckFailed, match="expected a tensor"):
            check(lambda *inputs: None)
    with pytest.raises(CheckFailed, match="expected a module, got 3"):
        check_fixed_positions(lambda d_model, n: 3)


def test_every_listed_wrong_answer_is_refused():
    checks = {
        "FixedPositions": check_fixed_positions,
        "rotary_attention": check_rotary_attention,
        "alibi_bias": check_alibi_bias,
    }
    assert torch.get_default_dtype() == torch.float32
    for name, wrong in LISTED["WRONG"].items():
        for answer in wrong:
            with pytest.raises(CheckFailed):
                checks[name](answer)
