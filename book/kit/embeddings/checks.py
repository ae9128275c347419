"""Properties of embeddings, of a matrix that is used twice, and of label smoothing."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.shared.checks import (
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    normal,
    normals,
    require,
    require_close,
    short,
)
from lib.data import PAD

FLOAT32 = 1e-4  # tolerance, for products of 64 numbers


@check("gradient of a look-up")
def check_lookup_gradient(gradient: Callable[[Tensor, Tensor, int], Tensor]) -> Steps:
    """Check gradient(tokens, upstream, vocab): what a look-up times sqrt(d_model) hands back.

    Shapes: tokens (batch, time); upstream, the derivative of the loss to each looked-up vector,
        (batch, time, d_model). Returns the derivative to the matrix, (vocab, d_model).
    """
    vocab = 11
    for shape, d_model in (((2, 5), 3), ((1, 1), 7), ((3, 13), 5)):
        factor = math.sqrt(d_model)
        tokens = torch.arange(math.prod(shape)).view(shape) % 5 + 1  # some stand there twice
        tokens[0, -1] = vocab - 1
        upstream, weight = normals((*shape, d_model), (vocab, d_model))
        total = (F.embedding(tokens, weight.requires_grad_()) * factor * upstream).sum()
        (wanted,) = torch.autograd.grad(total, weight)
        what = f"a tensor of the shape {(vocab, d_model)}"
        got = expect_tensor(gradient(tokens, upstream, vocab), (vocab, d_model), what)
        unseen = [i for i in range(vocab) if i not in tokens]
        yield {
            "a token that does not occur has a gradient of 0": got[unseen].any(),
            f"too small by sqrt(d_model) = {factor:.2f}: the look-up multiplies by it, so the "
            "gradient is multiplied by it too": close(got * factor, wanted),
        }
        for i in sorted(set(tokens.flatten().tolist())):
            times = int((tokens == i).sum())
            require_close(
                got[i],
                wanted[i],
                f"token {i}, which occurs {times} times: expected {short(wanted[i, :3], 2)}, got "
                f"{short(got[i, :3], 2)}; each occurrence adds sqrt(d_model) times its gradient",
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
    vocab, d_model = 499, 64
    module = expect(make(vocab, d_model), nn.Module, "a module of torch")
    for name in ("embed", "score"):
        require(callable(getattr(module, name, None)), f"expected a method {name}")
    shapes = [tuple(parameter.shape) for parameter in module.parameters()]
    require(
        shapes == [(vocab, d_model)],
        f"expected one parameter of the shape {(vocab, d_model)}, got {shapes or 'none'}; two "
        "parameters have two gradients, even if they share their numbers",
    )
    (weight,) = module.parameters()
    tokens, x = torch.arange(15).view(3, 5), normal(3, 5, d_model).float()
    embedded = expect_tensor(module.embed(tokens), (3, 5, d_model))
    scores = expect_tensor(module.score(x), (3, 5, vocab))
    rows, products, root = weight.detach()[tokens], x @ weight.detach().T, math.sqrt(d_model)
    spread = (F.layer_norm(x, (d_model,)) @ weight.detach().T).std().item()
    embeds = close(embedded, rows * root, FLOAT32)
    is_product = close(scores, products, FLOAT32)
    scaled = any(close(scores, wrong, FLOAT32) for wrong in (products * root, products / root))
    yield {
        "embed: expected sqrt(d_model) times the row, got the row": close(embedded, rows, FLOAT32),
        "embed: expected sqrt(d_model) times the token's row": not embeds,
        "score: expected the plain dot product; sqrt(d_model) belongs to the look-up alone": scaled,
        "score: expected the dot product of x and each token's row": not is_product,
        f"the first logits have a standard deviation of {spread:.2g}, expected about 1 or 1/2; let "
        "the entries start with a standard deviation of 1 / sqrt(d_model) or half of "
        "it": not 0.1 < spread < 1.5,
    }
    yield "one parameter, and both uses read it"
    yield "sqrt(d_model) at the look-up and nowhere else"
    yield "the first logits are about as large as 1"

    for name, output in (("embed", module.embed(tokens)), ("score", module.score(x))):
        message = f"{name} hands no gradient to the matrix: it uses a copy, or is cut off"
        require(output.requires_grad, message)
        (gradient,) = torch.autograd.grad((output**2).sum(), weight, allow_unused=True)
        require(gradient is not None and bool(gradient.any()), message)
    yield "one gradient, the sum of both uses"

    with torch.no_grad():
        weight.add_(1.0)
    for when, kept in (("a step of training", module), ("a copy", copy.deepcopy(module))):
        (weight,) = kept.parameters()
        embeds = close(kept.embed(tokens), weight[tokens] * root, FLOAT32)
        tied = embeds and close(kept.score(x), x @ weight.T, FLOAT32)
        require(tied, f"after {when} embed and score no longer use one matrix")
    yield "still one matrix after a step and after a copy"


@check("label smoothing")
def check_smoothed_loss(loss: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check loss(logits, target_out, smoothing) where some logits may be minus infinity.

    The smoothing is shared evenly by the tokens that can be said, those with a finite logit.

    Shapes: logits (batch, time, vocab), target_out (batch, time). Returns a number.
    """

    def reference(logits: Tensor, target: Tensor, smoothing: float, ignored: int) -> Tensor:
        flat = logits.flatten(0, 1), target.flatten()
        return F.cross_entropy(*flat, ignore_index=ignored, label_smoothing=smoothing)

    def run(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        return expect_tensor(loss(logits, target, smoothing), (), "a tensor with one number")

    logits = 2 * normal(3, 5, 7)
    target = torch.tensor([[2, 3, 4, 5, 6], [6, 2, PAD, PAD, PAD], [5, PAD, PAD, PAD, PAD]])
    for smoothing in (0.0, 0.1, 0.4):
        got, every = run(logits, target, smoothing), reference(logits, target, smoothing, -1)
        want = reference(logits, target, smoothing, PAD)
        require_close(
            got,
            want,
            f"smoothing {smoothing}: expected {want:.4f}, got {got:.4f}; the target gets "
            "1 - smoothing, and the smoothing is shared by all tokens, the target among them",
            {"padding is counted: only real tokens enter the mean": every},
        )
    yield "torch's cross-entropy where all logits are finite"
    yield "padding counts neither above nor below the line"

    banned = [PAD, 1]
    logits[..., banned] = -torch.inf
    for smoothing in (0.0, 0.1):
        x, y = logits.clone().requires_grad_(), logits[..., 2:].clone().requires_grad_()
        got = run(x, target, smoothing)
        want = reference(y, (target - 2).clamp(min=-1), smoothing, -1)
        yield {
            f"smoothing {smoothing}: got {got.item()} where a token has the logit -inf; 0 times "
            "infinity is NaN, so leave these tokens out before you multiply": not got.isfinite(),
            f"with two tokens at -inf: expected {want:.4f}, got {got:.4f}; the smoothing is shared "
            "by the tokens with a finite logit, evenly, "
            "and sums to one with the rest": not close(got, want),
            "no gradient: the loss is cut off from the logits": not got.requires_grad,
        }
        (gradient,) = torch.autograd.grad(got, x)
        (wanted,) = torch.autograd.grad(want, y)
        yield {
            "the loss is finite, but its gradient is not": not gradient.isfinite().all(),
            "a token at -inf has a gradient, expected 0": gradient[..., banned].any(),
            "expected the gradient (p - q) / tokens": not close(gradient[..., 2:], wanted),
        }
    yield "tokens at -inf get no share, and no NaN arises"
