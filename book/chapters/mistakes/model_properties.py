"""What a right model does whatever its parameters: it reads all that it may and nothing that it may
not, decodes as it trains, starts from a uniform prediction, and learns.

`chapters.mistakes.properties` asks these without gradients, in the order in which they stand."""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from chapters.mistakes.layer_properties import Found, fresh
from checks.framework import CLOSE, asks, decide, gap, stir
from checks.sequences import LENGTHS, another
from lib.data import BOS, EOS, PAD

NEAR_LN = 1.0  # how far from ln V the first loss may be
OVERFIT_STEPS, OVERFIT_LOSS = 100, 0.1
OVERFIT_RATES = (1e-2, 1e-3, 3e-4, 1e-4)
Inputs = tuple[Tensor, Tensor, Tensor]  # source, source_lengths, target_in


@dataclass(frozen=True)
class ModelSubject:
    """What is tested: how to make a model, its vocabularies, and what it may be compared with."""

    make_model: Callable[[], nn.Module]
    source_vocab: int
    target_vocab: int
    parameters: int | None = None
    reference: Callable[[Any], nn.Module] | None = None

    def model(self, seed: int = 0) -> Any:
        """A fresh model, a module with `start` and `step`, in evaluation mode."""
        return fresh(self.make_model, seed=seed)

    def batch(self, time: int = 4) -> Inputs:
        """Sources padded to 7, their lengths, and targets without padding."""
        draw = torch.Generator().manual_seed(0)
        lengths = torch.tensor(LENGTHS)
        source = torch.randint(EOS + 1, self.source_vocab, (5, 7), generator=draw)
        target = torch.randint(EOS + 1, self.target_vocab, (5, time), generator=draw)
        target[:, 0] = BOS
        return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths, target


def changed(tokens: Tensor, position: int, vocab: int) -> Tensor:
    """A copy with another word at one position of each sentence."""
    return tokens.index_copy(1, torch.tensor([position]), another(tokens[:, [position]], vocab))


def modes(model: nn.Module) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    """The model in training and then in evaluation mode, with its name; dropout is repeated."""

    def run(*inputs: Tensor) -> Tensor:
        torch.manual_seed(0)
        return model(*inputs)

    for name in ("in training", "at inference"):
        model.train(name == "in training")
        yield name, run


