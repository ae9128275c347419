"""What a right model does with its parameters: it owns, saves, moves and trains them all."""

import io
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from lib.checks.findings import CLOSE, ModelSubject, asks, decide, gap, stir
from lib.data import EOS

NEAR_LN = 1.0  # how far from ln V the first loss may be
OVERFIT_STEPS, OVERFIT_LOSS = 100, 0.1
OVERFIT_RATES = (1e-2, 1e-3, 3e-4, 1e-4)


@asks("saved", "Does a fresh model that loads the saved weights give the same?")
def saved_is_the_same(subject: ModelSubject) -> tuple[bool, float, str]:
    """Through the bytes of a file, into a model that began with other weights."""
    model, fresh, inputs = subject.model(), subject.model(seed=1), subject.batch()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        number = gap(fresh(*inputs), model(*inputs))
    bad = "another output after loading: some weights are not in the state_dict"
    return decide(number, CLOSE, "the same output after loading", bad)


@asks("moves", "Does everything the model keeps move along with .to()?")
def all_of_it_moves(subject: ModelSubject) -> tuple[bool, float, str]:
    """Look for tensors and modules that stand in plain attributes, lists or dictionaries."""
    model = subject.model()
    known = set(map(id, model.modules()))
    kept = [*model.parameters(), *model.buffers()]
    tensors = set(map(id, kept))
    left = [
        f"{type(owner).__name__}.{name}"
        for owner in model.modules()
        for name, value in vars(owner).items()
        if name not in ("_parameters", "_buffers", "_modules")
        and any(id(thing) not in known | tensors for thing in _things(value))
    ]
    bad = f"{', '.join(left[:3])} would stay behind: register_buffer, or nn.ModuleList"
    return decide(len(left), 0, "all tensors are parameters or buffers", bad)


def _things(value: object) -> Iterator[Tensor | nn.Module]:
    """The tensors and modules in a value, however deep in lists and dictionaries."""
    if isinstance(value, Tensor | nn.Module):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _things(part)


@asks("learns", "Does the optimiser reach every parameter that is used?")
def all_of_it_learns(subject: ModelSubject) -> tuple[bool, float, str]:
    """One backward pass: no parameter used outside parameters(), and none inside without gradient.

    The number counts such parameters.
    """
    model, inputs = subject.model(), subject.batch()
    owned = set(map(id, model.parameters()))
    strange: dict[int, nn.Parameter] = {}

    def look(module: nn.Module, *_: object) -> None:
        strange.update({id(p): p for p in module.parameters() if id(p) not in owned})

    hook = register_module_forward_hook(look)
    try:
        model(*inputs).square().mean().backward()
    finally:
        hook.remove()
    outside = sum(p.numel() for p in strange.values())
    idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    unused = sum(p.numel() for n, p in model.named_parameters() if n in idle)
    bad = (
        f"{outside:,} parameters are used that model.parameters() does not list"
        if outside
        else f"no gradient reaches {', '.join(idle[:3])}"
    )
    return decide(outside + unused, 0, "a gradient reaches every parameter", bad)


@asks("count", "Has the model as many parameters as the formula says?")
def count_is_right(subject: ModelSubject) -> tuple[bool, float, str] | None:
    """Compare with the number that was given; the finding's number is the difference."""
    if subject.parameters is None:
        return None
    found = sum(p.numel() for p in subject.model().parameters())
    wanted = f"{subject.parameters:,}"
    bad = f"{found:,} parameters, expected {wanted}: a head's width, or layers not registered?"
    held, apart = found == subject.parameters, float(found - subject.parameters)
    return held, apart, f"{wanted} parameters" if held else bad


@asks("first loss", "Is the loss before training near ln V?")
def first_loss_is_a_guess(subject: ModelSubject) -> tuple[bool, float, str]:
    """A model that knows nothing should hesitate among all V tokens."""
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(EOS + 1, subject.source_vocab, (32, 7), generator=draw)
    target = torch.randint(EOS + 1, subject.target_vocab, (32, 12), generator=draw)
    with torch.no_grad():
        logits = subject.model()(source, torch.full((32,), 7), target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).item()
    guess = math.log(subject.target_vocab)
    bad = f"expected about ln V = {guess:.1f}: are the first logits too large?"
    return (
        abs(loss - guess) <= NEAR_LN,
        loss,
        (f"near ln V = {guess:.1f}" if abs(loss - guess) <= NEAR_LN else bad),
    )


@asks("one batch", "Can it learn one small batch by heart?")
def learns_by_heart(subject: ModelSubject) -> tuple[bool, float, str]:
    """Adam on five sentences, without dropout: within 100 steps the loss must fall below 0.1.

    A deep or wide model needs a smaller rate, so each of four gets its chance.
    """
    least = math.inf
    for rate in OVERFIT_RATES:
        least = min(least, _least_loss(subject, rate))
        if least < OVERFIT_LOSS:
            break
    bad = f"not below {OVERFIT_LOSS} within {OVERFIT_STEPS} steps: does a gradient flow?"
    return decide(least, OVERFIT_LOSS, "learnt by heart", bad)


@asks("copied", "Does a right model with the same weights give the same?")
def copy_agrees(subject: ModelSubject) -> tuple[bool, float, str] | None:
    """Stir the weights, load them into the reference and compare the logits."""
    if subject.reference is None:
        return None
    model, inputs = subject.model(), subject.batch()
    stir(model)
    other = subject.reference(model).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        number = gap(model(*inputs), other(*inputs))
    bad = "the same weights give other logits: look at every formula"
    return decide(number, CLOSE, "the reference gives the same logits", bad)


def _least_loss(subject: ModelSubject, rate: float) -> float:
    """Train on one batch until it is known by heart, or the steps are used up."""
    model, (source, lengths, target) = subject.model().eval(), subject.batch(6)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    least = math.inf
    for _ in range(OVERFIT_STEPS):
        logits = model(source, lengths, target[:, :-1])  # no dropout; gradients flow all the same
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        least = min(least, loss.item())
        if least < OVERFIT_LOSS:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return least
