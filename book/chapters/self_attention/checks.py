"""Properties that self-attention must have, and what an answer about order must get right."""

import math
from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

from checks.attention import attention_by_loops, require_attention
from checks.framework import (
    Steps,
    check,
    expect,
    expect_tensor,
    is_parts,
    normal,
    normals,
    require,
    require_close,
    require_gradients,
    shown,
)

# (batch, time, d_x, d_k, d_v). With all alike, a wrong transpose raises no error, so this is first.
EQUAL = (4, 4, 4, 4, 4)
SIZES = ((2, 5, 7, 3, 11), (3, 1, 5, 2, 7), (2, 7, 3, 13, 5))  # no two axes can be mixed up
WORDS = ((5, 6), (3, 7), (2, 2), (4, 1))  # letters in the alphabet, length of a word


@check("self-attention")
def check_self_attention(attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(x, w_q, w_k, w_v), the self-attention of a batch of sequences.

    Shapes: x (batch, time, d_x), w_q and w_k (d_x, d_k), w_v (d_x, d_v); output
        (batch, time, d_v).
    """
    for sizes in (EQUAL, *SIZES):
        x, *weights = inputs = _draw(*sizes)
        require_attention(
            attend(*inputs),
            *(x @ w for w in weights),
            otherwise="expected softmax(Q K^T / sqrt(d_k)) V with Q = X W_Q, K = X W_K, V = X W_V",
            d_x=sizes[2],
        )
    yield "sequences of a batch do not mix"
    yield f"equals the loops on {len(SIZES)} shapes, with d_x, d_k and d_v all different"

    require_gradients(
        attend,
        lambda x, w_q, w_k, w_v: attention_by_loops(x @ w_q, x @ w_k, x @ w_v),
        **dict(zip(("x", "w_q", "w_k", "w_v"), _draw(*SIZES[0]), strict=True)),
    )
    yield "gradients reach the input and all three matrices"


@check("equivariance gap")
def check_equivariance_gap(
    gap: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], float],
) -> Steps:
    """Check gap(function, x, order), the largest entry of |f(P x) - P f(x)|, P x = x[order].

    Shapes: x (time, d); order (time,), a permutation of the positions; function keeps the axes.
    """
    x = normal(5, 3)
    order = torch.tensor([1, 2, 3, 0, 4])  # a circle of four: not its own inverse
    place = torch.arange(5.0, dtype=torch.float64)[:, None]
    doubled, summed = (lambda x: 2 * x), (lambda x: x.cumsum(0))
    for function in (doubled, summed, lambda x: x * place, lambda x: -x * place):
        after, before = function(x[order]), function(x)
        largest = (after - before[order]).abs().max()
        answer = expect(gap(function, x, order), Real | Tensor, "a number")
        got = torch.as_tensor(answer, dtype=torch.float64).squeeze()
        require(got.numel() == 1, f"expected one number, got {got.numel()} of them")
        mistakes = {
            "this compares with f(x), which asks for invariance: compare with f(x)[order]": (
                (after - before).abs().max()
            ),
            "the right side is f(x)[inverse]: use the same order on both sides": (
                (after - before[order.argsort()]).abs().max()
            ),
            "the gap of a map that depends on the order is not 0: f must see x[order]": 0.0,
            "a negative difference counts too: abs is missing": (after - before[order]).max(),
        }
        otherwise = f"expected {largest:.4f}, the largest entry of |f(P x) - P f(x)|, got {got:.4f}"
        require_close(got, largest, otherwise, mistakes)
    yield from ("0 for an equivariant map", "the largest entry, of either sign, for another")


@check("reversing weights")
@torch.no_grad()
def check_reversing_weights(make: Callable[[int, int], tuple[Tensor, Tensor, Tensor]]) -> Steps:
    """Check make(n_letters, n): matrices with which self-attention reverses words of n letters.

    Shapes: a word is x (n, n_letters + n), each row a one-hot letter and then a one-hot position;
        w_q and w_k (n_letters + n, d_k), d_k as you like; w_v (n_letters + n, n_letters).
    """
    for n_letters, n in WORDS:
        answer, width = make(n_letters, n), n_letters + n
        three = f"expected three matrices w_q, w_k, w_v, got {shown(answer)}"
        require(is_parts(answer, 3, Tensor), three)
        w_q, w_k, w_v = (expect_tensor(w, w.shape, like=torch.eye(1)).double() for w in answer)
        require(
            w_q.shape == w_k.shape == (width, *w_q.shape[-1:]) and w_v.shape == (width, n_letters),
            f"expected w_q and w_k of shape ({width}, d_k) and w_v of shape ({width}, "
            f"{n_letters}), got {', '.join(str(tuple(w.shape)) for w in answer)}",
        )
        letters = torch.randint(n_letters, (20, n), generator=torch.Generator().manual_seed(n))
        x = torch.cat([torch.eye(n_letters)[letters], torch.eye(n).expand(20, n, n)], -1).double()
        weights = (x @ w_q @ (x @ w_k).mT / math.sqrt(w_q.shape[1])).softmax(-1)
        for word, rows, said in zip(letters, weights, (weights @ x @ w_v).argmax(-1), strict=True):
            i = int(rows.flip(1).diagonal().argmin())
            yield {
                "the weights are not finite: the numbers in w_q and w_k are too large": (
                    not rows.isfinite().all()
                ),
                "position i must look at position n - 1 - i with a weight above 0.99; in a word of "
                f"{n} letters position {i} gives it only {rows[i, n - 1 - i].item():.2f} and looks "
                f"most at position {int(rows[i].argmax())}": not rows[i, n - 1 - i] > 0.99,
                f"the letters {word.tolist()} came out as {said.tolist()}, not as "
                f"{word.flip(0).tolist()}: the value of a position must be its letter": (
                    not torch.equal(said, word.flip(0))
                ),
            }
    yield from (
        "each position looks at its mirror image",
        f"words of {len(WORDS)} lengths are reversed",
    )


def _draw(batch: int, time: int, d_x: int, d_k: int, d_v: int) -> list[Tensor]:
    return normals((batch, time, d_x), (d_x, d_k), (d_x, d_k), (d_x, d_v), seed=time)
