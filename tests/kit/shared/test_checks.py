"""The framework of checks: what a fault, an error and a changed input become, and what holds."""

import math

import pytest
import torch
from torch import nn

from kit.masking.checks import check_nothing_leaks
from kit.self_attention.checks import check_self_attention
from kit.shared.attention_checks import check_attention
from kit.shared.checks import (
    CheckFailed,
    check,
    close,
    expect,
    expect_pair,
    expect_tensor,
    guarded,
    normals,
    require_close,
    require_gradients,
)
from lib.masks import causal_mask

X, Y = normals((3, 5), (3, 5))


@check("doubling")
def check_doubling(double):
    """Check double(x) = 2 x."""
    got = expect_tensor(double(X.clone()), (3, 5))
    yield {"it is the input": close(got, X), "it is no double": not close(got, 2 * X)}
    yield "twice the input"
    torch.rand(1)
    yield "for any seed"


def test_a_check_reports_the_properties_that_it_has_shown():
    before = torch.get_rng_state()
    report = check_doubling(lambda x: 2 * x)
    assert repr(report) == (
        "doubling: all 2 properties hold\n  ok  twice the input\n  ok  for any seed"
    )
    assert check_doubling.__doc__ == "Check double(x) = 2 x."
    assert torch.equal(torch.get_rng_state(), before), "the reader's random numbers stay"


def in_place(x):
    return x.mul_(2)


def breaks(x):
    factor = 2
    return factor * x.no_such_thing


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x, "^it is the input$"),
        (lambda x: 3 * x, "^it is no double$"),
        (lambda x: None, r"^expected a tensor \(3, 5\), got None$"),
        (lambda x: x[0], r"^expected an output of shape \(3, 5\), got \(5,\)$"),
        (in_place, "^argument 1 was changed by your function: work on a copy$"),
        (breaks, "^your function raised AttributeError: .*, in the line: return factor"),
        (lambda: 1, "^your function raised TypeError: .* takes 0 positional arguments"),
    ],
)
def test_the_first_fault_speaks(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_doubling(answer)


def test_a_check_inside_a_function_keeps_its_own_words():
    with pytest.raises(CheckFailed, match=r"^expected a number, got True$"):
        guarded(lambda: expect(True, int | float, "a number"))()


def test_a_known_mistake_is_told_by_its_result():
    require_close(X, X + 1e-9, "", {"never said of a right result": X})
    for got, message in ((Y, "the other one"), (X + Y, "neither")):
        with pytest.raises(CheckFailed, match=message):
            require_close(got, X, "neither", {"the other one": Y})


def test_close_wants_a_tensor_of_one_shape_without_nan():
    assert close(torch.ones(2, 3), 1.0)
    for other in (None, 1.0, torch.ones(3, 2), torch.full((2, 3), math.nan)):
        assert not close(other, torch.ones(2, 3))


def test_true_is_no_number_and_three_parts_are_no_pair():
    assert expect(7, int, "a whole number") == 7
    assert expect(True, bool, "a boolean") is True
    assert expect_pair([1, 2], "a pair") == (1, 2)
    with pytest.raises(CheckFailed, match="expected a whole number, got True"):
        expect(True, int, "a whole number")
    with pytest.raises(CheckFailed, match="expected a pair, got tuple"):
        expect_pair((1, 2, 3), "a pair")


def test_gradients_are_those_of_the_reference():
    def product(a, b):
        return a * b

    require_gradients(lambda a, b: b * a, product, a=X, b=Y)
    for wrong, message in (
        (lambda a, b: a.detach() * b, "the gradient of a is wrong or missing"),
        (lambda a, b: a * b.detach(), "the gradient of b is wrong or missing"),
        (lambda a, b: 2 * a * b, "the gradient of a is wrong"),
        (lambda a, b: (a * b).detach(), "cut off"),
    ):
        with pytest.raises(CheckFailed, match=message):
            require_gradients(wrong, product, a=X, b=Y)


def test_a_root_in_float32_is_no_mistake():
    """`torch.sqrt(torch.tensor(d_k))` is in float32, whatever the inputs are."""

    def attend(query, key, value):
        d_k = torch.tensor(query.shape[-1])
        return (query @ key.mT / torch.sqrt(d_k)).softmax(-1) @ value

    check_attention(attend)
    check_self_attention(lambda x, w_q, w_k, w_v: attend(x @ w_q, x @ w_k, x @ w_v))


@pytest.mark.parametrize("training", [True, False])
def test_a_model_that_fails_is_left_in_its_mode(training):
    model = nn.BatchNorm1d(5).double().train(training)  # each sees all, in training
    with pytest.raises(CheckFailed, match="may not see"):
        check_nothing_leaks(model, X, causal_mask(3))
    assert model.training == training
