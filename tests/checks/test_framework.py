"""The framework of checks: what a fault, an error and a changed input become, and what holds."""

import math

import pytest
import torch
from torch import nn

from chapters.masking.checks import check_nothing_leaks
from chapters.self_attention.checks import check_self_attention
from checks import attention as attention_checks
from checks.attention import check_attention
from checks.framework import (
    CheckFailed,
    Report,
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


def test_a_report_of_one_property_is_in_the_singular():
    assert repr(Report("halving", ("half the input",))) == (
        "halving: the property holds\n  ok  half the input"
    )


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
        (lambda x: None, r"^expected a tensor of shape \(3, 5\), got None$"),
        (lambda x: x[0], r"^expected an output of shape \(3, 5\), got \(5,\)$"),
        (in_place, "^argument 1 was changed by your function: work on a copy$"),
        (breaks, "^your function raised AttributeError: .*, in the line: return factor"),
        (lambda: 1, "^your function raised TypeError: .* takes 0 positional arguments"),
    ],
)
def test_the_first_fault_speaks(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_doubling(answer)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda f: f([[1, 2], [3]]), "argument 1"),
        (lambda f: f({"rows": [X.clone()]}), "argument 1"),
        (lambda f: f(0, x=[X.clone()]), "x"),
        (lambda f: f((X.clone(), Y.clone())), "argument 1"),
    ],
)
def test_a_changed_list_or_part_is_named(call, name):
    def grows(first, x=None):
        for part in (first if x is None else x, None):
            match part:
                case list():
                    (part[0].add_(1) if torch.is_tensor(part[0]) else part[0].append(9))
                case dict():
                    part["rows"].append(0)
                case tuple():
                    part[1].zero_()

    with pytest.raises(CheckFailed, match=f"^{name} was changed by your function"):
        call(guarded(grows))


def test_what_is_read_is_not_changed():
    read = guarded(lambda rows, x: (rows[0][0], x.sum(), x[0]))
    read([[X, "word"], (1, None)], torch.tensor([math.nan, math.inf, 1.0]))


class Spoils(nn.Module):
    def forward(self, x):
        return x.mul_(2)


class Breaks(nn.Module):
    def forward(self, x):
        missing = x.no_such_thing
        return missing


@check("made")
def check_made(make):
    """Check make(), a module or a function that doubles."""
    output = make()(X.clone())
    yield {"it is no double": not close(output, 2 * X)}
    yield "twice the input"


@check("module")
def check_module(double):
    """Check a module that doubles."""
    double(X.clone())
    yield "it runs"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Spoils, "^an input was changed by your function"),
        (Breaks, "^your function raised AttributeError: .*, in the line: missing = x.no_such"),
        (lambda: in_place, "^argument 1 was changed by your function"),
        (lambda: breaks, "^your function raised AttributeError"),
        (nn.Identity, "^it is no double$"),
        (lambda: nn.Linear(5, 5).double().forward, "^it is no double$"),
        (lambda: nn.Bilinear(5, 5, 5), "^your function raised TypeError: .*missing 1 required"),
    ],
)
def test_what_the_answer_makes_is_watched_too(make, message):
    with pytest.raises(CheckFailed, match=message):
        check_made(make)


def test_a_module_is_watched_for_as_long_as_it_is_checked():
    module = Spoils()
    with pytest.raises(CheckFailed, match=r"^an input was changed"):
        check_module(module)
    module(X.clone())
    assert not module._forward_hooks
    assert not module._forward_pre_hooks


def test_a_fault_of_the_check_itself_is_not_blamed_on_the_answer(monkeypatch):
    monkeypatch.setattr(attention_checks, "draw", None)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        check_attention(lambda query, key, value: value)


def test_kind_device_and_rounding_are_named():
    for got, message in (
        (torch.zeros(3, 5, dtype=torch.int64), r"expected floating-point numbers \(torch.float64"),
        (torch.zeros(3, 5, dtype=torch.bool), "got torch.bool"),
        (X.to("meta"), "expected a tensor on cpu, got meta"),
        (X + 3e-6, "right to the digits of float32 only"),
        (X + 3e-5, "neither"),
    ):
        with pytest.raises(CheckFailed, match=message):
            require_close(got, X, "neither")
    require_close(X.float(), X, "a float32 result of float32's precision is right")
    with pytest.raises(CheckFailed, match=r"whole numbers .*, got torch.float64"):
        expect_tensor(X, (3, 5), like=torch.tensor(1))


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
    with pytest.raises(CheckFailed, match="expected a pair, got a tuple"):
        expect_pair((1, 2, 3), "a pair")


def test_gradients_are_those_of_the_reference():
    def product(a, b):
        return a * b

    require_gradients(lambda a, b: b * a, product, a=X, b=Y)
    for wrong, message in (
        (lambda a, b: a.detach() * b, "the gradient of a is wrong or missing"),
        (lambda a, b: a * b.detach(), "the gradient of b is wrong or missing"),
        (lambda a, b: 2 * a * b, "the gradient of a is wrong"),
        (lambda a, b: (a * b).detach(), "detached from the inputs"),
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
    with pytest.raises(CheckFailed, match="masked for it"):
        check_nothing_leaks(model, X, causal_mask(3))
    assert model.training == training
