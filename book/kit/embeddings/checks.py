"""Properties of embeddings, of a matrix that is used twice, and of label smoothing."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.shared.checks import Report, require
from lib.data import PAD


def check_lookup_gradient(gradient: Callable[[Tensor, Tensor, int], Tensor]) -> Report:
    """Check gradient(tokens, upstream, vocab): what a look-up times sqrt(d_model) hands back.

    Shapes: tokens (batch, time); upstream, the derivative of the loss to each looked-up vector,
        (batch, time, d_model). Returns the derivative to the matrix, (vocab, d_model).
    Errors: CheckFailed.
    """
    vocab = 11
    for shape, d_model in (((2, 5), 3), ((1, 1), 7), ((3, 13), 5)):
        tokens = torch.arange(math.prod(shape)).view(shape) % 5 + 1  # some stand there twice
        tokens[0, -1] = vocab - 1
        upstream = torch.randn(*shape, d_model, dtype=torch.float64)
        weight = torch.randn(vocab, d_model, dtype=torch.float64, requires_grad=True)
        (F.embedding(tokens, weight) * math.sqrt(d_model) * upstream).sum().backward()
        got = _tensor(gradient(tokens, upstream, vocab), (vocab, d_model))
        unseen = [i for i in range(vocab) if i not in tokens]
        require(not got[unseen].any(), "a token that does not occur has a gradient of 0")
        factor = math.sqrt(d_model)
        require(
            not _close(got * factor, weight.grad),
            f"too small by sqrt(d_model) = {factor:.2f}: the look-up multiplies by it, so the "
            "gradient is multiplied by it too",
        )
        for i in sorted(set(tokens.flatten().tolist())):
            times = int((tokens == i).sum())
            require(
                _close(got[i], weight.grad[i]),
                f"token {i}, which occurs {times} times: expected {_short(weight.grad[i])}, got "
                f"{_short(got[i])}; each occurrence adds sqrt(d_model) times its gradient",
            )
    return Report(
        "gradient of a look-up",
        ("occurrences of a token add up", "tokens that do not occur get 0", "times sqrt(d_model)"),
    )


def check_shared_matrix(make: Callable[[int, int], nn.Module]) -> Report:
    """Check make(vocab, d_model), a module with embed(tokens) and score(x) and one matrix for both.

    Shapes: embed takes tokens (*batch) to (*batch, d_model), score x (*batch, d_model) to
        (*batch, vocab).
    Errors: CheckFailed.
    """
    vocab, d_model = 499, 64
    module = make(vocab, d_model)
    require(isinstance(module, nn.Module), f"expected a module of torch, got {module!r}")
    for name in ("embed", "score"):
        require(callable(getattr(module, name, None)), f"expected a method {name}")
    shapes = [tuple(parameter.shape) for parameter in module.parameters()]
    require(
        shapes == [(vocab, d_model)],
        f"expected one parameter of the shape {(vocab, d_model)}, got {shapes or 'none'}; two "
        "parameters have two gradients, even if they share their numbers",
    )
    weight = next(module.parameters())
    tokens, x = torch.arange(15).view(3, 5), torch.randn(3, 5, d_model)
    embedded = _tensor(module.embed(tokens), (3, 5, d_model))
    scores = _tensor(module.score(x), (3, 5, vocab))
    rows, products, root = weight.detach()[tokens], x @ weight.detach().T, math.sqrt(d_model)
    require(not _close(embedded, rows), "embed: expected sqrt(d_model) times the row, got the row")
    require(_close(embedded, rows * root), "embed: expected sqrt(d_model) times the token's row")
    require(
        not _close(scores, products * root) and not _close(scores, products / root),
        "score: expected the plain dot product; sqrt(d_model) belongs to the look-up alone",
    )
    require(_close(scores, products), "score: expected the dot product of x and each token's row")
    spread = (F.layer_norm(x, (d_model,)) @ weight.detach().T).std().item()
    require(
        0.1 < spread < 1.5,
        f"the first logits have a standard deviation of {spread:.2g}, expected about 1 or 1/2; let "
        "the entries start with a standard deviation of 1 / sqrt(d_model) or half of it",
    )
    _require_one_gradient(module, tokens, x)
    with torch.no_grad():
        weight.add_(1.0)
    _require_tied(module, "after a step of training")
    _require_tied(copy.deepcopy(module), "after a copy")
    return Report(
        "one matrix, used twice",
        (
            "one parameter, and both uses read it",
            "sqrt(d_model) at the look-up and nowhere else",
            "the first logits are about as large as 1",
            "one gradient, the sum of both uses",
            "still one matrix after a step and after a copy",
        ),
    )


def check_smoothed_loss(loss: Callable[[Tensor, Tensor, float], Tensor]) -> Report:
    """Check loss(logits, target_out, smoothing) where some logits may be minus infinity.

    The smoothing is shared evenly by the tokens that can be said, those with a finite logit.

    Shapes: logits (batch, time, vocab), target_out (batch, time). Returns a number.
    Errors: CheckFailed.
    """
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    target = torch.tensor([[2, 3, 4, 5, 6], [6, 2, PAD, PAD, PAD], [5, PAD, PAD, PAD, PAD]])
    for smoothing in (0.0, 0.1, 0.4):
        got = _number(loss(logits, target, smoothing))
        want = F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=smoothing
        )
        every = F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=smoothing)
        require(not _close(got, every), "padding is counted: only real tokens enter the mean")
        require(
            _close(got, want),
            f"smoothing {smoothing}: expected {want:.4f}, got {got:.4f}; the target gets "
            "1 - smoothing, and the smoothing is shared by all tokens, the target among them",
        )
    banned = [PAD, 1]
    logits[..., banned] = -torch.inf
    open_ = [i for i in range(7) if i not in banned]
    for smoothing in (0.0, 0.1):
        x = logits.clone().requires_grad_()
        got = _number(loss(x, target, smoothing))
        require(
            bool(got.isfinite()),
            f"smoothing {smoothing}: got {got.item()} where a token has the logit -inf; 0 times "
            "infinity is NaN, so leave these tokens out before you multiply",
        )
        y = logits[..., open_].clone().requires_grad_()
        want = F.cross_entropy(
            y.flatten(0, 1),
            (target - 2).clamp(min=-1).flatten(),
            ignore_index=-1,
            label_smoothing=smoothing,
        )
        require(
            _close(got, want),
            f"with two tokens at -inf: expected {want:.4f}, got {got:.4f}; the smoothing is shared "
            "by the tokens with a finite logit, evenly, and sums to one with the rest",
        )
        require(got.requires_grad, "no gradient: the loss is cut off from the logits")
        (gradient,) = torch.autograd.grad(got, x)
        (wanted,) = torch.autograd.grad(want, y)
        require(bool(gradient.isfinite().all()), "the loss is finite, but its gradient is not")
        require(not gradient[..., banned].any(), "a token at -inf has a gradient, expected 0")
        require(_close(gradient[..., open_], wanted), "expected the gradient (p - q) / tokens")
    return Report(
        "label smoothing",
        (
            "torch's cross-entropy where all logits are finite",
            "padding counts neither above nor below the line",
            "tokens at -inf get no share, and no NaN arises",
        ),
    )


def _require_one_gradient(module: nn.Module, tokens: Tensor, x: Tensor) -> None:
    weight = next(module.parameters())
    for name, output in (("embed", module.embed(tokens)), ("score", module.score(x))):
        message = f"{name} hands no gradient to the matrix: it uses a copy, or is cut off"
        require(output.requires_grad, message)
        (gradient,) = torch.autograd.grad((output**2).sum(), weight, allow_unused=True)
        require(gradient is not None and bool(gradient.any()), message)


def _require_tied(module: nn.Module, when: str) -> None:
    weight = next(module.parameters())
    tokens, x = torch.arange(7), torch.randn(7, weight.shape[1])
    embedded = weight.detach()[tokens] * math.sqrt(weight.shape[1])
    holds = _close(module.embed(tokens), embedded) and _close(module.score(x), x @ weight.T)
    require(holds, f"{when} embed and score no longer use one matrix")


def _tensor(value: object, shape: tuple[int, ...]) -> Tensor:
    require(isinstance(value, Tensor), f"expected a tensor of the shape {shape}, got {value!r}")
    require(tuple(value.shape) == shape, f"expected the shape {shape}, got {tuple(value.shape)}")
    return value


def _number(value: object) -> Tensor:
    require(isinstance(value, Tensor), f"expected a tensor with one number, got {value!r}")
    require(value.ndim == 0, f"expected one number, got the shape {tuple(value.shape)}")
    return value


def _close(a: Tensor, b: Tensor) -> bool:
    rtol, atol = (1e-7, 1e-8) if a.dtype == torch.float64 else (1e-4, 1e-5)
    return torch.allclose(a, b.to(a.dtype), rtol=rtol, atol=atol)


def _short(row: Tensor) -> list[float]:
    return [round(value, 2) for value in row.tolist()[:3]]
