"""Chapter 15: seven broken translators of its first page, and a right one, on three seeds.

    python experiments/mistakes_seeds.py [--seeds 0 1 2] [--only right QueriesMasked ...]

Trained as in the chapter: 4,000 sentences of one item, 300 steps. A row gives the mean training
loss of the last 50 steps and the fraction of 200 sentences translated exactly; the loss on these
sentences, once as in training and once with the tokens before each target alone ("prefixes"): of
a model that reads no later token the two agree. "alone" is the fraction of sentences whose
translation changes if they are translated one by one. Two further models: "no attention", whose
attention layers all return zeros, and "frequencies", a right one with a bias at its output that is
the logarithm of the words' frequencies, of which the loss before the first step is recorded.

Of the right model there is more: its held-out loss without the target mask, the fraction
translated exactly if each token is taken for the first one while decoding, and both fractions for
short and long translations apart.
"""

import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.mistakes.catalogue import find_mistake
from chapters.mistakes.specimen import PlainAttention, Specimen
from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.training import train, warm_up
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

BROKEN = (
    *("RootOfDModel", "QueriesMasked", "CosineExponent", "HeadsByReshape", "NoTargetMask"),
    *("SoftmaxOverQueries", "OutputMadeInForward"),
)
MODELS = ("right", *BROKEN, "no attention", "frequencies")
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64}
LONG = 5  # words of a translation from which on it is a long one


class NoAttention(PlainAttention):
    """Returns zeros, whatever it is given."""

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return torch.zeros(*x.shape[:-1], self.w_o.out_features)


class Task:
    """The sentences of the chapter."""

    def __init__(self) -> None:
        self.training, self.held_out = translation_pairs(4_000, 200, max_items=1)
        self.source = Vocabulary.from_sentences(pair.source for pair in self.training)
        self.target = Vocabulary.from_sentences(pair.target for pair in self.training)

    def new(self, name: str) -> Specimen:
        sizes = (len(self.source), len(self.target))
        if name in BROKEN:
            return find_mistake(name).make(*sizes, **SIZES)
        layer = NoAttention if name == "no attention" else PlainAttention
        return Specimen(*sizes, layer, **SIZES)

    def translated(self, model: Specimen, pairs: list[Pair]) -> list[list[str]]:
        return translate(model, pairs, self.source, self.target, max_length=20)

    def right(self, model: Specimen) -> list[bool]:
        said = self.translated(model, self.held_out)
        return [a == list(pair.target) for a, pair in zip(said, self.held_out, strict=True)]

    def exact(self, model: Specimen) -> float:
        said = self.translated(model, self.held_out)
        return exact_match(said, [pair.target for pair in self.held_out])


def run(model: str, seed: int, steps: int) -> dict[str, float]:
    task = Task()
    torch.manual_seed(seed)
    made = task.new(model)
    if model == "frequencies":
        return rounded(first_losses(task, made))
    stream = endless(task.training, task.source, task.target, 32, seed=seed)
    losses = train(made, stream, steps, 4e-3, schedule=warm_up(50))
    made.eval()
    last = losses[-50:]
    found = {"loss": sum(last) / len(last), "exact": task.exact(made)}
    found["held out"], found["held out, prefixes"] = held_out_losses(task, made)
    if model in ("right", "QueriesMasked"):
        together = task.translated(made, task.held_out)
        one_by_one = [task.translated(made, [pair])[0] for pair in task.held_out]
        differ = [a != b for a, b in zip(together, one_by_one, strict=True)]
        found["alone"] = sum(differ) / len(differ)
    return rounded(found | (of_right(task, made) if model == "right" else {}))


def rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in found.items()}


@torch.no_grad()
def held_out_losses(task: Task, model: Specimen) -> tuple[float, float]:
    """The loss on the held-out sentences, as in training and with each prefix alone."""
    batch = make_batch(task.held_out, task.source, task.target)
    inputs = batch.source, batch.source_lengths
    whole = model(*inputs, batch.target_in)
    times = range(1, batch.target_in.shape[1] + 1)
    prefixes = torch.stack([model(*inputs, batch.target_in[:, :t])[:, -1] for t in times], dim=1)
    first, second = (
        F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD).item()
        for logits in (whole, prefixes)
    )
    return first, second


