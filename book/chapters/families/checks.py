"""Properties of what the families need: hidden tokens, a fused projection, keys shared by heads."""

from collections.abc import Callable

import torch
from torch import Tensor

from chapters.families.families import MASK
from checks.framework import (
    Steps,
    check,
    expect_pair,
    expect_tensor,
    is_parts,
    normals,
    require,
    require_close,
)
from lib.data import BOS, EOS, PAD

VOCAB = 211


def _differ(fraction: float, wanted: float) -> bool:
    """By more than four standard deviations of 5,000 draws."""
    return abs(fraction - wanted) >= 0.025


@check("masking as BERT does it")
def check_bert_masking(corrupt: Callable[[Tensor, int], tuple[Tensor, Tensor]]) -> Steps:
    """Check corrupt(rows, n_vocab), which hides tokens as BERT does: 15 %, of these 80/10/10.

    Shapes: rows (batch, time). Returns inputs and targets of that shape, PAD where none is asked.
    Source: Devlin et al. 2019, section 3.1.
    """
    torch.manual_seed(0)  # the same verdict on the same answer
    rows = torch.randint(MASK + 1, VOCAB, (701, 53))
    rows[:, 0], rows[:, -3], rows[:, -2:] = BOS, EOS, PAD
    words = rows > EOS
    two_words = torch.where(words, MASK + 1 + rows % 2, rows)

    def corrupted(rows: Tensor, n_vocab: int) -> tuple[Tensor, Tensor]:
        inputs, targets = expect_pair(corrupt(rows, n_vocab), "a pair (inputs, targets)")
        expect_tensor(inputs, rows.shape, like=rows)
        return inputs, expect_tensor(targets, rows.shape, like=rows)

    inputs, targets = corrupted(rows, VOCAB)
    asked = targets != PAD
    fraction = (asked & words).sum().item() / words.sum().item()
    masked, stays = inputs[asked] == MASK, inputs[asked] == rows[asked]
    fates = [fate.float().mean().item() for fate in (masked, ~(masked | stays), stays)]
    got = ", ".join(f"{fate:.1%}" for fate in fates)
    others = inputs[asked][~(masked | stays)].unique()
    yield {
        "a target is the token that stood there, or PAD; inputs come first, then targets": (
            asked & (targets != rows)
        ).any(),
        "a token that is no target was changed: choose once, then decide among the chosen": (
            words & ~asked & (inputs != rows)
        ).any(),
        f"expected 15 % of the words as targets, got {fraction:.1%}": _differ(fraction, 0.15),
        "PAD, BOS or EOS is a target or changed: choose among the words": (
            ~words & (asked | (inputs != rows))
        ).any(),
        "the same positions are chosen in each row: draw for each token": (asked == asked[0]).all(),
        "expected 80 % of the targets to become MASK, 10 % another word, "
        f"10 % to stay, got {got}": any(map(_differ, fates, (0.8, 0.1, 0.1))),
        "only a few different random words occur: draw one for each token": len(others) < VOCAB / 2,
    }
    (once, first), (again, second) = (corrupted(two_words, MASK + 3) for _ in range(2))
    drawn = torch.cat((once[first != PAD], again[second != PAD]))
    yield {
        "the same tokens are hidden at each call: draw anew": once.equal(again),
        "the random words must be numbers from MASK + 1 to n_vocab - 1": drawn.min() < MASK
        or drawn.max() > MASK + 2
        or (drawn == MASK).float().mean() > 0.817,  # 0.8, or 0.833 if MASK is drawn too
    }
    yield "15 % of the words are targets, no PAD, BOS or EOS"
    yield "of these 80 % MASK, 10 % another word, 10 % as they were"
    yield "all others as they were; rows untouched; drawn anew at each call"


@check("c_attn in three")
def check_split_c_attn(split: Callable[[Tensor, Tensor], list[tuple[Tensor, Tensor]]]) -> Steps:
    """Check split(weight, bias): GPT-2's c_attn as three (weight, bias) for nn.Linear: q, k, v.

    Shapes: weight (d_model, 3 d_model), used as x W; bias (3 d_model). Each returned weight is
        (d_model, d_model) as nn.Linear keeps it, (out, in), each bias (d_model).
    Source: Radford et al. 2019, as published.
    """
    d_model = 6
    weight, bias = normals((d_model, 3 * d_model), (3 * d_model,))
    parts = split(weight, bias)
    of = f" of {len(parts)}" if isinstance(parts, list | tuple) else ""
    got = "got None" if parts is None else f"got a {type(parts).__name__}{of}"
    require(is_parts(parts, 3), f"expected three pairs (weight, bias), {got}")
    for third, (name, pair) in enumerate(zip("qkv", parts, strict=True)):
        own, offset = expect_pair(pair, f"a pair (weight, bias) for {name}")
        expect_tensor(own, (d_model, d_model), hint=f"; the weight of {name}")
        expect_tensor(offset, (d_model,), hint=f"; the bias of {name}")
        first = third * d_model
        where = f"{first} to {first + d_model - 1}"
        part = weight[:, first : first + d_model]
        mistakes = {
            f"{name} is not transposed: nn.Linear keeps (out, in) and uses x W^T; a square matrix "
            "loads either way, and only the numbers tell": part,
            f"{name} takes every third column: q, k and v stand side by side": weight[
                :, third::3
            ].T,
        }
        told = f"the weight of {name} is not columns {where} of W, transposed; the order is q, k, v"
        require_close(own, part.T, told, mistakes)
        told = f"the bias of {name} is not entries {where} of b; the order is q, k, v"
        require_close(offset, bias[first : first + d_model], told)
    yield from ("q, k, v in this order", "each transposed for nn.Linear", "biases too")


@check("heads that share their keys")
def check_shared_heads(share: Callable[[Tensor, int, int], Tensor]) -> Steps:
    """Check share(weight, n_heads, n_groups): W^K with each group's heads replaced by their mean.

    Shapes: weight (n_heads d_k, d_model), as nn.Linear keeps it. Returns (n_groups d_k, d_model).
    Source: Ainslie et al. 2023, section 2.1.
    """
    d_k, d_model = 5, 7
    for n_heads, n_groups in ((6, 6), (6, 1), (6, 2), (6, 3), (4, 2)):
        (weight,) = normals((n_heads * d_k, d_model), seed=n_heads + n_groups)
        each, where = n_heads // n_groups, f"n_heads={n_heads}, n_groups={n_groups}"
        heads = weight.view(n_heads, d_k, d_model)
        groups = heads.unflatten(0, (n_groups, each))  # (n_groups, each, d_k, d_model)
        mistakes = {
            "a group is made of neighbouring heads; "
            "here it takes every n_groups-th head": heads.unflatten(0, (each, n_groups)).mean(0),
            "features of one head were averaged; the axes are (heads, d_k, d_model)": weight.view(
                n_groups, d_k, each, d_model
            ).mean(2),
            "a mean, not a sum": groups.sum(1),
            "the mean of all heads of a group, not its first": groups[:, 0],
        }
        got = expect_tensor(share(weight, n_heads, n_groups), (n_groups * d_k, d_model))
        told = f"{where}: expected the mean of each group's heads, feature by feature"
        named = {f"{where}: {meaning}": wrong.flatten(0, 1) for meaning, wrong in mistakes.items()}
        require_close(got, groups.mean(1).flatten(0, 1), told, named)
    yield "as many groups as heads: unchanged"
    yield "one group: the mean of all"
    yield "groups of neighbours"
