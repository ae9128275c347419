"""Properties that decoders, and the functions that they are made of, must have."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from numbers import Real

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from checks.cases import require_cases
from checks.framework import Steps, check, expect, expect_tensor, normal, require, require_kind
from lib.data import BOS, EOS, PAD
from lib.decoding import keep_top_p

# BOS, then what the scripted model wants to say; it talks on after its end.
SCRIPT = torch.tensor(
    [[BOS, 5, 6, 7, EOS, 5, 5], [BOS, 8, EOS, 9, EOS, 5, 5], [BOS, 9, 10, EOS, 9, 5, 5]]
)
SAID = [[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 10, EOS, PAD]]
SOURCE, LENGTHS = [[EOS, EOS], [EOS, PAD], [EOS, EOS]], [2, 1, 2]


class _Scripted(nn.Module):
    """Gives the tokens of a script, and requires these, with the state that it returned."""

    steps = 0

    def start(self, source: Tensor, source_lengths: Tensor) -> int:
        given = source.tolist() == SOURCE and source_lengths.tolist() == LENGTHS
        require(given, "model.start must get source and source_lengths as they are")
        return 0

    def step(self, token: Tensor, state: int) -> tuple[Tensor, None, int]:
        old = f"step {self.steps} got the state before step {state}: pass on what `step` returned"
        require(state == self.steps, old)
        require(state < 6, "a seventh step: all had ended after four; max_length was 6")
        expect_tensor(token, (3,), "one token for each of 3 sentences")
        want, talks = SCRIPT[:, state], ~(SCRIPT[:, : state + 1] == EOS).any(dim=1)
        fed = f"step {state} must read {want.tolist()}, got {token.tolist()}"
        require(token[talks].equal(want[talks]), f"{fed}: BOS, then feed back what was chosen")
        self.steps += 1
        return nn.functional.one_hot(SCRIPT[:, self.steps], 11).float(), None, self.steps


@check("greedy in a batch")
def check_greedy_batch(decode: Callable[..., Int[Tensor, "batch time"]]) -> Steps:
    """Check decode(model, source, source_lengths, max_length) on sentences of unequal lengths."""

    def decoded(max_length: int) -> Tensor:
        inputs = torch.tensor(SOURCE), torch.tensor(LENGTHS)
        return expect(decode(_Scripted(), *inputs, max_length), Tensor, "a tensor of tokens")

    tokens = decoded(6)
    shape = tuple(tokens.shape)
    require_kind(tokens, SCRIPT)
    yield {
        f"expected (batch, time) with a batch of 3, got {shape}": shape[0] != 3,
        "BOS is an input and no output: leave it out": (tokens == BOS).any(),
        "one sentence has ended, the others have not: go on": shape[-1] <= 2,
        f"all have ended after four steps: expected four columns, got {shape[-1]}": shape[-1] > 4,
    }
    yield "its own tokens are fed back"

    for got, want in zip(tokens.tolist(), SAID, strict=True):
        require(got == want, f"expected {want}, got {got}: all up to EOS, included, then PAD")
    yield "PAD after each end"

    cut = tuple(decoded(2).shape)
    require(cut == (3, 2), f"max_length is 2, got the shape {cut}")
    yield "it stops with the last, or at 2"


@check("the best that ended")
def check_best_ended(choose: Callable[[Tensor, Tensor, float], int]) -> Steps:
    """Check choose(log_p, lengths, alpha): which of some ended hypotheses has the best score.

    Shapes: log_p and lengths (hypotheses,); returns a number.
    Source: Wu et al. 2016, equation 14.
    """

    def right(log_p: Tensor, lengths: Tensor, alpha: float) -> int:
        return int((log_p / ((5 + lengths) / 6) ** alpha).argmax())

    mistakes = {
        "the penalty divides: log p is negative, so multiplied it makes long sentences worse": (
            lambda log_p, lengths, alpha: right(log_p, lengths, -alpha)
        ),
        "there is no penalty": lambda log_p, lengths, alpha: int(log_p.argmax()),
        "alpha is the exponent": lambda log_p, lengths, alpha: int(
            (log_p / ((5 + lengths) / 6) * alpha).argmax()
        ),
        "the highest score, not the lowest": lambda log_p, lengths, alpha: int(
            (log_p / ((5 + lengths) / 6) ** alpha).argmin()
        ),
        "count from 0": lambda log_p, lengths, alpha: right(log_p, lengths, alpha) + 1,
    }
    cases = []  # close contests, of long hypotheses with short ones
    for seed, alpha, power in product(range(12), (0.0, 0.6, 2.0), (0.0, 0.6, 2.0)):
        lengths = torch.randperm(12, generator=torch.Generator().manual_seed(seed))[:4] + 1
        log_p = (normal(4, seed=seed) - 10) * ((5 + lengths) / 6) ** power
        cases.append((log_p, lengths, alpha))
    require_cases(choose, right, cases, mistakes, what="the number of a hypothesis")
    yield from ("divided by ((5 + length) / 6)^alpha", "no penalty for alpha = 0")


@check("nucleus")
def check_nucleus(nucleus: Callable[[Tensor, float, float], Float[Tensor, " vocab"]]) -> Steps:
    """Check nucleus(logits, p, temperature): the probabilities that are sampled from.

    Shapes: logits (vocab,); returns (vocab,), which sums to 1.
    Source: Holtzman et al. 2020, section 3.1.
    """

    def right(logits: Tensor, p: float, temperature: float) -> Tensor:
        return keep_top_p(logits / temperature, p).softmax(-1)

    def without_crossing(logits: Tensor, p: float, temperature: float) -> Tensor:
        left = right(logits, p, temperature)
        left = left * (left > left[left > 0].min())
        return left / left.sum()

    mistakes = {
        "the token that crosses p belongs to the nucleus": without_crossing,
        "no token is left out": lambda logits, p, t: (logits / t).softmax(-1),
        "the temperature divides the logits": lambda logits, p, t: right(logits, p, 1 / t),
        "the temperature divides the logits, before the softmax": lambda logits, p, t: right(
            logits, min(1.0, p * t), 1.0
        ),
        "outside the nucleus it must be exactly 0: -inf before a softmax, not 0": (
            lambda logits, p, t: keep_top_p(logits / t, p).nan_to_num(neginf=0.0).softmax(-1)
        ),
        "what is left must sum to 1": lambda logits, p, t: (
            (logits / t).softmax(-1) * (right(logits, p, t) > 0)
        ),
        "back to the vocabulary's order: scatter": lambda logits, p, t: (
            right(logits, p, t).sort(descending=True).values
        ),
        "first the temperature, then the nucleus": lambda logits, p, t: (
            keep_top_p(logits, p) / t
        ).softmax(-1),
    }
    logits = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2]).double().log() + 7
    chances = 0.3, 0.01, 0.5, 0.6, 0.7, 0.8, 0.92, 0.99
    cases = [(logits, p, temperature) for temperature, p in product((1.0, 0.5, 2.0), chances)]
    got = require_cases(nucleus, right, cases, mistakes)
    for case, ours in zip(cases, got, strict=True):
        most = max(ours[right(*case) == 0].tolist(), default=0.0)
        where = f"p={case[1]}, temperature={case[2]:g}: expected exactly 0 outside the nucleus"
        require(not most, f"{where}, got {most:.2g}: -inf before a softmax is exact")
    yield "the smallest set that reaches p, with the token that crosses it"
    yield "exactly 0 for all others, and a sum of 1"
    yield "the temperature acts on the logits"


@check("clipped precision")
def check_clipped_precision(
    precision: Callable[[Sequence[str], Sequence[str], int], float],
) -> Steps:
    """Check precision(prediction, reference, n): BLEU's fraction of n-grams, for one sentence.

    Source: Papineni et al. 2002, section 2.1.
    """

    def grams(words: Sequence[str], n: int) -> Counter:
        return Counter(zip(*(words[i:] for i in range(n)), strict=False))

    def right(prediction: Sequence[str], reference: Sequence[str], n: int) -> float:
        said = grams(prediction, n)
        return (said & grams(reference, n)).total() / said.total()

    mistakes = {
        "swapped? divide by the n-grams of the prediction": lambda a, b, n: right(b, a, n),
        "compare n-grams, not words": lambda a, b, n: right(a, b, 1),
        "clip: an n-gram counts no more often than the reference has it": lambda a, b, n: (
            sum(gram in grams(b, n) for gram in grams(a, n).elements()) / (len(a) - n + 1)
        ),
        "divide by the number of n-grams, not of words": lambda a, b, n: (
            (grams(a, n) & grams(b, n)).total() / len(a)
        ),
        "count each n-gram as often as it occurs there, not once": lambda a, b, n: (
            len(grams(a, n).keys() & grams(b, n).keys()) / len(grams(a, n))
        ),
    }
    sentences = (
        "a b c d",
        "a b",
        "the the the the",
        "the cat",
        "a a b",
        "a a a",
        "b a",
        "a b x b c",
        "ab c",
        "a bc",
    )
    words = [sentence.split() for sentence in sentences]
    cases = [
        (a, b, n) for a, b in product(words, words) for n in (1, 2, 3) if min(len(a), len(b)) >= n
    ]
    require_cases(precision, right, cases, mistakes, Real, "a number from 0 to 1")
    yield from ("over the prediction's n-grams", "no more often than the reference")
