"""Chapter 7's long runs: where the norm stands in deep Transformers, and what a step changes.

    python experiments/norm_depth_seeds.py [--seeds 0 1 2] [--steps 1200] [--warmup 300]

6+6 layers, sentences of one item; every setting on every seed, with the same start and the same
batches. "damped" multiplies the output of the i-th sub-layer of a post-norm stack by 1/sqrt(i),
"cross-attention damped" does this to the cross-attentions alone; "times .3" multiplies all
sub-layers of one kind by .3; "blind" reads a source of one constant token; "slow" has a third of
the learning rate, and "slow, longer" also 2.5 times the steps. "no norm inside" has one norm at the
end of each stack and no other; "smaller start" divides the matrix at the end of each of its
sub-layers by the root of their number. It writes
results/norm_depth_seeds.json, which the chapter loads: for each run the mean loss of every 50
steps, the accuracy on test sentences and the norm of each layer's gradient before and after; then,
for ten starts, how much the first update changes the decoder's output, by depth.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import PAD, UNK, Batch, Pair, Vocabulary, endless, make_batch
from lib.decoding import translate
from lib.layers import FeedForward, Residual
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, token_loss, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0, "tied": False}
LR, BATCH_SIZE, WINDOW = 3e-3, 32, 50
SMALL = LR / 10  # an update so small that the output's change is not yet bounded
DEPTHS, STARTS = (2, 6), range(10)  # of the models whose first update is measured
DAMPED: dict[str, tuple[tuple[str, ...], Callable[[int], float]]] = {  # which, and by what
    "damped": (("self_attention", "cross_attention", "feed_forward"), lambda i: i**-0.5),
    "cross-attention damped": (("cross_attention",), lambda i: i**-0.5),
    "self-attention times .3": (("self_attention",), lambda i: 0.3),
    "feed-forward times .3": (("feed_forward",), lambda i: 0.3),
}


class Setting(NamedTuple):
    """What a run differs in: the norm's place, the damping, the warm-up, what the model reads,
    the learning rate, how many times the steps, and whether it starts smaller.
    """

    norm: str
    damped: str | None = None
    warm: bool = False
    blind: bool = False
    rate: float = LR
    times: float = 1
    smaller: bool = False


SETTINGS = {
    "pre-norm": Setting("pre"),
    "post-norm": Setting("post"),
    "post-norm, warm-up": Setting("post", warm=True),
    **{f"post-norm, {damped}": Setting("post", damped) for damped in DAMPED},
    "post-norm, slow": Setting("post", rate=LR / 3),
    "post-norm, slow, longer": Setting("post", rate=LR / 3, times=2.5),
    "no norm inside": Setting("end"),
    "no norm inside, slow": Setting("end", rate=LR / 3),
    "no norm inside, smaller start": Setting("end", smaller=True),
    "blind": Setting("pre", blind=True),
}


class Damped(nn.Module):
    """A sub-layer whose output is multiplied by a constant."""

    def __init__(self, sublayer: nn.Module, factor: float):
        super().__init__()
        self.sublayer, self.factor = sublayer, factor

    def forward(self, *inputs: Tensor, **options: object) -> Tensor:
        return self.factor * self.sublayer(*inputs, **options)


def build(
    vocabularies: list[Vocabulary], norm: str, n_layers: int, damped: str | None, seed: int
) -> Transformer:
    """Make the model of a setting; damping draws no random number, so the start is the same.

    norm "end": as "pre", but the only norms are those at the end of the stacks.
    """
    seed_everything(seed)
    place = "pre" if norm == "end" else norm
    model = Transformer(Config(*map(len, vocabularies), norm=place, n_layers=n_layers, **SIZES))
    for stack in (model.encoder, model.decoder):
        parts = sublayers(stack)
        if norm == "end":
            for _, residual in parts:
                residual.norm = nn.Identity()
        if damped is None:
            continue
        kinds, factor = DAMPED[damped]
        for i, (name, residual) in enumerate(parts, start=1):
            if name in kinds:
                residual.sublayer = Damped(residual.sublayer, factor(i))
    return model


def sublayers(stack: nn.Module) -> list[tuple[str, Residual]]:
    """The sub-layers of a stack from the bottom to the top, with the names of their kinds."""
    return [part for layer in stack.layers for part in layer.named_children()]


def start_smaller(model: Transformer) -> None:
    """Divide the matrix at the end of each sub-layer by the root of the stack's number of them."""
    for stack in (model.encoder, model.decoder):
        parts = sublayers(stack)
        for _, residual in parts:
            inner = residual.sublayer
            last = inner.w_2 if isinstance(inner, FeedForward) else inner.w_o
            last.weight.data /= len(parts) ** 0.5


