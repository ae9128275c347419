"""Properties of what stands around a model in training: targets, loss, schedule, updates."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from checks.framework import (
    CheckFailed,
    Steps,
    check,
    expect,
    expect_tensor,
    guarded,
    is_parts,
    normal,
    normals,
    refuse,
    require,
    require_close,
)
from lib.data import BOS, EOS, PAD, Batch, pad_batch

VOCAB = 13


@check("shift right")
def check_shift_right(shift: Callable[[list[list[int]]], tuple[Tensor, Tensor]]) -> Steps:
    """Check shift(sentences) -> (target_in, target_out): what a decoder reads, and its targets.

    Args: sentences are lists of numbers, without BOS and EOS, of different lengths.
    Source: Attention Is All You Need, section 3.1.
    """
    sentences = [[7, 9, 8], [5], [12, 4, 6, 11, 10], [9, 9]]
    batch = pad_batch(sentences, sentences)
    got = shift(sentences)
    got = expect(got, tuple | list, "two tensors (target_in, target_out)")
    kinds = [type(part).__name__ for part in got]
    expected = f"expected two tensors (target_in, target_out), got {', '.join(kinds)}"
    require(is_parts(got, 2, Tensor), expected)
    both = {"target_in": (got[0], batch.target_in), "target_out": (got[1], batch.target_out)}
    for name, (tensor, want) in both.items():
        hint = f"; {name} is (batch, time): the longest sentence and one special token"
        expect_tensor(tensor, want.shape, hint=hint, like=want)
    refuse(
        {
            "both are the same: the decoder would read its answer": got[0].equal(got[1]),
            "target_in and target_out are swapped": got[0].equal(batch.target_out)
            and got[1].equal(batch.target_in),
        }
    )
    for name, (tensor, want) in both.items():
        for b, (row, right) in enumerate(zip(tensor.tolist(), want.tolist(), strict=True)):
            special = f"BOS = {BOS}, EOS = {EOS}, PAD = {PAD}"
            require(row == right, f"sentence {b}, {name}: expected {right}, got {row}; {special}")
    yield "the decoder reads BOS, then each token one step late"
    yield "its targets are each token, then EOS"
    yield "the rest is padding, on the right"


@check("loss of micro-batches")
def check_loss_of_parts(loss: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]) -> Steps:
    """Check loss(logits, targets) over several batches: the mean over all their real tokens.

    Args: two lists; logits[k] (batch, time, vocab) and targets[k] (batch, time), whose sizes
    differ. Targets are padded with PAD.
    """
    targets = [batch.target_out for batch in _parts()[:3]]
    logits = [x.requires_grad_() for x in normals(*((*y.shape, VOCAB) for y in targets))]
    wanted, mistakes = _mean_loss(logits, targets), _mistaken_losses(logits, targets)
    got = loss(logits, targets)
    require(not isinstance(got, float), "a float has no gradient: return the tensor")
    got = expect_tensor(got, (), "one number")
    otherwise = f"expected {wanted:.4f}, the mean over all real tokens, got {got:.4f}"
    named = {f"{otherwise}: {meaning}": wrong for meaning, wrong in mistakes.items()}
    require_close(got, wanted, otherwise, named)
    yield "every real token counts once, whatever its micro-batch"

    with_more = [F.pad(x, (0, 0, 0, 3), value=2.0) for x in logits]
    longer = loss(with_more, [F.pad(y, (0, 3), value=PAD) for y in targets])
    require_close(longer, wanted, "the loss changes when more padding is put behind")
    yield "padding counts nowhere"

    require(got.requires_grad, "no gradient: the loss is detached from the logits")
    pairs = [torch.autograd.grad(x, logits, allow_unused=True) for x in (got, wanted)]
    for k, (a, b) in enumerate(zip(*pairs, strict=True)):
        require_close(a, b, f"micro-batch {k} gets another gradient than in one big batch")
    yield "the gradient is that of one big batch"


@check("linear schedule")
def check_linear_schedule(make: Callable[[int, int], Callable[[int], float]]) -> Steps:
    """Check make(steps, warmup)(step): up to 1 in `warmup` steps, then straight down to 0.

    Steps count from 0. factor = (step + 1) / warmup before step `warmup`, then
    (steps - step) / (steps - warmup), and 0 from step `steps` on.
    """
    for steps, warmup in ((103, 7), (23, 1), (11, 0)):
        where = f"steps={steps}, warmup={warmup}"
        try:
            factor = guarded(expect(make(steps, warmup), Callable, "a function of the step"))
            values = [factor(step) for step in range(steps + 3)]
        except CheckFailed as error:
            raise CheckFailed(f"{where}: {error}") from error
        wrong = [v for v in values if not isinstance(v, int | float)]
        require(not wrong, f"{where}: expected numbers, got {wrong[:1]}")
        require(
            bool(values[0] > 0), f"{where}: the rate of step 0 is {values[0]}: nothing is learned"
        )
        for step, got in enumerate(values):
            want = max(0.0, (steps - step) / (steps - warmup))
            if step < warmup:
                want = (step + 1) / warmup
            otherwise = f"{where}: expected {want:.4f} at step {step}, got {got:.6g}"
            require(bool(abs(got - want) < 1e-9), otherwise)
        backwards = [factor(step) for step in reversed(range(steps + 3))]
        order = f"{where}: asked from the last step to the first, factor(step) gives other numbers"
        require(backwards[::-1] == values, f"{order}: it must look at nothing but the step")
    yield "the first step moves, the last step of the warm-up has the full rate"
    yield "then straight down, and never below 0"
    yield "no warm-up is possible"


@check("accumulation")
def check_accumulation(loop: Callable[..., object]) -> Steps:
    """Check loop(model, optimizer, parts, schedule, accumulate): one update for
    `accumulate` micro-batches.

    Update k has the rate schedule(k), and the gradient of the mean loss over all real tokens of its
    micro-batches. `parts` is a list of batches, a whole number of updates.
    """
    parts = _parts()
    for accumulate in (1, 2, 3):
        most, left = len(parts) // accumulate, torch.zeros(())
        updates = _updates(loop, accumulate, most)
        asked = f"accumulate={accumulate}: expected {most} updates for {len(parts)} micro-batches"
        require(len(updates) == most, f"{asked}, got {len(updates)}")
        for k, (rate, table, got) in enumerate(updates):
            where = f"accumulate={accumulate}, update {k}"
            require(
                abs(rate - _rate(k)) < 1e-9,
                f"{where}: expected the rate schedule({k}) = {_rate(k):.4f}, got {rate:.4f}; "
                "the schedule counts updates, from 0, and the rate is set before the step",
            )
            group = parts[k * accumulate : (k + 1) * accumulate]
            losses = [table[part.target_in] for part in group], [part.target_out for part in group]
            want = _gradient(_mean_loss(*losses), table)
            last = [x.detach() for x in losses[0][:-1]] + losses[0][-1:]
            told = (
                f"{where}: the gradient is not that of one big batch; "
                f"expected a norm of {want.norm():.4f}, got {got.norm():.4f}"
            )
            mistakes = {
                f"{told}; {meaning}": _gradient(wrong, table)
                for meaning, wrong in _mistaken_losses(*losses).items()
            }
            mistakes[f"{told}; that of the update before was not cleared"] = want + left
            once = "only the last micro-batch's is left: clear once per update, before the first"
            mistakes[f"{told}; {once}"] = _gradient(_mean_loss(last, losses[1]), table)
            require_close(got, want, told, mistakes)
            left = want
    yield "one update for so many micro-batches"
    yield "the schedule counts updates"
    yield "the gradient is that of one big batch, and nothing is left from the update before"


class _Next(nn.Module):
    """Logits for the next token from the last token alone: enough to have gradients."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(normal(VOCAB, VOCAB))

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.table[target_in]  # (batch, time, vocab)


