"""Properties that masks must have, and the test that nothing leaks through a model."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from checks.attention import attention_by_loops, draw
from checks.framework import (
    CheckFailed,
    Steps,
    check,
    close,
    expect_tensor,
    refuse,
    require,
    require_close,
    short,
)
from lib.layers import in_mode
from measure.observed import influence

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
INVERTED = "the mask is the wrong way round: here True = may attend"


@check("masked attention")
def check_masked_attention(attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(query, key, value, mask), where True = may attend.

    Shapes: as in `check_attention`; mask (query, key).
    Errors: CheckFailed if the output depends on a masked key, or if a fully masked row is not zero.
    """
    query, key, value = draw(5, 7, 11, 3)
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[:, 0] = True  # each row keeps a key, for now
    mask[:, 3] = False  # nobody may attend to key 3
    output = expect_tensor(attend(query, key, value, mask), (5, 3))
    inverted = attention_by_loops(query, key, value, ~mask)
    require_close(
        output,
        attention_by_loops(query, key, value, mask),
        "the weights must be those of a softmax over the allowed keys alone: mask the scores "
        "before the softmax, not the weights after it",
        {INVERTED: inverted},
    )
    yield "a softmax over the allowed keys alone"

    key[3], value[3] = 50.0, -50.0
    changed = "a key that nobody may attend to was changed, and the output changed with it"
    require(torch.equal(attend(query, key, value, mask), output), changed)
    yield "a masked key changes nothing, bit for bit"

    mask[2] = False
    for dtype in DTYPES:
        q, k, v = inputs = [x.to(dtype).requires_grad_() for x in (query, key, value)]
        output = attend(q, k, v, mask)
        row = output[2].tolist()
        empty = f"query 2 may attend to nothing, so its output must be 0; in {dtype} it is {row}"
        nan = f"NaN in {dtype}: query 2 is fully masked"
        yield {nan: output.isnan().any(), empty: output[2].any()}
        gradients = torch.autograd.grad(output.sum(), inputs)
        for name, gradient in zip(("query", "key", "value"), gradients, strict=True):
            require(not gradient.isnan().any(), f"NaN in the gradient of the {name} in {dtype}")
    yield "a fully masked row is zero, never NaN, in three precisions, forward and backward"


@check("nothing leaks")
def check_nothing_leaks(
    function: Callable[[Tensor], Tensor] | nn.Module,
    x: Float[Tensor, "time d_in"],
    mask: Bool[Tensor, "query key"],
) -> Steps:
    """Check that output i depends on input j only where mask[i, j] allows it.

    In training and in evaluation, first by the Jacobian, which must be exactly zero elsewhere; then
    by changing the other inputs, which must leave output i the same bit for bit.

    Shapes: x (time, d_in), function(x) (query, d_out), mask (query, key), True = may attend.
    Errors: CheckFailed, which names the first pair of positions that leaks.
    """

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(0)  # the same dropout each time
        return function(x)

    module = function if isinstance(function, nn.Module) else nn.Identity()
    modes = {" in training": True, " in evaluation": False} if module is function else {"": True}
    for where, training in modes.items():
        with in_mode(module, training=training):
            leaks = (influence(run, x) & ~mask).nonzero().tolist()
            for i, j in leaks:
                fault = f"output {i} depends on input {j}, which is masked for it{where}"
                raise CheckFailed(fault)
            with torch.no_grad():
                before = run(x)
                for i, allowed in enumerate(mask):
                    after = run(torch.where(allowed[:, None], x, 3 - 2 * x))
                    changed = f"output {i} changed with inputs that are masked for it{where}"
                    require(torch.equal(after[i], before[i]), changed)
    yield "the Jacobian is exactly zero where masked"
    yield "no bit changes with a masked input"