def of_right(task: Task, model: Specimen) -> dict[str, float]:
    """The same parameters in two broken models, and translations by their length."""
    copies = {}
    for name in ("MaskInTrainingOnly", "AlwaysPositionZero"):
        copies[name] = find_mistake(name).make(len(task.source), len(task.target), **SIZES).eval()
        copies[name].load_state_dict(model.state_dict())
    found = {"held out, no mask": held_out_losses(task, copies["MaskInTrainingOnly"])[0]}
    long = [len(pair.target) >= LONG for pair in task.held_out]
    found["long ones"] = sum(long) / len(long)
    for name, one in (("", model), (", position 0", copies["AlwaysPositionZero"])):
        right = task.right(one)
        found[f"exact{name}"] = sum(right) / len(right)
        for length, wanted in (("short", False), ("long", True)):
            some = [a for a, is_long in zip(right, long, strict=True) if is_long == wanted]
            found[f"exact{name}, {length}"] = sum(some) / len(some)
    return found


@torch.no_grad()
def first_losses(task: Task, model: Specimen) -> dict[str, float]:
    """The loss before the first step: as it is, and with the words' frequencies as a bias."""
    train_batch = make_batch(task.training, task.source, task.target)
    counts = train_batch.target_out[train_batch.target_out != PAD].bincount(
        minlength=len(task.target)
    )
    bias = (counts + 1.0).log() - (counts + 1.0).sum().log()
    batch = make_batch(task.held_out, task.source, task.target)
    logits = model.eval()(batch.source, batch.source_lengths, batch.target_in)
    wanted = batch.target_out.flatten()
    plain, biased = (
        F.cross_entropy(x.flatten(0, 1), wanted, ignore_index=PAD).item()
        for x in (logits, logits + bias)
    )
    return {"ln V": math.log(len(task.target)), "first loss": plain, "with frequencies": biased}


def conclude(record: dict[str, Any]) -> None:
    """Assert what chapter 15 concludes, for every seed."""
    models = record["models"]
    right, worst = models["right"], max(one["loss"] for one in models["right"])
    for name in BROKEN[:6]:
        for one in models[name]:
            assert one["loss"] < 1.5 * worst, f"{name} has an unsuspicious loss"
    for name in BROKEN[:3]:
        least = min(one["exact"] for one in right) - 0.1
        assert all(one["exact"] > least for one in models[name]), f"{name} translates"
    for name in BROKEN[3:6]:
        assert all(one["exact"] < 0.1 for one in models[name]), f"{name} does not translate"
        for one in models[name]:
            assert one["held out, prefixes"] > 2, f"{name} predicts nothing from the past alone"
    for seed, one in enumerate(right):
        assert one["held out"] == one["held out, prefixes"], "a right model reads no later token"
        assert models["NoTargetMask"][seed]["loss"] < 0.7 * one["loss"], "a leak is too good"
        assert models["QueriesMasked"][seed]["loss"] > one["loss"], "open padding is not"
        assert models["SoftmaxOverQueries"][seed]["held out"] < 0.6 * one["held out"], "a leak"
        assert models["HeadsByReshape"][seed]["held out"] > 3 * one["held out"], "held out it shows"
        made, none = models["OutputMadeInForward"][seed], models["no attention"][seed]
        assert made["loss"] > none["loss"], "a layer made in forward is worse than none"
        assert one["lost, long"] > one["lost, short"] + 0.04, "long translations lose more"
        assert one["no mask, ratio"] > 2, "without its mask a right model looks overfitted"
        assert one["alone"] == 0 < models["QueriesMasked"][seed]["alone"], "padding changes words"
    for one in models["frequencies"]:
        assert one["with frequencies"] < one["ln V"] - 0.8, "a first loss below ln V can be right"
        assert abs(one["first loss"] - one["ln V"]) < 0.3, "without a bias it is near ln V"


def record(runs: list[Run], options: dict[str, int]) -> dict[str, Any]:
    rows: dict[str, Any] = {model: [] for model in MODELS}
    for one in runs:
        figures = {name: x for name, x in one.items() if name not in ("seed", "model")}
        rows[one["model"]].append(figures)
    for one in rows["right"]:
        for length in ("short", "long"):
            lost = one[f"exact, {length}"] - one[f"exact, position 0, {length}"]
            one[f"lost, {length}"] = round(lost, 4)
        one["no mask, ratio"] = round(one["held out, no mask"] / one["held out"], 2)
    return {"seeds": sorted({one["seed"] for one in runs}), **options, "models": rows}


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=300)
    options = vars(given.options)
    recorded = grid(partial(run, **options), given, partial(record, options=options))
    if recorded:
        conclude(dict(recorded))


if __name__ == "__main__":
    main()
