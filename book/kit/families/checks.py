"""Properties of what the families need: hidden tokens, a fused projection, keys shared by heads."""

from collections.abc import Callable

import torch
from torch import Tensor

from kit.families.families import MASK
from kit.shared.checks import (
    Steps,
    check,
    close,
    expect_pair,
    expect_tensor,
    is_parts,
    normals,
    require,
    require_close,
)
from lib.data import BOS, EOS, PAD

VOCAB = 211
SHARE, AS_MASK, AS_OTHER = 0.15, 0.8, 0.1  # BERT's


@check("masking as BERT does it")
def check_bert_masking(corrupt: Callable[[Tensor, int], tuple[Tensor, Tensor]]) -> Steps:
    """Check corrupt(rows, n_vocab), which hides tokens as BERT does: 15 %, of these 80/10/10.

    Shapes: rows (batch, time). Returns inputs and targets of that shape, PAD where none is asked.
    Source: Devlin et al. 2019, section 3.1.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(MASK + 1, VOCAB, (997, 53), generator=generator)
    rows[:, 0], rows[:, -3], rows[:, -2:] = BOS, EOS, PAD
    pair = expect_pair(corrupt(rows, VOCAB), "a pair (inputs, targets)")
    inputs, targets = (expect_tensor(part, rows.shape) for part in pair)
    asked, words = targets != PAD, rows > EOS
    share = (asked.sum() / words.sum()).item()
    masked = (inputs[asked] == MASK).float().mean().item()
    kept = (inputs[asked] == rows[asked]).float().mean().item()
    others = inputs[asked & (inputs != MASK) & (inputs != rows)]
    few = (others <= MASK).any() or len(others.unique()) <= VOCAB / 2
    again, _ = corrupt(rows, VOCAB)

    def differs(share: float, wanted: float) -> bool:
        """By six standard deviations of 7,000 draws or more."""
        return abs(share - wanted) >= 0.025

    yield {
        "nothing is asked: the targets are PAD everywhere": not asked.any(),
        "PAD, BOS or EOS is asked for: choose among the words": (asked & ~words).any(),
        "a target is the token that stood there": not torch.equal(targets[asked], rows[asked]),
        f"expected 15 % of the words to be asked for, got {share:.1%}": differs(share, SHARE),
        "a token that is not asked for was changed: "
        "choose once, then decide among the chosen": not torch.equal(inputs[~asked], rows[~asked]),
        f"of the chosen, 80 % become MASK; here it is {masked:.1%}": differs(masked, AS_MASK),
        f"of the chosen, 10 % stay as they are; here it is {kept:.1%}": differs(kept, AS_OTHER),
        "the random 10 % are words from all of the vocabulary, from MASK + 1 to n_vocab - 1": few,
        "the same tokens are hidden at each call: draw anew": torch.equal(again, inputs),
    }
    yield "15 % of the words are asked for, no PAD, BOS or EOS"
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
    weight, bias, x = normals((d_model, 3 * d_model), (3 * d_model,), (5, d_model))
    parts = split(weight, bias)
    require(is_parts(parts, 3), f"expected three pairs (weight, bias), got {parts!r}"[:200])
    both = x @ weight + bias
    for place, (name, pair) in enumerate(zip("qkv", parts, strict=True)):
        own, offset = expect_pair(pair, f"a pair (weight, bias) for {name}")
        expect_tensor(own, (d_model, d_model))
        expect_tensor(offset, (d_model,))
        got = torch.nn.functional.linear(x, own, offset)
        wanted = both[:, place * d_model : (place + 1) * d_model]
        yield {
            f"{name} is not transposed: nn.Linear keeps (out, in) and uses x W^T; a square matrix "
            "loads either way, and only the numbers tell": close(x @ own + offset, wanted),
            f"{name} takes every third column: q, k and "
            "v stand side by side, one after another": close(got, both[:, place::3]),
            f"{name} is not columns {place * d_model} to {(place + 1) * d_model - 1} "
            "of x W + b; the order is q, k, v": not close(got, wanted),
        }
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
        got = expect_tensor(share(weight, n_heads, n_groups), (n_groups * d_k, d_model))
        each, where = n_heads // n_groups, f"{n_heads} heads in {n_groups} groups"
        heads = weight.view(n_heads, d_k, d_model)
        wanted = heads.unflatten(0, (n_groups, each)).mean(1).flatten(0, 1)
        mistakes = {
            f"{where}: a group is made of neighbours, heads 0, 1, ..., as repeat_interleave undoes "
            "it; here it takes every "
            "n_groups-th head": heads.unflatten(0, (each, n_groups)).mean(0).flatten(0, 1),
            f"{where}: features of one head were averaged; the axes are (heads, "
            "d_k, d_model)": weight.view(n_groups, d_k, each, d_model).mean(2).flatten(0, 1),
            f"{where}: a mean, not a sum": wanted * each,
        }
        otherwise = f"{where}: expected the mean of each group's heads, feature by feature"
        require_close(got, wanted, otherwise, mistakes)
    yield "as many groups as heads: unchanged"
    yield "one group: the mean of all"
    yield "groups of neighbours"