def blinded(batch: Batch) -> Batch:
    """The same batch with nothing in its sources, not even their lengths."""
    return replace(
        batch,
        source=torch.full_like(batch.source[:, :1], UNK),
        source_lengths=torch.ones_like(batch.source_lengths),
    )


def backward(model: Transformer, batch: Batch) -> None:
    model.zero_grad()
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    token_loss(logits, batch.target_out).backward()


def gradient_norms(model: Transformer, batch: Batch) -> dict[str, list[float]]:
    """The norm of the gradient in each layer's parameters, on one batch."""
    backward(model, batch)
    stacks = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    norms = {}
    for name, layers in stacks.items():
        grads = [[p.grad for p in layer.parameters() if p.grad is not None] for layer in layers]
        norms[name] = [float(f"{nn.utils.get_total_norm(g).item():.3g}") for g in grads]
    model.zero_grad()
    return norms


@cache
def data() -> tuple[list[Pair], list[Pair]]:
    return translation_pairs(4000, 200, max_items=1)


def run(setting: str, seed: int, steps: int, warmup: int) -> dict[str, Any]:
    """Train one model and say how it went."""
    norm, damped, warm, blind, rate, times, smaller = SETTINGS[setting]
    steps = round(steps * times)
    training, test = data()
    vocabularies = vocabularies_of(training)
    model = build(vocabularies, norm, 6, damped, seed)
    if smaller:
        start_smaller(model)
    fixed = make_batch(training[:64], *vocabularies)
    before = gradient_norms(model, fixed)
    stream: Iterator[Batch] = endless(training, *vocabularies, BATCH_SIZE, seed=seed)
    stream = map(blinded, stream) if blind else stream
    schedule = cosine(steps, warmup if warm else 0)
    losses = train(model, stream, steps, rate, schedule=schedule)
    means = [sum(losses[i : i + WINDOW]) / WINDOW for i in range(0, steps, WINDOW)]
    said = [] if blind else translate(model, test, *vocabularies)
    exact = exact_match(said, [pair.target for pair in test]) if said else None
    return {
        "losses": [round(loss, 4) for loss in means],
        "exact": exact,
        "before": before,
        "after": gradient_norms(model, fixed),
    }


@torch.no_grad()
def output_of(model: Transformer, batch: Batch) -> Tensor:
    """The decoder's outputs at the real positions, (tokens, d_model)."""
    memory, mask = model.encode(batch.source, batch.source_lengths)
    y = model.decoder(model.target_embedding(batch.target_in), memory, mask)
    return y[batch.target_out != PAD]


def amplification(model: Transformer, batch: Batch) -> float:
    """The squared change of the decoder's output that one update makes, over its square.

    The update has the direction of Adam's first one, the gradient's signs.
    """
    before = output_of(model, batch)
    backward(model, batch)
    for stack in (model.encoder.layers, model.decoder.layers):
        for p in stack.parameters():
            p.data -= SMALL * p.grad.sign()
    return ((output_of(model, batch) - before).square().sum() / before.square().sum()).item()


def changes() -> dict[str, dict[str, list[float]]]:
    """By setting and layers a side: what the first update changes, one number for each start."""
    training, _ = data()
    vocabularies = vocabularies_of(training)
    batch = make_batch(training[:64], *vocabularies)
    kinds = {"pre-norm": ("pre", None), "post-norm": ("post", None)}
    kinds |= {f"post-norm, {damped}": ("post", damped) for damped in DAMPED}
    table: dict[str, dict[str, list[float]]] = {}
    for name, (norm, damped) in kinds.items():
        table[name] = {}
        for n_layers in DEPTHS:
            models = (build(vocabularies, norm, n_layers, damped, seed) for seed in STARTS)
            found = [amplification(model, batch) for model in models]
            table[name][str(n_layers)] = [float(f"{change:.3g}") for change in found]
    return table


def vocabularies_of(training: list[Pair]) -> list[Vocabulary]:
    sides = ("source", "target")
    return [Vocabulary.from_sentences(getattr(pair, s) for pair in training) for s in sides]


def record(runs: list[Run], steps: int, warmup: int) -> dict[str, Any]:
    """The changes of an update, and for each setting its runs, one for each seed."""
    seeds = list(dict.fromkeys(one["seed"] for one in runs))
    by_setting: dict[str, list[Run]] = {}
    for one in runs:
        row = {name: x for name, x in one.items() if name not in ("setting", "seed")}
        by_setting.setdefault(one["setting"], []).append(row)
    return {
        "changes": changes(),
        "seeds": seeds,
        "steps": steps,
        "rate": LR,
        "warmup": warmup,
        "window": WINDOW,
        "test sentences": len(data()[1]),
        "runs": by_setting,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=1200, warmup=300)
    options = vars(given.options)
    grid(partial(run, **options), given, partial(record, **options))


if __name__ == "__main__":
    main()