@check("masked softmax")
def check_masked_softmax(softmax: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check softmax(scores, mask): over the allowed keys alone, and zeros where there is none.

    Shapes: scores and mask (query, key), True = may attend. Returns (query, key).
    """
    scores = torch.tensor([[1.0, 0.0, 2.0], [1.0, 8.0, 3.0], [5.0, 6.0, 7.0], [-2e4, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 0]]).bool()
    allowed = scores.masked_fill(~mask, -torch.inf)
    wanted = allowed.softmax(-1).nan_to_num()
    mixed = [0, 3]  # the rows with keys of both kinds
    known = {
        INVERTED: scores.masked_fill(mask, -torch.inf).softmax(-1),
        "masked after the softmax: masked keys have taken part of the sum": scores.softmax(-1)
        * mask,
        "the softmax runs over the queries; it must run over the keys": (
            allowed.softmax(0).nan_to_num()
        ),
    }
    got = expect_tensor(softmax(scores, mask), (4, 3), "a tensor of weights", like=scores)
    refuse({fault: close(got[mixed], wrong[mixed]) for fault, wrong in known.items()})
    for dtype in DTYPES:
        x = scores.to(dtype, copy=True).requires_grad_()
        try:
            weights = softmax(x, mask)
        except CheckFailed as error:
            finite = "; no large finite number fits every type" if "overflow" in str(error) else ""
            raise CheckFailed(f"in {dtype}: {error}{finite}") from error
        for row, (got, want) in enumerate(zip(weights.float(), wanted, strict=True)):
            given = f"row {row}, scores {short(scores[row])}, mask {mask[row].tolist()}, in {dtype}"
            seen = f"{given}: expected {short(want)}, got {short(got)}"
            rule = (
                "a softmax over the allowed keys alone, whatever the others score; a fully masked "
                "row is all 0"
            )
            require_close(got, want, f"{seen}; {rule}", tolerance=8 * torch.finfo(dtype).eps)
        yield {
            "a masked key has a weight that is not exactly 0": weights[~mask].any(),
            "no gradient: the weights are detached from the scores": not weights.requires_grad,
        }
        (gradient,) = torch.autograd.grad((weights * torch.tensor([1, 2, 3])).sum(), x)
        require(bool(gradient.isfinite().all()), f"NaN in the gradient in {dtype}")
    yield "a softmax over the allowed keys alone, however low their scores"
    yield "a fully masked row is zero"
    yield "finite in float32, bfloat16 and float16, forward and backward"


@check("prefix mask")
def check_prefix_mask(make: Callable[[Tensor, int], Tensor]) -> Steps:
    """Check make(lengths, n): all attend to the prefix of `lengths` tokens, the rest is causal.

    Shapes: lengths (batch,), mask (batch, n, n), True = may attend.
    """
    for lengths, n in ((torch.tensor([3, 0, 7, 1, 2]), 7), (torch.tensor([2, 4]), 5)):
        key = torch.arange(n)
        wanted = (key < lengths[:, None, None]) | (key <= key[:, None])
        rule = "a query may attend if the key is in the prefix or is not later"
        _require_mask(make(lengths, n), wanted, rule)
    yield from ("every query may attend to the prefix", "what follows is causal")


@check("packed mask")
def check_packed_mask(make: Callable[[Tensor], Tensor]) -> Steps:
    """Check make(document): causal, and no token attends to another document's.

    Shapes: document (batch, time), the number of the document that each token belongs to; mask
        (batch, time, time), True = may attend.
    """
    document = torch.tensor([[3, 3, 3, 4, 4, 6, 6], [5, 2, 2, 2, 2, 8, 8], [1] * 7])
    wanted = (document[:, :, None] == document[:, None]).tril()
    rule = "a query may attend if the key is not later and of the same document"
    _require_mask(make(document), wanted, rule)
    yield from ("no later token is allowed", "no other document is allowed")


def _require_mask(answer: object, wanted: Tensor, rule: str) -> None:
    mask = expect_tensor(answer, wanted.shape, "a boolean tensor", like=wanted)
    transposed = "the mask is transposed: rows are queries, columns keys"
    refuse({INVERTED: mask.equal(~wanted), transposed: mask.equal(wanted.mT)})
    for b, i, j in (mask != wanted).nonzero().tolist():
        at = f"sequence {b}, query {i}, key {j}"
        raise CheckFailed(
            f"{at}: expected {bool(wanted[b, i, j])}, got {bool(mask[b, i, j])}; {rule}"
        )
