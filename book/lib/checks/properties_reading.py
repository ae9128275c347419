"""What a right model reads: no future, no padding, no neighbour in the batch, and all the rest.

Each property holds for any weights, so a fresh model of a few thousand parameters will do.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from lib.checks.findings import CLOSE, ModelSubject, another, asks, decide, gap, modes
from lib.data import EOS, PAD


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