def _updates(loop: Callable[..., object], accumulate: int, most: int) -> list[tuple]:
    """Run the reader's loop. Of each update: the rate, the parameters before it, the gradient."""
    model, parts, seen = _Next(), _parts(), list[tuple]()
    optimizer = torch.optim.SGD(model.parameters(), lr=123.0)

    def look(*_: object) -> None:
        require(len(seen) < most, f"accumulate={accumulate}: expected {most} updates, got more")
        rate, gradient = optimizer.param_groups[0]["lr"], model.table.grad
        if gradient is None:
            none = "no gradient at optimizer.step(): was it cleared after backward?"
            raise CheckFailed(f"accumulate={accumulate}: {none}")
        before = (model.table + rate * gradient).detach().requires_grad_()
        seen.append((rate, before, gradient.clone()))

    optimizer.register_step_post_hook(look)  # after a closure, if there is one
    loop(model, optimizer, parts, _rate, accumulate)
    same = all(a.target_out.equal(b.target_out) for a, b in zip(parts, _parts(), strict=True))
    require(same, "the batches were changed by your function: work on a copy")
    return seen


def _rate(update: int) -> float:
    return 0.5 / (update + 2)


def _parts() -> list[Batch]:
    """Six batches; three in a row differ in sentences, lengths and fractions of padding."""
    generator = torch.Generator().manual_seed(3)
    lengths = ((2, 1), (7, 1, 3, 2, 1), (4, 4, 5)) * 2
    drawn = [
        [torch.randint(EOS + 2, VOCAB, (n,), generator=generator).tolist() for n in part]
        for part in lengths
    ]
    return [pad_batch(rows, rows) for rows in drawn]


def _mean_loss(
    logits: Sequence[Tensor], targets: Sequence[Tensor], ignore_index: int = PAD
) -> Tensor:
    """The mean loss over the real tokens of all micro-batches, merged into one batch."""
    joined = torch.cat([x.flatten(0, 1) for x in logits]), torch.cat([y.flatten() for y in targets])
    return F.cross_entropy(*joined, ignore_index=ignore_index)


def _mistaken_losses(logits: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[str, Tensor]:
    """The loss that each classic mistake gives."""
    means = torch.stack([_mean_loss([x], [y]) for x, y in zip(logits, targets, strict=True)])
    sentences = means.new_tensor([len(y) for y in targets])
    whole, tokens = _mean_loss(logits, targets), sum(y.count_nonzero() for y in targets)
    return {
        "the means count alike, so a token of a short micro-batch counts more": means.mean(),
        "the micro-batches' means are added up": means.sum(),
        "the micro-batches count by their sentences": means @ sentences / sentences.sum(),
        "padding counts below the line": whole * tokens / sum(y.numel() for y in targets),
        "PAD is taken for a word": _mean_loss(logits, targets, -100),
    }


def _gradient(loss: Tensor, weights: Tensor) -> Tensor:
    return torch.autograd.grad(loss, weights, retain_graph=True)[0]
