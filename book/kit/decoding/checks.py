"""Properties that decoders, and the parts that they are made of, must have."""

from collections.abc import Callable, Sequence
from numbers import Number

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from kit.shared.checks import Faults, Steps, check, close, expect, expect_tensor, refuse, require
from lib.data import BOS, EOS, PAD

# What the scripted model wants to say; it talks on after its end.
SCRIPT = ((5, 6, 7, EOS, 5, 5), (8, EOS, 9, EOS, 5, 5), (9, 10, EOS, 9, 5, 5))


class _Scripted(nn.Module):
    """Says the script whatever it reads, and remembers what it was fed."""

    def __init__(self) -> None:
        super().__init__()
        self.fed: list[list[int]] = []

    def start(self, source: Tensor, source_lengths: Tensor) -> int:
        return 0

    def step(self, token: Tensor, place: int) -> tuple[Tensor, None, int]:
        require(
            isinstance(token, Tensor) and tuple(token.shape) == (3,),
            f"expected one token for each of 3 sentences as input of a step, got {token!r}",
        )
        self.fed.append(token.tolist())
        require(len(self.fed) <= 6, "a seventh step: all had ended after four; max_length was 6")
        logits = nn.functional.one_hot(torch.tensor([row[place] for row in SCRIPT]), 11)
        return logits.float(), None, place + 1


@check("greedy in a batch")
def check_greedy_batch(decode: Callable[..., Int[Tensor, "batch time"]]) -> Steps:
    """Check decode(model, source, source_lengths, max_length) on sentences of unequal lengths."""
    source, lengths = torch.full((3, 2), EOS), torch.tensor([2, 1, 2])
    model = _Scripted()
    tokens = expect(decode(model, source, lengths, 6), Tensor, "a tensor of tokens")
    rows, shape = tokens.tolist(), tuple(tokens.shape)
    first, second = (*model.fed, None, None)[:2]
    top = rows[0] if rows else rows
    yield {
        f"the first token to feed is BOS, {BOS}": first != [BOS] * 3,
        "feed back what was chosen: the second step must read the first step's tokens": second
        != [5, 8, 9],
        f"expected (batch, time) with a batch of 3, got {shape}": shape[0] != 3,
        "one sentence has ended, the others have not: go on": shape[-1] <= 2,
        "all have ended after four steps: stop there": shape[-1] > 4,
        f"expected [5, 6, 7, 2], EOS included, got {top}": top != [5, 6, 7, EOS],
    }
    yield "its own tokens are fed back"

    for row, want in zip(rows[1:], ([8, EOS, PAD, PAD], [9, 10, EOS, PAD]), strict=True):
        require(row == want, f"expected {want}, got {row}: PAD after the end, whatever it says")
    yield "PAD after each end"

    short = tuple(decode(_Scripted(), source, lengths, 2).shape)
    require(short == (3, 2), f"max_length is 2, got the shape {short}")
    yield "it stops with the last, or at 2"


@check("the best that ended")
def check_best_ended(choose: Callable[[Tensor, Tensor, float], int]) -> Steps:
    """Check choose(log_p, lengths, alpha): which of some ended hypotheses has the best score.

    Shapes: log_p and lengths (hypotheses,); returns a number.
    Source: Wu et al. 2016, equation 14.
    """
    # Of each case: log-probabilities, lengths, alpha, the best one, and what else one may get.
    for log_p, lengths, alpha, best in (
        ((-1.0, -1.1), (2, 9), 0.0, 0),
        ((-1.0, -1.1), (2, 9), 0.6, 1),
        ((-1.0, -1.9), (2, 9), 0.6, 0),  # divided by the bare length, the second would win
        ((-1.0, -1.9), (2, 9), 1.0, 1),
        ((-2.0, -1.5, -3.9), (1, 3, 7), 0.6, 1),
        ((-3.0, -2.9), (4, 4), 2.0, 1),
        ((-1.0, -2.3), (1, 8), 1.0, 0),  # lp is 13/6 over 1, not 8 over 1
    ):
        got = choose(torch.tensor(log_p).double(), torch.tensor(lengths), alpha)
        got = int(expect(got, int | Tensor, "the number of a hypothesis"))
        scores = [p / ((5 + n) / 6) ** alpha for p, n in zip(log_p, lengths, strict=True)]
        wrong = [p * ((5 + n) / 6) ** alpha for p, n in zip(log_p, lengths, strict=True)]
        hint = "; multiplied, the penalty makes long sentences worse: log p is negative"
        require(
            got == best,
            f"log p {log_p}, lengths {lengths}, alpha {alpha}: expected {best}, whose score is the "
            f"highest of {[round(s, 3) for s in scores]}, got {got}"
            f"{hint if alpha and wrong.index(max(wrong)) == got else ''}",
        )
    yield from ("divided by ((5 + length) / 6)^alpha", "no penalty for alpha = 0")


