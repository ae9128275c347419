"""Properties of what the families need: hidden tokens, a fused projection, keys shared by heads."""

from collections.abc import Callable

import torch
from torch import Tensor

from kit.families.families import MASK
from kit.shared.checks import Report, expect_tensor, require
from lib.data import BOS, EOS, PAD

VOCAB = 211
SHARE, AS_MASK, AS_OTHER = 0.15, 0.8, 0.1  # BERT's


def check_bert_masking(corrupt: Callable[[Tensor, int], tuple[Tensor, Tensor]]) -> Report:
    """Check corrupt(rows, n_vocab), which hides tokens as BERT does: 15 %, of these 80/10/10.

    Shapes: rows (batch, time). Returns inputs and targets of that shape, PAD where none is asked.
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: Devlin et al. 2019, section 3.1.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(MASK + 1, VOCAB, (997, 53), generator=generator)
    rows[:, 0], rows[:, -3], rows[:, -2:] = BOS, EOS, PAD
    before = rows.clone()
    answer = corrupt(rows, VOCAB)
    is_pair = isinstance(answer, tuple | list) and len(answer) == 2
    require(is_pair, f"expected a pair (inputs, targets), got {type(answer).__name__}")
    inputs, targets = (expect_tensor(part, (997, 53)) for part in answer)
    require(torch.equal(rows, before), "the rows themselves were changed: work on a copy")
    asked, words = targets != PAD, rows > EOS
    require(bool(asked.any()), "nothing is asked: the targets are PAD everywhere")
    require(not (asked & ~words).any(), "PAD, BOS or EOS is asked for: choose among the words")
    require(torch.equal(targets[asked], rows[asked]), "a target is the token that stood there")
    share = asked.sum() / words.sum()
    require(_near(share, SHARE), f"expected 15 % of the words to be asked for, got {share:.1%}")
    require(
        torch.equal(inputs[~asked], rows[~asked]),
        "a token that is not asked for was changed: choose once, then decide among the chosen",
    )
    masked = (inputs[asked] == MASK).float().mean()
    require(_near(masked, AS_MASK), f"of the chosen, 80 % become MASK; here it is {masked:.1%}")
    kept = (inputs[asked] == rows[asked]).float().mean()
    require(_near(kept, 0.1), f"of the chosen, 10 % stay as they are; here it is {kept:.1%}")
    others = inputs[asked & (inputs != MASK) & (inputs != rows)]
    require(
        bool((others > MASK).all()) and len(others.unique()) > VOCAB / 2,
        "the random 10 % are words from all of the vocabulary, from MASK + 1 to n_vocab - 1",
    )
    again, _ = corrupt(rows, VOCAB)
    require(not torch.equal(again, inputs), "the same tokens are hidden at each call: draw anew")
    return Report(
        "masking as BERT does it",
        (
            "15 % of the words are asked for, no PAD, BOS or EOS",
            "of these 80 % MASK, 10 % another word, 10 % as they were",
            "all others as they were; rows untouched; drawn anew at each call",
        ),
    )


def _near(share: Tensor, wanted: float) -> bool:
    """Six standard deviations of 7,000 draws at most."""
    return abs(share.item() - wanted) < 0.025


def check_split_c_attn(split: Callable[[Tensor, Tensor], list[tuple[Tensor, Tensor]]]) -> Report:
    """Check split(weight, bias): GPT-2's c_attn as three (weight, bias) for nn.Linear: q, k, v.

    Shapes: weight (d_model, 3 d_model), used as x W; bias (3 d_model). Each returned weight is
        (d_model, d_model) as nn.Linear keeps it, (out, in), each bias (d_model).
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: Radford et al. 2019, as published.
    """
    d_model = 6
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    weight, bias, x = draw(d_model, 3 * d_model), draw(3 * d_model), draw(5, d_model)
    parts = split(weight.clone(), bias.clone())
    three = isinstance(parts, tuple | list) and len(parts) == 3
    require(three, f"expected three pairs (weight, bias), got {parts!r}"[:200])
    wanted = (x @ weight + bias).unflatten(-1, (3, d_model))
    for place, (name, pair) in enumerate(zip("qkv", parts, strict=True)):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        require(is_pair, f"expected a pair (weight, bias) for {name}, got {type(pair).__name__}")
        own = expect_tensor(pair[0], (d_model, d_model))
        offset = expect_tensor(pair[1], (d_model,))
        got = torch.nn.functional.linear(x, own, offset)
        if torch.allclose(x @ own + offset, wanted[:, place]):
            require(
                False, f"{name} is not transposed: nn.Linear keeps (out, in) and uses x W^T; a "
                "square matrix loads either way, and only the numbers tell",
            )  # fmt: skip
        strided = (x @ weight + bias)[:, place::3]
        require(
            not torch.allclose(got, strided),
            f"{name} takes every third column: q, k and v stand side by side, one after another",
        )
        require(
            torch.allclose(got, wanted[:, place]),
            f"{name} is not columns {place * d_model} to {(place + 1) * d_model - 1} of x W + b; "
            "the order is q, k, v",
        )
    return Report(
        "c_attn in three", ("q, k, v in this order", "each transposed for nn.Linear", "biases too")
    )


def check_shared_heads(share: Callable[[Tensor, int, int], Tensor]) -> Report:
    """Check share(weight, n_heads, n_groups): W^K with each group's heads replaced by their mean.

    Shapes: weight (n_heads d_k, d_model), as nn.Linear keeps it. Returns (n_groups d_k, d_model).
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: Ainslie et al. 2023, section 2.1.
    """
    d_k, d_model = 5, 7
    for n_heads, n_groups in ((6, 6), (6, 1), (6, 2), (6, 3), (4, 2)):
        generator = torch.Generator().manual_seed(n_heads + n_groups)
        weight = torch.randn(n_heads * d_k, d_model, generator=generator, dtype=torch.float64)
        got = expect_tensor(share(weight.clone(), n_heads, n_groups), (n_groups * d_k, d_model))
        each, where = n_heads // n_groups, f"{n_heads} heads in {n_groups} groups"
        heads = weight.view(n_heads, d_k, d_model)
        wanted = torch.stack([heads[g * each : (g + 1) * each].mean(0) for g in range(n_groups)])
        if torch.allclose(got, wanted.flatten(0, 1)):
            continue
        spread = torch.stack([heads[g::n_groups].mean(0) for g in range(n_groups)]).flatten(0, 1)
        require(
            not torch.allclose(got, spread),
            f"{where}: a group is made of neighbours, heads 0, 1, ..., as repeat_interleave undoes "
            "it; here it takes every n_groups-th head",
        )
        mixed = weight.view(n_groups, d_k, each, d_model).mean(2).flatten(0, 1)
        require(
            not torch.allclose(got, mixed),
            f"{where}: features of one head were averaged; the axes are (heads, d_k, d_model)",
        )
        require(not torch.allclose(got, wanted.flatten(0, 1) * each), f"{where}: a mean, not a sum")
        require(False, f"{where}: expected the mean of each group's heads, feature by feature")
    return Report(
        "heads that share their keys",
        (
            "as many groups as heads: unchanged",
            "one group: the mean of all",
            "groups of neighbours",
        ),
    )
