"""Properties of embeddings, of a matrix that is used twice, and of label smoothing."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.by_hand import ByHand
from checks.framework import (
    CheckFailed,
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    guarded,
    normal,
    require,
    require_close,
    require_gradients,
    short,
)
from lib.data import PAD

FLOAT32 = 1e-4  # tolerance, for products of 64 numbers


@check("gradient of a look-up")
def check_lookup_gradient(gradient: Callable[[Tensor, Tensor, int], Tensor]) -> Steps:
    """Check gradient(tokens, upstream, vocab): the gradient of a look-up times sqrt(d_model).

    Shapes: tokens (batch, time); upstream, the derivative of the loss to each looked-up vector,
        (batch, time, d_model). Returns the derivative to the matrix, (vocab, d_model).
    """
    vocab = 11
    for tokens, d_model in ((torch.arange(10).view(2, 5) % 4, 3), (torch.tensor([[7]]), 5)):
        upstream, root = normal(*tokens.shape, d_model), math.sqrt(d_model)
        want = root * torch.einsum("btv,btd->vd", F.one_hot(tokens, vocab).double(), upstream)
        with ByHand():
            got = gradient(tokens, upstream, vocab)
        expect_tensor(got, (vocab, d_model), f"a tensor of the shape {(vocab, d_model)}", like=want)
        for token in range(vocab):
            times = int((tokens == token).sum())
            require_close(
                got[token],
                want[token],
                f"token {token}{' = PAD' * (token == PAD)}, which occurs {times} times: expected "
                f"{short(want[token, :3], 2)}, got {short(got[token, :3], 2)}; each occurrence "
                "adds sqrt(d_model) times its gradient",
            )
    yield "occurrences of a token add up"
    yield "tokens that do not occur get 0"
    yield "times sqrt(d_model)"


@check("one matrix, used twice")
def check_shared_matrix(make: Callable[[int, int], nn.Module]) -> Steps:
    """Check make(vocab, d_model), a module with embed(tokens) and score(x) and one matrix for both.

    Shapes: embed takes tokens (*batch) to (*batch, d_model), score x (*batch, d_model) to
        (*batch, vocab).
    """
    shape = vocab, d_model = 499, 64
    module = expect(make(vocab, d_model), nn.Module, "a module of torch")
    shapes = [tuple(parameter.shape) for parameter in module.parameters()]
    alone = f"expected one parameter of the shape {shape}, got {shapes or 'none'}"
    twice = "; two parameters have two gradients, even if they share one storage"
    require(shapes in ([shape], [shape[::-1]]), alone + twice * (shapes == 2 * [shape]))

    (weight,) = module.parameters()
    rows = weight if shapes == [shape] else weight.T
    spread = (F.layer_norm(normal(15, d_model).float(), (d_model,)) @ rows.T).std().item()
    size = (
        f"the first logits have a standard deviation of {spread:.2g}, expected about 1 or 1/2; let "
        "the entries start with a standard deviation of 1 / sqrt(d_model) or half of it"
    )
    require(0.1 < spread < 1.5, size)
    yield "the first logits are about as large as 1"

    _require_one_matrix(module)
    yield "one parameter, and both uses read it"
    yield "sqrt(d_model) at the look-up and nowhere else"
    yield "one gradient, the sum of both uses"

    with torch.no_grad():
        weight.add_(1.0)
    _require_one_matrix(module, " after a step of training")
    _require_one_matrix(copy.deepcopy(module), " in a copy")
    yield "still one matrix after a step and after a copy"


def _require_one_matrix(module: Any, when: str = "") -> None:
    """Require the values that both methods return, and the gradients that they pass back."""
    (weight,) = module.parameters()
    rows = weight if len(weight) > len(weight.T) else weight.T  # more tokens than features
    tokens, x = torch.arange(4, 19).view(3, 5), normal(3, 5, rows.shape[1]).float()
    looked_up = rows[tokens] * math.sqrt(rows.shape[1])
    for name, rule, given, want in (
        ("embed", "sqrt(d_model) times the row of each token", tokens, looked_up),
        ("score", "the plain dot product of x and each row", x, x @ rows.T),
    ):
        before = weight.detach().clone()
        try:
            got = expect_tensor(guarded(getattr(module, name))(given), want.shape)
        except CheckFailed as error:
            raise CheckFailed(f"{name}: {error}") from error
        require(weight.equal(before), f"{name} changes the matrix: only training may")
        require_close(got, want, f"{name}{when}: expected {rule}", tolerance=FLOAT32)
        lost = f"{name} passes no gradient to the matrix: it uses a copy, or is detached, or frozen"
        require(got.requires_grad, lost)
        (ours,), (theirs,) = (
            torch.autograd.grad((y**2).sum(), weight, allow_unused=True) for y in (got, want)
        )
        require(close(ours, theirs, FLOAT32), lost)


@check("label smoothing")
def check_smoothed_loss(loss: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check loss(logits, target_out, smoothing) where some logits may be minus infinity.

    The smoothing is spread evenly over the tokens that can be predicted: those with a finite logit.

    Shapes: logits (batch, time, vocab), target_out (batch, time). Returns a number.
    """
    finite, token = 2 * normal(3, 5, 7), torch.arange(7)
    target = torch.tensor([[2, 3, 4, 5, 6], [6, 2, PAD, PAD, PAD], [5, PAD, PAD, PAD, PAD]])
    banned = ((token + torch.arange(5)[:, None]) % 3 == 0) & (token != target.unsqueeze(-1))
    some = finite.masked_fill(banned, -torch.inf)
    shared = (
        "the target gets 1 - smoothing, and the smoothing is spread over all tokens with a finite "
        "logit, the target and PAD among them; the mean is that of the real tokens"
    )
    plain = "the mean of the real tokens' -log p; a logit of -inf has no part in the softmax"
    for logits, where in ((finite, ""), (some, ", some logits at -inf")):
        for smoothing in (0.0, 0.1, 0.4):
            losses = _smoothed_losses(logits, target, smoothing)
            got, want = loss(logits, target, smoothing), losses[target != PAD].mean()
            expect_tensor(got, (), "a tensor with one number")
            infinite = ": leave the tokens at -inf out before you multiply or sum"
            infinite *= not got.isfinite()
            seen = f"smoothing {smoothing}{where}: expected {want:.4f}, got {got:.4f}{infinite}"
            real, rule = target != PAD, shared if smoothing else plain
            mistakes: dict[str, Tensor | float] = {
                "padding is counted: only real tokens enter the mean": losses.mean(),
                f"{seen}; padding counts below the line": losses[real].sum() / real.numel(),
                f"{seen}; does nan_to_num hide an infinite loss?": 0.0,
            }
            require_close(got, want, f"{seen}; {rule}", mistakes)
    yield "torch's cross-entropy where all logits are finite"
    yield "padding counts neither above nor below the line"

    def reference(logits: Tensor) -> Tensor:
        return _smoothed_losses(logits, target, 0.1)[target != PAD].mean()

    require_gradients(lambda logits: loss(logits, target, 0.1), reference, logits=some)
    yield "tokens at -inf get no part of it, and no NaN arises"


def _smoothed_losses(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    possible = logits > -torch.inf
    log_p = logits.log_softmax(-1).masked_fill(~possible, 0.0)
    on_target = -log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return (1 - smoothing) * on_target - smoothing * log_p.sum(-1) / possible.sum(-1)