def next_token_loss(model: nn.Module, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy of all tokens of the target but the first."""
    logits = model(source, lengths, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


@asks("sizes", "Does it run on sizes no two of which are equal, and on a single token?")
def runs_on_all_sizes(subject: ModelSubject) -> Found:
    """Logits (batch, time, vocab), finite, for sizes that no two axes share."""
    model, wrong = subject.model(), []
    for batch, source_time, time in ((5, 7, 3), (2, 3, 11), (1, 1, 1)):
        source = torch.full((batch, source_time), EOS + 1)
        target = torch.full((batch, time), EOS + 2)
        logits = model(source, torch.full((batch,), source_time), target)
        got = tuple(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        wanted = (batch, time, subject.target_vocab)
        if got != wanted or not logits.isfinite().all():
            wrong.append(f"expected finite logits {wanted}, got {got}")
    return decide(len(wrong), 0, "logits (batch, time, vocab), all finite", "; ".join(wrong[:1]))


@asks("future", "Does a later target token leave earlier logits alone, in both modes?")
def future_is_unseen(subject: ModelSubject) -> Found:
    """Change a target token: no earlier logit may move, in training and at inference."""
    model, (source, lengths, target) = subject.model(), subject.batch()
    others = {t: changed(target, t, subject.target_vocab) for t in range(1, 4)}
    worst = {}
    for mode, run in modes(model):
        before = run(source, lengths, target)
        after = {t: run(source, lengths, other) for t, other in others.items()}
        worst[mode] = max(gap(logits[:, :t], before[:, :t]) for t, logits in after.items())
    where = " and ".join(mode for mode, number in worst.items() if number > CLOSE)
    bad = f"an earlier logit depends on a later token {where}: mask, softmax axis, split of heads?"
    return decide(max(worst.values()), CLOSE, "no earlier logit moved", bad)


@asks("padding", "Does padding leave the logits alone, whatever stands in it and however long?")
def padding_is_unread(subject: ModelSubject) -> Found:
    """Change what stands in the source's padding, and add more of it: no logit may move."""
    model, (source, *rest) = subject.model(), subject.batch()
    noisy = torch.where(source == PAD, EOS + 1, source)
    longer = F.pad(source, (0, 3), value=PAD)
    numbers = [gap(run(noisy, *rest), run(source, *rest)) for _, run in modes(model)]
    numbers.append(gap(model(longer, *rest), model(source, *rest)))
    bad = "padding is read: polarity, or the axis, of the padding mask?"
    return decide(max(numbers), CLOSE, "no logit moved", bad)


@asks("alone", "Does a sentence get the same logits alone as in a batch without padding?")
def batch_is_unseen(subject: ModelSubject) -> Found:
    """Sentences of one length, together and one by one."""
    model, (source, _, target) = subject.model(), subject.batch()
    inputs = source.clamp(min=EOS + 1), torch.full((5,), 7), target
    together = model(*inputs)
    alone = [model(*(x[i, None] for x in inputs)) for i in range(5)]
    number = gap(torch.cat(alone), together)
    return decide(number, CLOSE, "the same logits", "sentences of a batch mix: a wrong axis?")


@asks("depends", "Does the output depend on every token that may be read?")
def tokens_have_effect(subject: ModelSubject) -> Found:
    """Change one real token: the last logits must move; the number is the least they moved."""
    source, lengths, target = inputs = subject.batch()
    changes = {
        f"source token {j}": (changed(source, j, subject.source_vocab), target, lengths > j)
        for j in range(7)
    }
    changes |= {
        f"target token {t}": (source, changed(target, t, subject.target_vocab), lengths > 0)
        for t in range(4)
    }
    least, number = _least_effect(subject.model(), inputs, changes)
    bad = f"{least} changes nothing: polarity of a mask, or an input that is never used?"
    held = number > CLOSE
    return held, number, "each real token moves the last logits" if held else bad


@asks("order", "Does the order of two words matter?")
def order_has_effect(subject: ModelSubject) -> Found:
    """Exchange two neighbours, in the source and in the target: the last logits must move."""
    source, lengths, target = inputs = subject.batch(5)
    source[:, 1] = another(source[:, 0], subject.source_vocab)  # two that differ
    target[:, 2] = another(target[:, 1], subject.target_vocab)
    changes = {
        "source": (source[:, [1, 0, 2, 3, 4, 5, 6]], target, lengths > 2),
        "target": (source, target[:, [0, 2, 1, 3, 4]], lengths > 0),
    }
    least, number = _least_effect(subject.model(), inputs, changes)
    bad = f"the order of the {least} changes nothing: are the positions added, and used?"
    held = number > CLOSE
    return held, number, "two words exchanged move the logits" if held else bad


def _least_effect(
    model: nn.Module, inputs: Inputs, changes: dict[str, tuple[Tensor, Tensor, Tensor]]
) -> tuple[str, float]:
    """Which change moves the last logits of some sentence the least, and by how much.

    Args: changes, by name another source, another target, and which sentences of the batch differ.
    """
    before, moved = model(*inputs)[:, -1], {}
    for name, (source, target, rows) in changes.items():
        change = model(source, inputs[1], target)[:, -1] - before  # (batch, vocab)
        moved[name] = change[rows].abs().amax(-1).min().item()
    return min(moved.items(), key=lambda item: item[1])


@asks("stepwise", "Are the logits the same step by step as all at once?")
def steps_agree(subject: ModelSubject) -> Found | None:
    """Decode a given target token by token, and compare with teacher forcing."""
    model, (source, lengths, target) = subject.model(), subject.batch()
    if not (hasattr(model, "start") or hasattr(model, "step")):
        return None
    at_once = model(source, lengths, target)
    state, gaps = model.start(source, lengths), []
    for t, token in enumerate(target.unbind(1)):
        logits, _, state = model.step(token, state)
        gaps.append(gap(logits, at_once[:, t]))
    first = next((t for t, number in enumerate(gaps) if number > CLOSE), None)
    bad = f"they differ from position {first} on: a position, a mask or a cache of one step?"
    return decide(max(gaps), CLOSE, "the same logits", bad)


@asks("repeat", "Does the same input give the same output twice, at inference?")
def repeats_itself(subject: ModelSubject) -> Found:
    """Run a batch twice in evaluation mode, with another seed."""
    model, inputs, outputs = subject.model(), subject.batch(), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        outputs.append(model(*inputs))
    bad = "twice not the same: a layer made in forward, or dropout that ignores eval()?"
    return decide(gap(*outputs), CLOSE, "the same output", bad)


@asks("saved", "Does a fresh model that loads the saved parameters give the same?")
def saved_is_the_same(subject: ModelSubject) -> Found:
    """Through the bytes of a file, into a model that began with other parameters."""
    model, fresh, inputs = subject.model(), subject.model(seed=1), subject.batch()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    bad = "another output after loading: some parameters are not in the state_dict"
    return decide(gap(fresh(*inputs), model(*inputs)), CLOSE, "the same output after loading", bad)


@asks("moves", "Does everything the model keeps move along with .to()?")
def all_of_it_moves(subject: ModelSubject) -> Found:
    """Look for tensors and modules that stand in plain attributes, lists or dictionaries.

    A tensor that the model itself moves to the device of its input does not count.
    """
    model = subject.model()
    left = _outside(model)
    names = ", ".join(name for name, _ in left[:3])
    bad = f"{names} would stay behind: register_buffer, or nn.ModuleList"
    if left and _moves_them(model, subject.batch()):
        left = []
    return decide(len(left), 0, "all tensors are parameters or buffers", bad)


def _outside(model: nn.Module) -> list[tuple[str, list[Tensor | nn.Module]]]:
    """The attributes with tensors and modules that .to() does not know, and these."""
    known = {id(thing) for thing in (*model.modules(), *model.parameters(), *model.buffers())}
    found = [
        (f"{type(owner).__name__}.{name}", [t for t in _things(value) if id(t) not in known])
        for owner in model.modules()
        for name, value in vars(owner).items()
        if name not in ("_parameters", "_buffers", "_modules")
    ]
    return [(name, things) for name, things in found if things]


def _moves_them(model: nn.Module, inputs: Inputs) -> bool:
    """Whether all that was outside is on torch's device without numbers after a run on it."""
    try:
        model.to("meta")(*(x.to("meta") for x in inputs))
    except Exception:
        return False
    things = [thing for _, things in _outside(model) for thing in things]
    return all(isinstance(thing, Tensor) and thing.is_meta for thing in things)


def _things(value: object) -> Iterator[Tensor | nn.Module]:
    """The tensors and modules in a value, however deep in lists and dictionaries."""
    if isinstance(value, Tensor | nn.Module):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _things(part)


@asks("learns", "Does the optimiser reach every parameter that is used?")
@torch.enable_grad()
def all_of_it_learns(subject: ModelSubject) -> Found:
    """One backward pass: no parameter used outside parameters(), and none inside without gradient.

    The number counts such parameters. A matrix must get a gradient that is not 0. A vector need
    only be reached: what the keys' bias adds to a row of scores, softmax takes away again, so its
    gradient is 0 but for rounding.
    """
    model, used = subject.model(), set()
    hook = register_module_forward_hook(lambda module, *_: used.update(module.parameters()))
    try:
        model(*subject.batch()).square().mean().backward()
    finally:
        hook.remove()
    outside = sum(p.numel() for p in used.difference(model.parameters()))
    idle = {
        name: p.numel()
        for name, p in model.named_parameters()
        if p.requires_grad and (p.grad is None or (p.dim() > 1 and not p.grad.any()))
    }
    bad = f"no gradient reaches {', '.join(list(idle)[:3])}"
    if outside:
        bad = f"{outside:,} parameters are used that model.parameters() does not list"
    return decide(outside + sum(idle.values()), 0, "a gradient reaches every parameter", bad)


@asks("count", "Has the model as many parameters as the formula says?")
def count_is_right(subject: ModelSubject) -> Found | None:
    """Compare with the number that was given; the finding's number is the difference."""
    if subject.parameters is None:
        return None
    found, wanted = sum(p.numel() for p in subject.model().parameters()), subject.parameters
    bad = (
        f"{found:,} parameters, expected {wanted:,}: a head's dimension, or layers not registered?"
    )
    held = found == wanted
    return held, float(found - wanted), f"{wanted:,} parameters" if held else bad


@asks("first loss", "Is the loss before training near ln V?")
def first_loss_is_uniform(subject: ModelSubject) -> Found:
    """An untrained model should give all V tokens about the same probability."""
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(EOS + 1, subject.source_vocab, (32, 7), generator=draw)
    target = torch.randint(EOS + 1, subject.target_vocab, (32, 12), generator=draw)
    loss = next_token_loss(subject.model(), source, torch.full((32,), 7), target).item()
    uniform = math.log(subject.target_vocab)
    held = abs(loss - uniform) <= NEAR_LN
    bad = f"expected about ln V = {uniform:.1f}: are the first logits too large?"
    return held, loss, f"near ln V = {uniform:.1f}" if held else bad


@asks("one batch", "Can it memorise one small batch?")
@torch.enable_grad()
def memorises(subject: ModelSubject) -> Found:
    """Adam on five sentences, without dropout: within 100 steps the loss must fall below 0.1.

    A deep or wide model needs a smaller rate, so four rates are tried.
    """
    least = math.inf
    for loss in _losses(subject):
        least = min(least, loss)
        if least < OVERFIT_LOSS:
            break
    bad = f"not below {OVERFIT_LOSS} within {OVERFIT_STEPS} steps: does a gradient flow?"
    return decide(least, OVERFIT_LOSS, "memorised", bad)


def _losses(subject: ModelSubject) -> Iterator[float]:
    """The loss before each step of training on one batch, anew with one rate after another."""
    inputs = subject.batch(6)
    for rate in OVERFIT_RATES:
        model = subject.model()  # in evaluation mode: no dropout; gradients flow all the same
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(OVERFIT_STEPS):
            loss = next_token_loss(model, *inputs)
            yield loss.item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@asks("copied", "Does a right model with the same parameters give the same?")
def copy_agrees(subject: ModelSubject) -> Found | None:
    """Change the parameters a little, load them into the reference and compare the logits."""
    if subject.reference is None:
        return None
    model, inputs = subject.model(), subject.batch()
    stir(model)
    other = subject.reference(model).eval()
    other.load_state_dict(model.state_dict())
    bad = "the same parameters give other logits: look at every formula"
    number = gap(model(*inputs), other(*inputs))
    return decide(number, CLOSE, "the reference gives the same logits", bad)
