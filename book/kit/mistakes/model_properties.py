"""What a right model does whatever its weights: it reads all that it may and nothing that it may not,
decodes as it trains, starts from a uniform prediction, and learns."""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from kit.shared.checks import CLOSE, asks, decide, gap, stir
from lib.data import BOS, EOS, PAD

LENGTHS = (3, 7, 1, 5, 2)  # of the sources of a batch, padded to 7
NEAR_LN = 1.0  # how far from ln V the first loss may be
OVERFIT_STEPS, OVERFIT_LOSS = 100, 0.1
OVERFIT_RATES = (1e-2, 1e-3, 3e-4, 1e-4)


@dataclass(frozen=True)
class ModelSubject:
    """What is tested: how to make a model, its vocabularies, and what it may be compared with."""

    make_model: Callable[[], nn.Module]
    source_vocab: int
    target_vocab: int
    parameters: int | None = None
    reference: Callable[[nn.Module], nn.Module] | None = None

    def model(self, seed: int = 0) -> nn.Module:
        """A fresh model in evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make_model().eval()

    def batch(self, time: int = 4) -> tuple[Tensor, Tensor, Tensor]:
        """Sources padded to 7, their lengths, and targets without padding."""
        draw = torch.Generator().manual_seed(0)
        lengths = torch.tensor(LENGTHS)
        source = torch.randint(EOS + 1, self.source_vocab, (5, 7), generator=draw)
        target = torch.randint(EOS + 1, self.target_vocab, (5, time), generator=draw)
        target[:, 0] = BOS
        return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths, target


def another(tokens: Tensor, vocab: int) -> Tensor:
    """Another word in each place, none of them special."""
    return EOS + 1 + (tokens - EOS).clamp(min=0) % (vocab - EOS - 1)


def modes(model: nn.Module) -> Iterator[Callable[..., Tensor]]:
    """The model in training and then in evaluation mode, without gradients, dropout repeated."""

    @torch.no_grad()
    def run(*inputs: Tensor) -> Tensor:
        torch.manual_seed(0)
        return model(*inputs)

    for training in (True, False):
        model.train(training)
        yield run


@asks("sizes", "Does it run on sizes no two of which are equal, and on a single token?")
def runs_on_all_sizes(subject: ModelSubject) -> tuple[bool, float, str]:
    """Logits (batch, time, vocab), finite, for sizes that no two axes share."""
    model, wrong = subject.model(), []
    for batch, source_time, time in ((5, 7, 3), (2, 3, 11), (1, 1, 1)):
        source, target = torch.full((batch, source_time), 5), torch.full((batch, time), 6)
        with torch.no_grad():
            logits = model(source, torch.full((batch,), source_time), target)
        wanted = (batch, time, subject.target_vocab)
        if tuple(logits.shape) != wanted or not logits.isfinite().all():
            wrong.append(f"expected finite logits {wanted}, got {tuple(logits.shape)}")
    return decide(len(wrong), 0, "logits (batch, time, vocab), all finite", "; ".join(wrong[:1]))


@asks("future", "Does a later target token leave earlier logits alone, in both modes?")
def future_is_unseen(subject: ModelSubject) -> tuple[bool, float, str]:
    """Change a target token: no earlier logit may move, in training and in use."""
    worst = {}
    model, (source, lengths, target) = subject.model(), subject.batch()
    for mode, run in zip(("in training", "in use"), modes(model), strict=True):
        before = run(source, lengths, target)
        for t in range(1, 4):
            changed = target.clone()
            changed[:, t] = another(target[:, t], subject.target_vocab)
            now = gap(run(source, lengths, changed)[:, :t], before[:, :t])
            worst[mode] = max(worst.get(mode, 0.0), now)
    where = " and ".join(mode for mode, number in worst.items() if number > CLOSE)
    bad = f"an earlier logit sees a later token {where}: target mask, softmax axis, split of heads?"
    return decide(max(worst.values()), CLOSE, "no earlier logit moved", bad)


@asks("padding", "Does padding leave the logits alone, whatever stands in it and however long?")
def padding_is_unread(subject: ModelSubject) -> tuple[bool, float, str]:
    """Change what stands in the source's padding, and add more of it: no logit may move."""
    model, (source, lengths, target) = subject.model(), subject.batch()
    noisy = torch.where(source == PAD, EOS + 1, source)
    numbers = [
        gap(run(noisy, lengths, target), run(source, lengths, target)) for run in modes(model)
    ]
    with torch.no_grad():
        longer = model(F.pad(source, (0, 3), value=PAD), lengths, target)
        numbers.append(gap(longer, model(source, lengths, target)))
    bad = "padding is read: polarity, or the axis, of the padding mask?"
    return decide(max(numbers), CLOSE, "no logit moved", bad)


