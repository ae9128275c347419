"""What a right attention layer, a table of positions, a schedule, a loss, a cut and a score do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kit.shared.checks import CLOSE, Finding, asks, decide, gap, stir

SPREADS = ((24, 3), (96, 3), (96, 12))  # d_in and heads


@dataclass(frozen=True)
class LayerSubject:
    """What is tested: how to make a layer from (d_in, n_heads, d_out), and from that a reference."""

    make_layer: Callable[[int, int, int], nn.Module]
    reference: Callable[[int, int, int], nn.Module] | None = None

    def layer(self, d_in: int = 24, n_heads: int = 3, d_out: int = 24) -> nn.Module:
        """A fresh layer in evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make_layer(d_in, n_heads, d_out).eval()


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@asks("sizes", "Does it run on sizes no two of which are equal, and on a single token?")
def layer_runs(subject: LayerSubject) -> tuple[bool, float, str]:
    """(batch, query, d_out) for d_in unlike d_out, and as many keys as queries, more, or fewer."""
    layer = subject.layer(12, 3, 20)
    with torch.no_grad():
        outputs = [layer(_normal(2, 5, 12))]
        outputs += [layer(_normal(2, 5, 12), _normal(2, keys, 12)) for keys in (7, 1)]
    shapes = [tuple(output.shape) for output in outputs]
    wrong = [shape for shape in shapes if shape != (2, 5, 20)]
    bad = f"expected (batch, query, d_out) = (2, 5, 20), got {wrong[:1]}"
    return decide(len(wrong), 0, "(batch, query, d_out)", bad)


@asks("weights", "Do the rows of the map sum to 1, and are they 0 where masked?")
def weights_are_shares(subject: LayerSubject) -> tuple[bool, float, str]:
    """With a random mask, one row of which allows no key: that row must be all 0."""
    mask = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[..., 0], mask[0, 2] = True, False
    with torch.no_grad():
        layer = subject.layer()
        _, weights = layer(_normal(2, 5, 24), _normal(2, 7, 24), mask=mask, return_weights=True)
    if tuple(weights.shape) != (2, 3, 5, 7):
        return False, math.inf, f"expected a map (2, 3, 5, 7), got {tuple(weights.shape)}"
    open_rows = mask.any(-1)[:, None].expand(2, 3, 5)
    faults = {
        "masked keys have weight": weights.masked_fill(mask[:, None], 0.0),
        "rows do not sum to 1": (weights.sum(-1) - 1).masked_fill(~open_rows, 0.0),
        "a row without a key is not 0": weights[~open_rows],
    }
    worst = {what: _largest(fault) for what, fault in reversed(faults.items())}
    bad = max(worst, key=worst.get)
    return decide(worst[bad], CLOSE, "shares of 1, and 0 where masked", bad)


def _largest(fault: Tensor) -> float:
    return fault.abs().max().item() if fault.isfinite().all() else math.inf


@asks("spread", "Is the spread of the scores the same for all widths and numbers of heads?")
def spread_is_constant(subject: LayerSubject) -> tuple[bool, float, str]:
    """The logs of a row's weights are its scores, but for a constant; the number is the ratio of
    the largest standard deviation to the smallest, over three pairs of sizes.
    """
    spreads = []
    for d_in, n_heads in SPREADS:
        layer = subject.layer(d_in, n_heads, d_in)
        with torch.no_grad():
            _, weights = layer(_normal(3, 40, d_in), return_weights=True)
        spreads.append(weights.log().std(-1).mean().item())
    bad = "it changes with the sizes: which number stands under the root?"
    return decide(max(spreads) / min(spreads), 1.5, "the same for all sizes", bad)


@asks("half", "Does it give the same in float16?")
def half_is_enough(subject: LayerSubject) -> tuple[bool, float, str]:
    """With a causal mask, to within 0.02."""
    layer, x, mask = subject.layer(), _normal(2, 5, 24), torch.ones(5, 5, dtype=torch.bool).tril()
    with torch.no_grad():
        single = layer(x, mask=mask)
        half = layer.half()(x.half(), mask=mask).float()
    return decide(gap(half, single), 0.02, "the same to within 0.02", "another output in float16")


