"""Properties that self-attention must have, and what an answer about order must get right."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from kit.shared.attention_checks import attention_by_loops, attention_mistakes
from kit.shared.checks import (
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    is_parts,
    normal,
    normals,
    require,
    require_close,
    require_gradients,
)

# (batch, time, d_x, d_k, d_v): distinct primes, so that no two axes can be mixed up; and length 1.
SIZES = ((2, 5, 7, 3, 11), (3, 1, 5, 2, 7), (2, 7, 3, 13, 5))
TRANSPOSED = (
    "sequences of the batch mix: .T reverses all three axes, the batch too; swap the last two "
    "with key.transpose(-2, -1)"
)
WORDS = ((5, 6), (3, 7), (2, 2), (4, 1))  # letters in the alphabet, length of a word


@check("self-attention")
def check_self_attention(attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(x, w_q, w_k, w_v), the self-attention of a batch of sequences.

    Shapes: x (batch, time, d_x), w_q and w_k (d_x, d_k), w_v (d_x, d_v); output
        (batch, time, d_v).
    """
    # With all sizes alike a wrong transpose raises no error, so this comes first.
    x, *weights = _draw(4, 4, 4, 4, 4)
    output = expect_tensor(attend(x, *weights), (4, 4, 4))
    changed = torch.cat([x[:3], x[3:] + 1])
    require(close(attend(changed, *weights)[:3], output[:3]), TRANSPOSED)
    yield "sequences of a batch do not mix"

    for sizes in SIZES:
        x, *weights = inputs = _draw(*sizes)
        batch, time, d_x, _, d_v = sizes
        query, key, value = (x @ w for w in weights)
        others = {"d_x": d_x, "d_v": d_v, "the length": time}
        require_close(
            expect_tensor(attend(*inputs), (batch, time, d_v)),
            _by_loops(*inputs),
            "expected softmax(Q K^T / sqrt(d_k)) V with Q = X W_Q, K = X W_K, V = X W_V",
            attention_mistakes(query, key, value, others),
        )
    yield f"equals the loops on {len(SIZES)} shapes, with d_x, d_k and d_v all different"

    named = dict(zip(("x", "w_q", "w_k", "w_v"), _draw(*SIZES[0]), strict=True))
    require_gradients(attend, _by_loops, **named)
    yield "gradients reach the input and all three matrices"


@check("equivariance gap")
def check_equivariance_gap(
    gap: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], float],
) -> Steps:
    """Check gap(function, x, order), the largest entry of |f(P x) - P f(x)|, P x = x[order].

    Shapes: x (time, d); order (time,), a permutation of the positions; function keeps the axes.
    Errors: CheckFailed if the gap is not that of equivariance, or not its largest entry.
    """
    x = normal(5, 3)
    order = torch.tensor([2, 0, 1, 4, 3])  # the first three form a circle: not its own inverse
    place = torch.arange(5.0, dtype=torch.float64)[:, None]

    def measure(function: Callable[[Tensor], Tensor]) -> float:
        return float(expect(gap(function, x, order), float | int | Tensor, "a number"))

    doubled, summed = measure(lambda x: 2 * x), measure(lambda x: x.cumsum(0))
    yield {
        "doubling each vector is equivariant, so its gap is 0; compare f(P x) with P f(x), where "
        "both sides use the same order: comparing "
        "with f(x) would ask for invariance": doubled >= 1e-10,
        "a running sum depends on the order, so its gap "
        "is not 0; the function must see x[order]": summed <= 0.1,
    }
    yield "0 for an equivariant map"

    for function in (lambda x: x * place, lambda x: -x * place):
        expected = (function(x[order]) - function(x)[order]).abs().max().item()
        got = measure(function)
        require(
            math.isclose(got, expected, rel_tol=1e-9),
            "expected the largest entry of |f(P x) - P f(x)|, too low or too high alike, here "
            f"{expected:.4f}, got {got:.4f}",
        )
    yield "the largest entry, of either sign, for another"


@check("reversing weights")
def check_reversing_weights(make: Callable[[int, int], tuple[Tensor, Tensor, Tensor]]) -> Steps:
    """Check make(n_letters, n): matrices with which self-attention reverses words of n letters.

    Shapes: a word is x (n, n_letters + n), each row a one-hot letter and then a one-hot position;
        w_q and w_k (n_letters + n, d_k), d_k as you like; w_v (n_letters + n, n_letters).
    Errors: CheckFailed if a word comes out wrong, or if a position looks at several others.
    """
    for n_letters, n in WORDS:
        answer = make(n_letters, n)
        require(is_parts(answer, 3), f"expected three matrices w_q, w_k, w_v, got {answer!r}")
        w_q, w_k, w_v = answer
        width = n_letters + n
        shapes = [tuple(getattr(w, "shape", ())) for w in answer]
        as_wide = shapes[0] == shapes[1] and shapes[2] == (width, n_letters)
        require(
            as_wide and shapes[0][0] == width,
            f"expected matrices of {width} rows, w_q and w_k equally wide and w_v {n_letters} "
            f"wide, got {shapes}",
        )
        generator = torch.Generator().manual_seed(n)
        for _ in range(20):
            letters = torch.randint(n_letters, (n,), generator=generator)
            x = torch.cat([torch.eye(n_letters)[letters], torch.eye(n)], dim=1)
            weights = ((x @ w_q.float()) @ (x @ w_k.float()).T / math.sqrt(w_q.shape[1])).softmax(1)
            least = weights.flip(1).diagonal().min().item()
            written = (weights @ (x @ w_v.float())).argmax(1)
            yield {
                "position i must look at position n - 1 - i with a weight near 1; in a word of "
                f"{n} letters one gives it only {least:.2f}": least <= 0.99,
                f"the letters {letters.tolist()} came out as {written.tolist()}: the "
                "value of a position must be its letter": not torch.equal(written, letters.flip(0)),
            }
    yield "each position looks at its mirror image"
    yield f"words of {len(WORDS)} lengths are reversed"


def _draw(batch: int, time: int, d_x: int, d_k: int, d_v: int) -> list[Tensor]:
    return normals((batch, time, d_x), (d_x, d_k), (d_x, d_k), (d_x, d_v), seed=time)


def _by_loops(
    x: Float[Tensor, "batch time d_x"], w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> Float[Tensor, "batch time d_v"]:
    return torch.stack([attention_by_loops(one @ w_q, one @ w_k, one @ w_v) for one in x])
