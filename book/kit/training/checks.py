"""Properties of what stands around a model in training: targets, loss, schedule, updates."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.shared.checks import (
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    guarded,
    is_parts,
    normals,
    refuse,
    require,
    require_close,
)
from lib.data import BOS, EOS, PAD, Batch, pad_batch

VOCAB = 13


@check("shift right")
def check_shift_right(shift: Callable[[list[list[int]]], tuple[Tensor, Tensor]]) -> Steps:
    """Check shift(sentences) -> (target_in, target_out): what a decoder reads, and what it says.

    Args: sentences are lists of numbers, without BOS and EOS, of different lengths.
    Source: Attention Is All You Need, section 3.1.
    """
    sentences = [[7, 9, 8], [5], [12, 4, 6, 11, 10], [9, 9]]
    got = shift(sentences)
    is_pair = is_parts(got, 2, Tensor)
    require(is_pair, f"expected two tensors (target_in, target_out), got {got!r}")
    for name, tensor in zip(("target_in", "target_out"), got, strict=True):
        want, shape = (len(sentences), 1 + max(map(len, sentences))), tuple(tensor.shape)
        require(
            shape == want,
            f"{name}: expected (batch, time) = {want}, got {shape}: the longest "
            "sentence and one special token",
        )
    for b, words in enumerate(sentences):
        read, said = (tensor[b].tolist() for tensor in got)
        n = len(words) + 1
        rest, ended = read[n:] + said[n:], [*words, EOS]
        faults = {
            f"both are {read}: the decoder would read its answer": read == said,
            f"target_in begins with BOS = {BOS}, got {read}": read[0] != BOS,
            f"after BOS target_in holds {words}, got {read}": read[1:n] != words,
            f"target_out begins with {ended}, EOS = {EOS}; got {said}": said[:n] != ended,
            f"expected PAD = {PAD} at the end, got {rest}": not set(rest) <= {PAD},
        }
        refuse({f"sentence {b}: {message}": seen for message, seen in faults.items()})
    yield "the decoder reads BOS, then each token one step late"
    yield "it must say each token, then EOS"
    yield "the rest is padding, on the right"


@check("loss of parts")
def check_loss_of_parts(loss: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]) -> Steps:
    """Check loss(logits, targets) over several batches: the mean over all their real tokens.

    Args: two lists; logits[k] (batch, time, vocab) and targets[k] (batch, time), whose sizes differ
    from part to part. Targets are padded with PAD.
    """
    targets = [batch.target_out for batch in _batches()]
    logits = [x.requires_grad_() for x in normals(*((*y.shape, VOCAB) for y in targets))]
    wanted = _mean_over_tokens(logits, targets)
    got = expect_tensor(loss(logits, targets), (), "one number")
    parts = zip(logits, targets, strict=True)
    means = torch.stack([_mean_over_tokens([x], [y]) for x, y in parts]).mean()
    places = sum(target.numel() for target in targets)
    tokens = sum(int((target != PAD).sum()) for target in targets)
    mistakes = {
        f"{got.item():.4f} is the mean of the parts' means: a token "
        f"of a short part counts more; expected {wanted.item():.4f}": means,
        f"divided by {places} places, padding among them; expected {tokens} real tokens": wanted
        * tokens
        / places,
    }
    otherwise = f"expected {wanted:.4f}, the mean over {tokens} real tokens, got {got:.4f}"
    require_close(got, wanted, otherwise, mistakes)
    yield "every real token counts once, in whatever part it stands"

    with_more = [F.pad(x, (0, 0, 0, 3), value=2.0) for x in logits]
    longer = loss(with_more, [F.pad(y, (0, 3), value=PAD) for y in targets])
    require_close(longer, wanted, "the loss changes when more padding is put behind")
    yield "padding counts nowhere"

    require(got.requires_grad, "no gradient: the loss is cut off from the logits")
    pairs = [torch.autograd.grad(x, logits, allow_unused=True) for x in (got, wanted)]
    for k, (a, b) in enumerate(zip(*pairs, strict=True)):
        require_close(a, b, f"part {k} gets another gradient than in one big batch")
    yield "the gradient is that of one big batch"


@check("linear schedule")
def check_linear_schedule(make: Callable[[int, int], Callable[[int], float]]) -> Steps:
    """Check make(steps, warmup)(step): up to 1 in `warmup` steps, then straight down to 0.

    Steps count from 0. factor = (step + 1) / warmup before step `warmup`, then
    (steps - step) / (steps - warmup), and 0 from step `steps` on.
    """
    for steps, warmup in ((103, 7), (23, 1), (11, 0)):
        factor = guarded(expect(make(steps, warmup), Callable, "a function of the step"))
        where = f"steps={steps}, warmup={warmup}"
        values = [factor(step) for step in range(steps + 3)]
        wrong = [v for v in values if not isinstance(v, int | float)]
        require(not wrong, f"{where}: expected numbers, got {wrong[:1]}")
        require(values[0] > 0, f"{where}: the rate of step 0 is {values[0]}: nothing is learnt")
        for step, got in enumerate(values):
            want = max(0.0, (steps - step) / (steps - warmup))
            if step < warmup:
                want = (step + 1) / warmup
            otherwise = f"{where}: expected {want:.4f} at step {step}, got {got}"
            require(abs(got - want) < 1e-9, otherwise)
    yield "the first step moves, the last step of the warm-up has the full rate"
    yield "then straight down, and never below 0"
    yield "no warm-up is possible"


class _Next(nn.Module):
    """Logits for the next token from the last token alone: enough to have gradients."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(normals((VOCAB, VOCAB), seed=1)[0])

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.table[target_in]  # (batch, time, vocab)


