"""Properties that self-attention must have, and what an answer about order must get right."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from kit.shared.attention_checks import attention_by_loops
from kit.shared.checks import Report, close, expect_tensor, require

# (batch, time, d_x, d_k, d_v): distinct primes, so that no two axes can be mixed up; and length 1.
SIZES = ((2, 5, 7, 3, 11), (3, 1, 5, 2, 7), (2, 7, 3, 13, 5))
TRANSPOSED = (
    "sequences of the batch mix: .T reverses all three axes, the batch too; swap the last two "
    "with key.transpose(-2, -1)"
)
WORDS = ((5, 6), (3, 7), (2, 2), (4, 1))  # letters in the alphabet, length of a word


def check_self_attention(attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check attend(x, w_q, w_k, w_v), the self-attention of a batch of sequences.

    Shapes: x (batch, time, d_x), w_q and w_k (d_x, d_k), w_v (d_x, d_v); output
        (batch, time, d_v).
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    # With all sizes alike a wrong transpose raises no error, so this comes first.
    x, *weights = _draw(4, 4, 4, 4, 4)
    output = expect_tensor(attend(x, *weights), (4, 4, 4))
    changed = torch.cat([x[:3], x[3:] + 1])
    require(close(attend(changed, *weights)[:3], output[:3]), TRANSPOSED)
    for sizes in SIZES:
        x, *weights = _draw(*sizes)
        output = expect_tensor(attend(x, *weights), (*sizes[:2], sizes[4]))
        expected = _by_loops(x, *weights)
        require(close(output, expected), _diagnosis(output, x, *weights))
    _require_gradients(attend, *_draw(*SIZES[0]))
    return Report(
        "self-attention",
        (
            "sequences of a batch do not mix",
            f"equals the loops on {len(SIZES)} shapes, with d_x, d_k and d_v all different",
            "gradients reach the input and all three matrices",
        ),
    )


def check_equivariance_gap(
    gap: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], float],
) -> Report:
    """Check gap(function, x, order), the largest entry of |f(P x) - P f(x)|, P x = x[order].

    Shapes: x (time, d); order (time,), a permutation of the positions; function keeps the axes.
    Errors: CheckFailed if the gap is not that of equivariance, or not its largest entry.
    """
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = torch.tensor([2, 0, 1, 4, 3])  # the first three form a circle: not its own inverse
    place = torch.arange(5.0, dtype=torch.float64)[:, None]

    def measure(function: Callable[[Tensor], Tensor]) -> float:
        got = gap(function, x, order)
        require(
            isinstance(got, float | int | Tensor) and not isinstance(got, bool),
            f"expected a number, got {got!r}",
        )
        return float(got)

    require(
        measure(lambda x: 2 * x) < 1e-10,
        "doubling each vector is equivariant, so its gap is 0; compare f(P x) with P f(x), where "
        "both sides use the same order: comparing with f(x) would ask for invariance",
    )
    require(
        measure(lambda x: x.cumsum(0)) > 0.1,
        "a running sum depends on the order, so its gap is not 0; the function must see x[order]",
    )
    for function in (lambda x: x * place, lambda x: -x * place):
        expected = (function(x[order]) - function(x)[order]).abs().max().item()
        got = measure(function)
        require(
            math.isclose(got, expected, rel_tol=1e-9),
            "expected the largest entry of |f(P x) - P f(x)|, too low or too high alike, here "
            f"{expected:.4f}, got {got:.4f}",
        )
    return Report(
        "equivariance gap",
        ("0 for an equivariant map", "the largest entry, of either sign, for another"),
    )


def check_reversing_weights(
    make: Callable[[int, int], tuple[Tensor, Tensor, Tensor]],
) -> Report:
    """Check make(n_letters, n): matrices with which self-attention reverses words of n letters.

    Shapes: a word is x (n, n_letters + n), each row a one-hot letter and then a one-hot position;
        w_q and w_k (n_letters + n, d_k), d_k as you like; w_v (n_letters + n, n_letters).
    Errors: CheckFailed if a word comes out wrong, or if a position looks at several others.
    """
    for n_letters, n in WORDS:
        answer = make(n_letters, n)
        require(
            isinstance(answer, tuple | list) and len(answer) == 3,
            f"expected three matrices w_q, w_k, w_v, got {answer!r}",
        )
        w_q, w_k, w_v = answer
        require(
            all(isinstance(w, Tensor) and w.shape[0] == n_letters + n for w in answer)
            and w_q.shape == w_k.shape
            and w_v.shape[1] == n_letters,
            f"expected matrices of {n_letters + n} rows, w_q and w_k equally wide and w_v "
            f"{n_letters} wide, got {[tuple(getattr(w, 'shape', ())) for w in answer]}",
        )
        generator = torch.Generator().manual_seed(n)
        for _ in range(20):
            letters = torch.randint(n_letters, (n,), generator=generator)
            x = torch.cat([torch.eye(n_letters)[letters], torch.eye(n)], dim=1)
            weights = ((x @ w_q.float()) @ (x @ w_k.float()).T / math.sqrt(w_q.shape[1])).softmax(1)
            least = weights.flip(1).diagonal().min().item()
            require(
                least > 0.99,
                f"position i must look at position n - 1 - i with a weight near 1; in a word of "
                f"{n} letters one gives it only {least:.2f}",
            )
            written = (weights @ (x @ w_v.float())).argmax(1)
            require(
                torch.equal(written, letters.flip(0)),
                f"the letters {letters.tolist()} came out as {written.tolist()}: the value of a "
                "position must be its letter",
            )
    return Report(
        "reversing weights",
        ("each position looks at its mirror image", f"words of {len(WORDS)} lengths are reversed"),
    )


def _draw(batch: int, time: int, d_x: int, d_k: int, d_v: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(time)
    shapes = ((batch, time, d_x), (d_x, d_k), (d_x, d_k), (d_x, d_v))
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def _by_loops(
    x: Float[Tensor, "batch time d_x"], w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> Float[Tensor, "batch time d_v"]:
    return torch.stack([attention_by_loops(one @ w_q, one @ w_k, one @ w_v) for one in x])


def _diagnosis(output: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> str:
    """Say which well-known mistake gives just this output, if one does."""
    value, products = x @ w_v, (x @ w_q) @ (x @ w_k).mT
    (time, d_x), d_k = x.shape[1:], w_q.shape[1]
    scales = {"nothing": 1, "d_k itself": d_k, "the root of d_x": d_x**0.5}
    scales |= {"the root of d_v": w_v.shape[1] ** 0.5, "the root of the length": time**0.5}
    for name, scale in scales.items():
        if close(output, (products / scale).softmax(-1) @ value):
            return f"the scores are divided by {name}; divide by the root of d_k"
    scores = products / math.sqrt(d_k)
    if close(output, scores.softmax(-2) @ value):
        return "the softmax runs over the queries; it must run over the keys, the last axis"
    if close(output, scores.mT.softmax(-1) @ value):
        return "queries and keys are swapped: row i of the scores belongs to query i"
    if close(output, scores @ value):
        return "the scores are used as weights; a softmax over the keys is missing"
    return "expected softmax(Q K^T / sqrt(d_k)) V with Q = X W_Q, K = X W_K, V = X W_V"


def _require_gradients(attend: Callable, *inputs: Tensor) -> None:
    inputs = [x.requires_grad_() for x in inputs]
    output = attend(*inputs)
    require(output.requires_grad, "no gradient: the output is cut off from the inputs")
    got = torch.autograd.grad(output.square().sum(), inputs, allow_unused=True)
    want = torch.autograd.grad(_by_loops(*inputs).square().sum(), inputs)
    for name, g, w in zip(("x", "w_q", "w_k", "w_v"), got, want, strict=True):
        require(g is not None and close(g, w), f"the gradient of {name} is wrong or missing")
