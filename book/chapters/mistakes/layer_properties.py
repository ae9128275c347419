"""What a right attention layer does: it runs on all sizes, its weights sum to 1, their spread is
that of the scores whatever the sizes, and float16 is enough.

`chapters.mistakes.properties` asks these without gradients, in the order in which they stand."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from checks.framework import CLOSE, asks, decide, gap, stir

SPREADS = ((24, 3), (96, 3), (96, 12))  # d_in and heads
Found = tuple[bool, float, str]  # whether it held, the number that decided, a message


@dataclass(frozen=True)
class LayerSubject:
    """What is tested: how to make a layer of (d_in, n_heads, d_out), and one to compare it with."""

    make_layer: Callable[[int, int, int], nn.Module]
    reference: Callable[[int, int, int], nn.Module] | None = None

    def layer(self, d_in: int = 24, n_heads: int = 3, d_out: int = 24) -> nn.Module:
        """A fresh layer in evaluation mode."""
        return fresh(self.make_layer, d_in, n_heads, d_out)


def fresh(make: Callable[..., nn.Module], *sizes: int, seed: int = 0) -> nn.Module:
    """Make a module from a seed, in evaluation mode and on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*sizes).cpu().eval()


def normal(*shape: int) -> Tensor:
    """Normal numbers in float32, the same at each call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@asks("sizes", "Does it run on sizes no two of which are equal, and on a single token?")
def layer_runs(subject: LayerSubject) -> Found:
    """(batch, query, d_out) for d_in unlike d_out, and as many keys as queries, more, or fewer."""
    layer, x = subject.layer(12, 3, 20), normal(2, 5, 12)
    outputs = [layer(x), *(layer(x, normal(2, keys, 12)) for keys in (7, 1))]
    shapes = [tuple(output.shape) for output in outputs]
    wrong = [shape for shape in shapes if shape != (2, 5, 20)]
    bad = f"expected (batch, query, d_out) = (2, 5, 20), got {wrong[:1]}"
    return decide(len(wrong), 0, "(batch, query, d_out)", bad)


@asks("weights", "Do the rows of the attention map sum to 1, and are they 0 where masked?")
def weights_are_shares(subject: LayerSubject) -> Found:
    """With a random mask, one row of which is fully masked: that row must be all 0."""
    mask = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[..., 0], mask[0, 2] = True, False
    x, memory = normal(2, 5, 24), normal(2, 7, 24)
    layer: Any = subject.layer()
    weights = layer.attention_weights(x, memory, mask=mask)
    if tuple(weights.shape) != (2, 3, 5, 7):
        return False, math.inf, f"expected a map (2, 3, 5, 7), got {tuple(weights.shape)}"
    open_rows = mask.any(-1)[:, None].expand(2, 3, 5)
    faults = {
        "a fully masked row is not 0": weights[~open_rows],
        "rows do not sum to 1": (weights.sum(-1) - 1).masked_fill(~open_rows, 0.0),
        "masked keys have weight": weights.masked_fill(mask[:, None], 0.0),
    }
    worst = {what: gap(fault, torch.zeros_like(fault)) for what, fault in faults.items()}
    bad = max(worst, key=lambda what: worst[what])
    return decide(worst[bad], CLOSE, "rows sum to 1, and 0 where masked", bad)


@asks("spread", "Is the spread of the scores the same for all d_in and numbers of heads?")
def spread_is_constant(subject: LayerSubject) -> Found:
    """The logs of a row's weights are its scores, but for a constant; the number is the ratio of
    the largest standard deviation to the smallest, over three pairs of sizes.
    """
    spreads = []
    for d_in, n_heads in SPREADS:
        layer: Any = subject.layer(d_in, n_heads, d_in)
        weights = layer.attention_weights(normal(3, 40, d_in))
        spreads.append(weights.log().std(-1).mean().item())
    ratio = max(spreads) / min(spreads)
    bad = "it changes with the sizes: what are the scores divided by?"
    bad = bad if math.isfinite(ratio) else "without a mask some weights are 0, or no numbers"
    return decide(ratio, 1.5, "the same for all sizes", bad)


@asks("half", "Does it give the same in float16?")
def half_is_enough(subject: LayerSubject) -> Found:
    """With a causal mask, to within 0.02."""
    layer, x, mask = subject.layer(), normal(2, 5, 24), torch.ones(5, 5, dtype=torch.bool).tril()
    single = layer(x, mask=mask)
    half = layer.half()(x.half(), mask=mask).float()
    return decide(gap(half, single), 0.02, "the same to within 0.02", "another output in float16")


@asks(
    "copied layer", "Does a right layer with the same parameters give the same, d_in unlike d_out?"
)
def copied_layer_agrees(subject: LayerSubject) -> Found | None:
    """Change the parameters a little, load them into the reference and compare."""
    if subject.reference is None:
        return None
    layer, other, x = subject.layer(12, 3, 20), subject.reference(12, 3, 20), normal(2, 5, 12)
    stir(layer)
    other.load_state_dict(layer.state_dict())
    number = gap(layer(x), other(x))
    return decide(number, CLOSE, "the same output", "the same parameters give another output")