@check("accumulation")
def check_accumulation(loop: Callable[..., object]) -> Steps:
    """Check loop(model, optimizer, parts, schedule, accumulate): one update for `accumulate` parts.

    Update k has the rate schedule(k), and the gradient of the mean loss over all real tokens of its
    parts. `parts` is a list of batches, a whole number of updates.
    """
    parts = _batches() * 2
    for accumulate in (1, 2, 3):
        model, updates = _Next(), len(parts) // accumulate
        optimizer = torch.optim.SGD(model.parameters(), lr=123.0)
        rates: list[float] = []

        def look(
            *_, model=model, optimizer=optimizer, rates=rates, accumulate=accumulate, most=updates
        ):
            k, table = len(rates), model.table
            where = f"accumulate={accumulate}, update {k}"
            require(k < most, f"{where}: expected {most} updates, got more")
            rates.append(optimizer.param_groups[0]["lr"])
            require(
                abs(rates[-1] - _rate(k)) < 1e-9,
                f"{where}: expected the rate schedule({k}) = {_rate(k):.4f}, got {rates[-1]:.4f}; "
                "the schedule counts updates, from 0",
            )
            group = parts[k * accumulate : (k + 1) * accumulate]
            with torch.enable_grad():
                logits = [table[part.target_in] for part in group]
                loss = _mean_over_tokens(logits, [part.target_out for part in group])
                (gradient,) = torch.autograd.grad(loss, table)
            faults = {
                f"{where}: there is no gradient": table.grad is None,
                f"{where}: the gradient is not that of one big batch; look at what is left from "
                "the update before, at the parts' "
                "shares, and at padding": not close(table.grad, gradient),
            }
            refuse(faults)

        optimizer.register_step_pre_hook(look)
        loop(model, optimizer, list(parts), _rate, accumulate)
        require(
            len(rates) == updates,
            f"accumulate={accumulate}: expected {updates} updates for {len(parts)} parts, got "
            f"{len(rates)}",
        )
    yield "one update for so many parts"
    yield "the schedule counts updates"
    yield "the gradient is that of one big batch, and nothing is left from the update before"


def _rate(update: int) -> float:
    return 0.5 / (update + 2)


def _batches() -> list[Batch]:
    """Three batches whose numbers of sentences, lengths and shares of padding all differ."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for lengths in ((2, 1), (7, 1, 3, 2, 1), (4, 4, 5)):
        rows = [torch.randint(EOS + 2, VOCAB, (n,), generator=generator).tolist() for n in lengths]
        found.append(pad_batch(rows, rows))
    return found


def _mean_over_tokens(logits: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    surprise = [
        -x.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)[y != PAD]
        for x, y in zip(logits, targets, strict=True)
    ]
    return torch.cat(surprise).mean()