@check("nucleus")
def check_nucleus(nucleus: Callable[[Tensor, float, float], Float[Tensor, " vocab"]]) -> Steps:
    """Check nucleus(logits, p, temperature): the probabilities that are drawn from.

    Shapes: logits (vocab,); returns (vocab,), which sums to 1.
    Source: Holtzman et al. 2020, section 3.1.
    """
    chances = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2]).double()
    for temperature in (1.0, 0.5, 2.0):
        tempered = chances ** (1 / temperature)
        tempered = tempered / tempered.sum()
        order = sorted(range(5), key=lambda i: -tempered[i])
        for p in (0.01, 0.3, 0.5, 0.6, 0.7, 0.8, 0.92, 1.0):
            kept, total = [], 0.0
            for i in order:
                if total < p - 1e-12:
                    kept.append(i)
                    total += tempered[i].item()
            got = expect_tensor(nucleus(chances.log() + 7, p, temperature), (5,)).double()
            cut = [i for i in range(5) if i not in kept]
            want = tempered[kept] / tempered[kept].sum()
            faults: Faults = {
                f"the kept set crosses p, {kept}; {got}": not (got[kept] > 0).all(),
                f"expected 0 for tokens {cut}, got {got.tolist()}": got[cut].any(),
                f"sum {got.sum():.3f}, not 1": not close(got.sum(), 1.0),
                f"expected {want.tolist()} for tokens {kept}, got {got[kept].tolist()}; the "
                "temperature divides the logits, before any softmax": not close(got[kept], want),
            }
            where = f"p = {p}, temperature {temperature}"
            refuse({f"{where}: {message}": seen for message, seen in faults.items()})
    yield "the smallest set that reaches p, with the token that crosses it"
    yield "exactly 0 for all others, and a sum of 1"
    yield "the temperature acts on the logits"


@check("clipped precision")
def check_clipped_precision(
    precision: Callable[[Sequence[str], Sequence[str], int], float],
) -> Steps:
    """Check precision(prediction, reference, n): BLEU's share of n-grams, for one sentence.

    Source: Papineni et al. 2002, section 2.1.
    """
    for prediction, reference, n, want, mistake in (
        ("a b c d", "a b c d", 1, 1, "the two are equal"),
        ("a b c d", "a b c d", 4, 1, "the two are equal"),
        ("a b", "a b c d", 1, 1, "swapped? both predicted words are in the reference"),
        ("a b c d", "a b", 1, 1 / 2, "swapped? two of the four predicted words are right"),
        ("the the the the", "the cat", 1, 1 / 4, "clip: the reference has one 'the' only"),
        ("a a b", "a a a", 1, 2 / 3, "count each time it stands there, not each kind"),
        ("b a", "a b", 1, 1, "the order of single words does not matter"),
        ("b a", "a b", 2, 0, "the order within an n-gram matters"),
        ("a b x b c", "a b c", 2, 1 / 2, "of four pairs, two stand in the reference"),
    ):
        got = precision(prediction.split(), reference.split(), n)
        got = float(expect(got, Number | Tensor, "a number from 0 to 1"))
        require(
            abs(got - want) < 1e-9,
            f"prediction {prediction!r}, reference {reference!r}, n = {n}: expected {want:.3f}, "
            f"got {got:.3f}; {mistake}",
        )
    yield from ("over the prediction's n-grams", "no more often than the reference")