@asks("alone", "Does a sentence get the same logits alone as in a batch without padding?")
def batch_is_unseen(subject: ModelSubject) -> tuple[bool, float, str]:
    """Sentences of one length, together and one by one."""
    model, (source, _, target) = subject.model(), subject.batch()
    source, lengths = source.clamp(min=EOS + 1), torch.full((5,), 7)
    with torch.no_grad():
        together = model(source, lengths, target)
        alone = [model(source[i, None], lengths[i, None], target[i, None]) for i in range(5)]
    number = gap(torch.cat(alone), together)
    return decide(number, CLOSE, "the same logits", "sentences of a batch mix: a wrong axis?")


@asks("felt", "Does every token that may be read change something?")
def tokens_are_felt(subject: ModelSubject) -> tuple[bool, float, str]:
    """Change one real token: the last logits must move; the number is the least they moved."""
    model, (source, lengths, target) = subject.model(), subject.batch()
    moved = {}
    with torch.no_grad():
        before = model(source, lengths, target)[:, -1]
        for j in range(7):
            changed = source.clone()
            changed[:, j] = another(source[:, j], subject.source_vocab)
            after = model(changed, lengths, target)[:, -1]
            moved[f"source token {j}"] = _least((after - before)[lengths > j])
        for t in range(4):
            changed = target.clone()
            changed[:, t] = another(target[:, t], subject.target_vocab)
            after = model(source, lengths, changed)[:, -1]
            moved[f"target token {t}"] = _least(after - before)
    least = min(moved, key=moved.get)
    bad = f"{least} is not felt: polarity of a mask, or an input that is never used?"
    held = moved[least] > CLOSE
    return held, moved[least], "each real token moves the last logits" if held else bad


@asks("order", "Does the order of two words matter?")
def order_is_felt(subject: ModelSubject) -> tuple[bool, float, str]:
    """Exchange two neighbours, in the source and in the target: the last logits must move."""
    model, (source, lengths, target) = subject.model(), subject.batch(5)
    source[:, 1] = another(source[:, 0], subject.source_vocab)  # two that differ
    target[:, 2] = another(target[:, 1], subject.target_vocab)
    moved = {}
    with torch.no_grad():
        before = model(source, lengths, target)[:, -1]
        turned = source[:, [1, 0, 2, 3, 4, 5, 6]]
        after = model(turned, lengths, target)[:, -1]
        moved["source"] = _least((after - before)[lengths > 2])
        after = model(source, lengths, target[:, [0, 2, 1, 3, 4]])[:, -1]
        moved["target"] = _least(after - before)
    least = min(moved, key=moved.get)
    held = moved[least] > CLOSE
    bad = f"the order of the {least} is not felt: are the positions added, and used?"
    return held, moved[least], "two words exchanged move the logits" if held else bad


@asks("stepwise", "Are the logits the same step by step as all at once?")
def steps_agree(subject: ModelSubject) -> tuple[bool, float, str]:
    """Decode a given target token by token, and compare with teacher forcing."""
    model, (source, lengths, target) = subject.model(), subject.batch()
    with torch.no_grad():
        at_once = model(source, lengths, target)
        state, gaps = model.start(source, lengths), []
        for t, token in enumerate(target.unbind(1)):
            logits, _, state = model.step(token, state)
            gaps.append(gap(logits, at_once[:, t]))
    first = next((t for t, number in enumerate(gaps) if number > CLOSE), None)
    bad = f"they differ from position {first} on: a position, a mask or a cache of one step?"
    return decide(max(gaps), CLOSE, "the same logits", bad)


@asks("repeat", "Does the same input give the same output twice, in use?")
def repeats_itself(subject: ModelSubject) -> tuple[bool, float, str]:
    """Run a batch twice in evaluation mode, with another seed."""
    model, inputs = subject.model(), subject.batch()
    outputs = []
    with torch.no_grad():
        for seed in (0, 1):
            torch.manual_seed(seed)
            outputs.append(model(*inputs))
    bad = "twice not the same: a layer made in forward, or dropout that does not hear eval()?"
    return decide(gap(*outputs), 0, "the same output", bad)


def _least(change: Tensor) -> float:
    return change.abs().amax(-1).min().item()


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