@asks("copied layer", "Does a right layer with the same weights give the same, d_in unlike d_out?")
def copied_layer_agrees(subject: LayerSubject) -> tuple[bool, float, str] | None:
    """Stir the weights, load them into the reference and compare."""
    if subject.reference is None:
        return None
    layer, other, x = subject.layer(12, 3, 20), subject.reference(12, 3, 20), _normal(2, 5, 12)
    stir(layer)
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        number = gap(layer(x), other(x))
    return decide(number, CLOSE, "the same output", "the same weights give another output")


@asks("shift", "Is there one matrix that shifts all positions alike?")
def shift_is_linear(table: Tensor) -> tuple[bool, float, str]:
    """Fit M with PE(pos) M = PE(pos + 5) to all positions; the number is what is left over."""
    table = table.double()
    matrix = torch.linalg.lstsq(table[:-5], table[5:], driver="gelsd").solution
    residual = (table[:-5] @ matrix - table[5:]).abs().max().item()
    bad = "no matrix does: sine and cosine of a pair need one frequency"
    return decide(residual, 1e-3, "one matrix shifts them all", bad)


@asks("updates", "Does the schedule move on once an update?")
def rate_follows_updates(rates: Callable[..., Sequence[float]]) -> tuple[bool, float, str]:
    """rates(schedule, updates, accumulate) -> the rate of each update; the number is how many are
    wrong.
    """
    wrong = 0
    for accumulate in (1, 10):
        got = list(rates(lambda step: step / 100, 7, accumulate))
        wrong += sum(a != step / 100 for step, a in enumerate(got)) + abs(len(got) - 7)
    return decide(wrong, 0, "one step an update", "the schedule counts micro-batches")


@asks("forbidden", "Is the loss finite where a token may not be said?")
def forbidden_is_free(loss: Callable[[Tensor, Tensor], Tensor]) -> tuple[bool, float, str]:
    """loss(logits (rows, vocab), target (rows,)) with one logit at -inf that is no target."""
    logits = _normal(4, 6).index_fill(1, torch.tensor([0]), -torch.inf).requires_grad_()
    value = loss(logits, torch.tensor([1, 2, 3, 5]))
    value.backward()
    wrong = [x for x in (value, logits.grad) if not x.isfinite().all()]
    return decide(len(wrong), 0, "loss and gradient are finite", f"the loss is {value.item()}")


@asks("cut", "Has a token that was cut probability 0?")
def cut_is_zero(cut: Callable[[Tensor, int], Tensor]) -> tuple[bool, float, str]:
    """cut(logits, k) leaves k tokens; the number is the chance of all others together."""
    logits = _normal(5, 11) - 1
    chance = cut(logits, 3).softmax(-1)
    rest = chance.scatter(-1, logits.topk(3).indices, 0.0).sum(-1).max().item()
    return decide(rest, 0, "exactly 0", "what was cut can still be drawn: is the filler -inf?")


@asks("brevity", "Is an answer that stops half-way punished for its length alone?")
def brevity_is_punished(score: Callable[[Sequence, Sequence], float]) -> tuple[bool, float, str]:
    """score(predictions, references), where the predictions are the first half: 100 / e."""
    references = [[f"w{i}" for i in range(20)], [f"v{i}" for i in range(12)]]
    found = float(score([words[: len(words) // 2] for words in references], references))
    wanted = 100 * math.exp(-1)
    held = abs(found - wanted) < 0.01
    return held, found, "100 / e, as it must be" if held else f"expected {wanted:.1f}: swapped?"


def found_in(part: object, name: str) -> Finding:
    """Run one of the properties of single parts: "shift", "updates", "forbidden", "cut", "brevity".

    Errors: ValueError for another name.
    """
    known = {p.name: p for p in (shift_is_linear, rate_follows_updates, forbidden_is_free)}
    known |= {p.name: p for p in (cut_is_zero, brevity_is_punished)}
    if name not in known:
        raise ValueError(f"expected a property out of {', '.join(known)}, got {name!r}")
    return known[name](part)
