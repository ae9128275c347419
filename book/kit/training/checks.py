"""Properties of what stands around a model in training: targets, loss, schedule, updates."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.shared.checks import Report, require
from lib.data import BOS, EOS, PAD, Batch, pad_batch

VOCAB = 13


def check_shift_right(shift: Callable[[list[list[int]]], tuple[Tensor, Tensor]]) -> Report:
    """Check shift(sentences) -> (target_in, target_out): what a decoder reads, and what it says.

    Args: sentences are lists of numbers, without BOS and EOS, of different lengths.
    Errors: CheckFailed. Source: Attention Is All You Need, section 3.1.
    """
    sentences = [[7, 9, 8], [5], [12, 4, 6, 11, 10], [9, 9]]
    got = _call(shift, sentences)
    is_pair = isinstance(got, tuple) and len(got) == 2 and all(isinstance(t, Tensor) for t in got)
    require(is_pair, f"expected two tensors (target_in, target_out), got {got!r}")
    for name, tensor in zip(("target_in", "target_out"), got, strict=True):
        want = (len(sentences), 1 + max(map(len, sentences)))
        require(
            tuple(tensor.shape) == want,
            f"{name}: expected (batch, time) = {want}, got {tuple(tensor.shape)}: the longest "
            "sentence and one special token",
        )
    for b, words in enumerate(sentences):
        read, said = (tensor[b].tolist() for tensor in got)
        require(read != said, f"sentence {b}: both are {read}: the decoder would read its answer")
        require(read[0] == BOS, f"sentence {b}: target_in begins with BOS = {BOS}, got {read}")
        require(
            read[1 : len(words) + 1] == words,
            f"sentence {b}: after BOS target_in holds {words}, got {read}",
        )
        require(
            said[: len(words) + 1] == [*words, EOS],
            f"sentence {b}: target_out begins with {[*words, EOS]}, EOS = {EOS}; got {said}",
        )
        rest = read[len(words) + 1 :] + said[len(words) + 1 :]
        require(set(rest) <= {PAD}, f"sentence {b}: expected PAD = {PAD} at the end, got {rest}")
    return Report(
        "shift right",
        (
            "the decoder reads BOS, then each token one step late",
            "it must say each token, then EOS",
            "the rest is padding, on the right",
        ),
    )


def check_loss_of_parts(
    loss: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor],
) -> Report:
    """Check loss(logits, targets) over several batches: the mean over all their real tokens.

    Args: two lists; logits[k] (batch, time, vocab) and targets[k] (batch, time), whose sizes differ
    from part to part. Targets are padded with PAD.
    Errors: CheckFailed.
    """
    batches = _batches()
    targets = [batch.target_out for batch in batches]
    generator = torch.Generator().manual_seed(0)
    logits = [
        torch.randn(*target.shape, VOCAB, generator=generator, dtype=torch.float64)
        for target in targets
    ]
    for given in logits:
        given.requires_grad_()
    wanted = _mean_over_tokens(logits, targets)
    got = _call(loss, logits, targets)
    require(isinstance(got, Tensor) and got.dim() == 0, f"expected one number, got {got!r}")
    means = torch.stack(
        [_mean_over_tokens([x], [y]) for x, y in zip(logits, targets, strict=True)]
    ).mean()
    require(
        not torch.isclose(got, means),
        f"{got.item():.4f} is the mean of the parts' means: a token of a short part counts more; "
        f"expected {wanted.item():.4f}",
    )
    places = sum(target.numel() for target in targets)
    tokens = sum(int((target != PAD).sum()) for target in targets)
    require(
        not torch.isclose(got, wanted * tokens / places),
        f"divided by {places} places, padding among them; expected {tokens} real tokens",
    )
    require(
        bool(torch.isclose(got, wanted)),
        f"expected {wanted.item():.4f}, the mean over {tokens} real tokens, got {got.item():.4f}",
    )
    with_more = [F.pad(x, (0, 0, 0, 3), value=2.0) for x in logits]
    longer = _call(loss, with_more, [F.pad(y, (0, 3), value=PAD) for y in targets])
    require(bool(torch.isclose(longer, wanted)), "the loss changes when more padding is put behind")
    require(got.requires_grad, "no gradient: the loss is cut off from the logits")
    pairs = [torch.autograd.grad(x, logits, allow_unused=True) for x in (got, wanted)]
    for k, (a, b) in enumerate(zip(*pairs, strict=True)):
        same = a is not None and torch.allclose(a, b)
        require(same, f"part {k} gets another gradient than in one big batch")
    return Report(
        "loss of parts",
        (
            "every real token counts once, in whatever part it stands",
            "padding counts nowhere",
            "the gradient is that of one big batch",
        ),
    )


def check_linear_schedule(make: Callable[[int, int], Callable[[int], float]]) -> Report:
    """Check make(steps, warmup)(step): up to 1 in `warmup` steps, then straight down to 0.

    Steps count from 0. factor = (step + 1) / warmup before step `warmup`, then
    (steps - step) / (steps - warmup), and 0 from step `steps` on.
    Errors: CheckFailed.
    """
    for steps, warmup in ((103, 7), (23, 1), (11, 0)):
        factor = _call(make, steps, warmup)
        require(callable(factor), f"expected a function of the step, got {factor!r}")
        where = f"steps={steps}, warmup={warmup}"
        values = [_call(factor, step) for step in range(steps + 3)]
        wrong = [v for v in values if not isinstance(v, int | float)]
        require(not wrong, f"{where}: expected numbers, got {wrong[:1]}")
        require(values[0] > 0, f"{where}: the rate of step 0 is {values[0]}: nothing is learnt")
        for step, got in enumerate(values):
            if step < warmup:
                want = (step + 1) / warmup
            else:
                want = max(0.0, (steps - step) / (steps - warmup))
            require(
                abs(got - want) < 1e-9, f"{where}: expected {want:.4f} at step {step}, got {got}"
            )
    return Report(
        "linear schedule",
        (
            "the first step moves, the last step of the warm-up has the full rate",
            "then straight down, and never below 0",
            "no warm-up is possible",
        ),
    )


class _Next(nn.Module):
    """Logits for the next token from the last token alone: enough to have gradients."""

    def __init__(self):
        super().__init__()
        start = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(1))
        self.table = nn.Parameter(start.double())

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.table[target_in]  # (batch, time, vocab)


def check_accumulation(loop: Callable[..., object]) -> Report:
    """Check loop(model, optimizer, parts, schedule, accumulate): one update for `accumulate` parts.

    Update k has the rate schedule(k), and the gradient of the mean loss over all real tokens of its
    parts. `parts` is a list of batches, a whole number of updates.
    Errors: CheckFailed.
    """
    parts = _batches() * 2
    for accumulate in (1, 2, 3):
        model = _Next()
        optimizer = torch.optim.SGD(model.parameters(), lr=123.0)
        rates: list[float] = []

        def look(*_, model=model, optimizer=optimizer, rates=rates, accumulate=accumulate):
            k = len(rates)
            where = f"accumulate={accumulate}, update {k}"
            group = parts[k * accumulate : (k + 1) * accumulate]
            require(bool(group), f"{where}: expected {len(parts) // accumulate} updates, got more")
            rates.append(optimizer.param_groups[0]["lr"])
            want = 0.5 / (k + 2)
            require(
                abs(rates[-1] - want) < 1e-9,
                f"{where}: expected the rate schedule({k}) = {want:.4f}, got {rates[-1]:.4f}; "
                "the schedule counts updates, from 0",
            )
            with torch.enable_grad():
                logits = [model.table[part.target_in] for part in group]
                loss = _mean_over_tokens(logits, [part.target_out for part in group])
                (gradient,) = torch.autograd.grad(loss, model.table)
            require(model.table.grad is not None, f"{where}: there is no gradient")
            require(
                torch.allclose(model.table.grad, gradient),
                f"{where}: the gradient is not that of one big batch; look at what is left from "
                "the update before, at the parts' shares, and at padding",
            )

        optimizer.register_step_pre_hook(look)
        _call(loop, model, optimizer, list(parts), lambda k: 0.5 / (k + 2), accumulate)
        want = len(parts) // accumulate
        require(
            len(rates) == want,
            f"accumulate={accumulate}: expected {want} updates for {len(parts)} parts, got "
            f"{len(rates)}",
        )
    return Report(
        "accumulation",
        (
            "one update for so many parts",
            "the schedule counts updates",
            "the gradient is that of one big batch, and nothing is left from the update before",
        ),
    )


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


def _call(function: Callable, *arguments: object) -> object:
    """The answer's result; an error inside it is a failed check with the error's own words."""
    try:
        return function(*arguments)
    except AssertionError:
        raise
    except Exception as error:
        require(False, f"your function raised {type(error).__name__}: {error}")
