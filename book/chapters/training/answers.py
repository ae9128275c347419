"""Answers to the exercises of chapter 11: right ones in several styles, and common mistakes."""

import math
from itertools import islice, zip_longest

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from lib.data import BOS, EOS, PAD, pad_batch
from lib.training import count_tokens, token_loss, update


def padded(rows, left=False):
    longest = max(map(len, rows))
    filler = [[PAD] * (longest - len(row)) for row in rows]
    joined = zip(rows, filler, strict=True)
    return torch.tensor([pad + row if left else row + pad for row, pad in joined])


def shift_by_sequences(sentences):
    sides = ([[BOS, *s] for s in sentences], [[*s, EOS] for s in sentences])
    return [
        pad_sequence([torch.tensor(row) for row in side], batch_first=True, padding_value=PAD)
        for side in sides
    ]


def shift_by_columns(sentences):
    out = zip_longest(*([*words, EOS] for words in sentences), fillvalue=PAD)
    target_out = torch.tensor(list(out)).T
    target_in = torch.cat((torch.full((len(sentences), 1), BOS), target_out[:, :-1]), dim=1)
    return target_in.where(target_in != EOS, PAD), target_out


def shift_one_by_one(sentences):
    target_in = torch.zeros(len(sentences), 1 + max(len(s) for s in sentences), dtype=torch.long)
    target_out = target_in.clone()
    for b, words in enumerate(sentences):
        target_in[b, 0], target_out[b, len(words)] = BOS, EOS
        for t, word in enumerate(words):
            target_in[b, t + 1] = target_out[b, t] = word
    return target_in, target_out


def shift_by_the_library(sentences):
    batch = pad_batch(sentences, sentences)
    return batch.target_in, batch.target_out


def shift_by_numpy(sentences):
    rows = np.full((2, len(sentences), max(map(len, sentences)) + 1), PAD)
    for b, words in enumerate(sentences):
        rows[:, b, : len(words) + 1] = [[BOS, *words], [*words, EOS]]
    return tuple(torch.from_numpy(rows))


def shift_by_padding(sentences):
    """A generator of rows for each side; the second is the first without BOS, and EOS."""
    time = max(map(len, sentences))
    rows = (F.pad(torch.tensor([BOS, *s]), (0, time - len(s)), value=PAD) for s in sentences)
    ends = (F.pad(torch.tensor([*s, EOS]), (0, time - len(s)), value=PAD) for s in sentences)
    return torch.vstack(list(rows)), torch.vstack(list(ends))


def shift_by_appending(sentences):
    """Right, but for what it leaves in the lists of the caller."""
    target_in = padded([[BOS, *words] for words in sentences])
    for words in sentences:
        words.append(EOS)
    return target_in, padded(sentences)


def shift_by_filling_up(sentences):
    longest = max(map(len, sentences))
    for words in sentences:
        words += [EOS] + [PAD] * (longest - len(words))
    target_out = torch.tensor(sentences)
    target_in = target_out.roll(1, dims=1).masked_fill(target_out.roll(1, dims=1) == EOS, PAD)
    target_in[:, 0] = BOS
    return target_in, target_out


def shift_to_floats(sentences):
    target_in, target_out = torch.zeros(2, len(sentences), 1 + max(map(len, sentences)))
    for b, words in enumerate(sentences):
        target_in[b, : len(words) + 1] = torch.tensor([BOS, *words])
        target_out[b, : len(words) + 1] = torch.tensor([*words, EOS])
    return target_in, target_out


def per_place(logits, target):
    """The mean over all places, padding among them."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def loss_of_the_joined(logits, targets):
    x, y = torch.cat([x.flatten(0, 1) for x in logits]), torch.cat([y.flatten() for y in targets])
    return F.cross_entropy(x, y, ignore_index=PAD)


def loss_by_gather(logits, targets):
    total, count = 0.0, 0
    for x, y in zip(logits, targets, strict=True):
        real = y != PAD
        total = total - x.log_softmax(-1).gather(-1, y[..., None])[..., 0][real].sum()
        count += int(real.sum())
    return total / count


def loss_token_by_token(logits, targets):
    losses = []
    for x, y in zip(logits, targets, strict=True):
        for b, t in (y != PAD).nonzero().tolist():
            losses.append(x[b, t].logsumexp(0) - x[b, t, y[b, t]])
    return torch.stack(losses).mean()


def loss_of_sums(logits, targets):
    total = sum(
        token_loss(logits=x, target_out=y, reduction="sum")
        for x, y in zip(logits, targets, strict=True)
    )
    return total.div(sum(y.count_nonzero().item() for y in targets))


def loss_by_weights(logits, targets):
    """A class of weight 0 counts neither above nor below the line."""
    x, y = torch.cat([x.flatten(0, 1) for x in logits]), torch.cat([y.flatten() for y in targets])
    weight = (torch.arange(x.shape[1]) != PAD).to(x.dtype)
    return F.nll_loss(x.log_softmax(-1), y, weight)


def loss_by_masks(logits, targets):
    pairs = list(zip(logits, targets, strict=True))
    losses = [F.cross_entropy(x.transpose(1, 2), y, reduction="none") for x, y in pairs]
    masks = [y.ne(PAD).double() for y in targets]
    above = torch.stack([(loss * mask).sum() for loss, mask in zip(losses, masks, strict=True)])
    return above.sum() / torch.stack([mask.sum() for mask in masks]).sum()


def loss_of_sentences(logits, targets):
    """The mean of the sentences' means."""
    rows = [
        (x[None], y[None])
        for xs, ys in zip(logits, targets, strict=True)
        for x, y in zip(xs, ys, strict=True)
    ]
    return sum(token_loss(x, y) for x, y in rows) / len(rows)


def loss_that_marks_padding(logits, targets):
    """Right, but the padding of the caller's targets is -100 afterwards."""
    total = 0
    for x, y in zip(logits, targets, strict=True):
        y[y == PAD] = -100
        total = total + F.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="sum")
    return total / sum((y != -100).sum() for y in targets)


def loss_with(one=token_loss, share=lambda y: (y != PAD).sum(), whole=lambda y: (y != PAD).sum()):
    """The mean of the parts' losses with a choice of what each part counts, above and below."""

    def loss_of_parts(logits, targets):
        parts = zip(logits, targets, strict=True)
        return sum(one(x, y) * share(y) for x, y in parts) / sum(whole(y) for y in targets)

    return loss_of_parts


def count_of(y):
    return int((y != PAD).sum())


def one_count(y):
    return 1


def linear_by_lines(steps, warmup):
    def factor(step):
        rise = (step + 1) / warmup if warmup else 1.0
        return min(rise, 1.0) if step < warmup else max(steps - step, 0) / (steps - warmup)

    return factor


def linear_by_numpy(steps, warmup):
    return lambda step: np.interp(step, [-1, warmup - 1, warmup, steps], [0, 1, 1, 0])


def linear_from_a_table(steps, warmup):
    rise = [(step + 1) / warmup for step in range(warmup)]
    fall = [(steps - step) / (steps - warmup) for step in range(warmup, steps + 1)]
    return lambda step: (rise + fall)[min(step, steps)]


def linear_as_the_lower_line(steps, warmup):
    def factor(step):
        rise = (step + 1) / warmup if warmup > 0 else math.inf
        return max(0, min(1, rise, (steps - step) / (steps - warmup)))

    return factor


class LinearSchedule:
    def __init__(self, steps, warmup):
        self.steps, self.warmup = steps, warmup

    def __call__(self, step):
        if step >= self.steps:
            return 0.0
        rise, fall = step + 1, 1 - (step - self.warmup) / (self.steps - self.warmup)
        return rise / self.warmup if step < self.warmup else fall


def rises_and_falls(steps, warmup, first=1, high=1.0, low=0.0, end=0, turn=0):
    def factor(step):
        if step < warmup:
            return high * (step + first) / warmup
        return high * max(low, (steps - end - step) / (steps - end - warmup + turn))

    return factor


def counts_its_calls(steps, warmup):
    """Right in the loop of training, and nowhere else: it counts instead of looking at `step`."""
    factor, calls = rises_and_falls(steps, warmup), iter(range(10**9))
    return lambda step: factor(next(calls))


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def train_by_update(model, optimizer, parts, schedule, accumulate):
    for k in range(0, len(parts), accumulate):
        set_rate(optimizer, schedule(k // accumulate))
        update(model, optimizer, parts[k : k + accumulate], clip=torch.inf)


def train_on_sums(model, optimizer, parts, schedule, accumulate):
    """One backward pass for a group; the gradients are cleared after the step."""
    optimizer.zero_grad(set_to_none=False)
    source, step = iter(parts), 0
    while group := list(islice(source, accumulate)):
        sums = [
            token_loss(
                model(p.source, p.source_lengths, p.target_in), p.target_out, reduction="sum"
            )
            for p in group
        ]
        (torch.stack(sums).sum() / sum(map(count_tokens, group))).backward()
        set_rate(optimizer, schedule(step))
        optimizer.step()
        optimizer.zero_grad()
        step += 1


def train_and_rescale(model, optimizer, parts, schedule, accumulate):
    """The sums' gradients add up, and are divided when all tokens of the group are counted."""
    tokens = 0
    for number, part in enumerate(parts, start=1):
        if tokens == 0:
            model.zero_grad()
        logits = model(part.source, part.source_lengths, part.target_in)
        token_loss(logits, part.target_out, reduction="sum").backward()
        tokens += count_tokens(part)
        if number % accumulate == 0:
            for weight in model.parameters():
                weight.grad /= tokens
            optimizer.param_groups[0]["lr"] = schedule(number // accumulate - 1)
            optimizer.step()
            tokens = 0


def train_by_closures(model, optimizer, parts, schedule, accumulate):
    """The optimiser itself asks for the gradient, in the middle of its step."""
    for step in range(len(parts) // accumulate):
        group = parts[step * accumulate : (step + 1) * accumulate]

        def gradient(group=group):
            optimizer.zero_grad()
            for part in group:
                logits = model(part.source, part.source_lengths, part.target_in)
                (token_loss(logits, part.target_out) * by_tokens(part, group)).backward()

        set_rate(optimizer, schedule(step))
        optimizer.step(gradient)


def train_by_hand(model, optimizer, parts, schedule, accumulate):
    """torch.autograd.grad instead of backward."""
    weights = list(model.parameters())
    for start in range(0, len(parts), accumulate):
        group = parts[start : start + accumulate]
        logits = [model(p.source, p.source_lengths, p.target_in) for p in group]
        loss = loss_of_the_joined(logits, [p.target_out for p in group])
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        optimizer.param_groups[0].update(lr=schedule(start // accumulate))
        optimizer.step()


def in_parts(rate, share, *, clear=True, each=False, late=False):
    """A loop with a choice of mistakes: which rate, which share of a part, what is cleared."""

    def loop(model, optimizer, parts, schedule, accumulate):
        optimizer.zero_grad()
        for number, part in enumerate(parts):
            step, place = divmod(number, accumulate)
            group = parts[step * accumulate : (step + 1) * accumulate]
            logits = model(part.source, part.source_lengths, part.target_in)
            (token_loss(logits, part.target_out) * share(part, group)).backward()
            if each or place == accumulate - 1:
                if late:
                    optimizer.step()
                set_rate(optimizer, schedule(rate(number, step)))
                if not late:
                    optimizer.step()
                if clear:
                    optimizer.zero_grad()

    return loop


def by_number(number, step):
    return number


def by_step(number, step):
    return step


def by_tokens(part, group):
    return count_tokens(part) / sum(map(count_tokens, group))


def by_sentences(part, group):
    return len(part.source) / sum(len(p.source) for p in group)


def loop_on_padding(model, optimizer, parts, schedule, accumulate):
    for step in range(len(parts) // accumulate):
        optimizer.param_groups[0]["lr"] = schedule(step)
        optimizer.zero_grad()
        for part in parts[step * accumulate : (step + 1) * accumulate]:
            logits = model(part.source, part.source_lengths, part.target_in)
            (per_place(logits, part.target_out) / accumulate).backward()
        optimizer.step()


def loop_that_eats_the_list(model, optimizer, parts, schedule, accumulate):
    """Right, but the caller's list is empty afterwards."""
    step = 0
    while parts:
        group = [parts.pop(0) for _ in range(accumulate)]
        set_rate(optimizer, schedule(step))
        update(model, optimizer, group, clip=torch.inf)
        step += 1


def loop_that_marks_padding(model, optimizer, parts, schedule, accumulate):
    """Right, but the padding of the caller's batches is -100 afterwards."""
    for step in range(len(parts) // accumulate):
        group = parts[step * accumulate : (step + 1) * accumulate]
        for part in group:
            part.target_out[part.target_out == PAD] = -100
        logits = [model(p.source, p.source_lengths, p.target_in).flatten(0, 1) for p in group]
        optimizer.zero_grad()
        F.cross_entropy(
            torch.cat(logits), torch.cat([p.target_out.flatten() for p in group])
        ).backward()
        set_rate(optimizer, schedule(step))
        optimizer.step()


def loop_that_clears_too_late(model, optimizer, parts, schedule, accumulate):
    for step in range(len(parts) // accumulate):
        group = parts[step * accumulate : (step + 1) * accumulate]
        set_rate(optimizer, schedule(step))
        for part in group:
            logits = model(part.source, part.source_lengths, part.target_in)
            (token_loss(logits, part.target_out) * by_tokens(part, group)).backward()
        optimizer.zero_grad()
        optimizer.step()


def loop_that_clips(model, optimizer, parts, schedule, accumulate):
    for step in range(len(parts) // accumulate):
        set_rate(optimizer, schedule(step))
        update(model, optimizer, parts[step * accumulate : (step + 1) * accumulate], clip=0.1)


def loop_that_clears_each(model, optimizer, parts, schedule, accumulate):
    for step in range(len(parts) // accumulate):
        group = parts[step * accumulate : (step + 1) * accumulate]
        set_rate(optimizer, schedule(step))
        for part in group:
            optimizer.zero_grad()
            logits = model(part.source, part.source_lengths, part.target_in)
            (token_loss(logits, part.target_out) * by_tokens(part, group)).backward()
        optimizer.step()


RIGHT = {
    "shift_right": [
        lambda rows: (padded([[BOS, *r] for r in rows]), padded([[*r, EOS] for r in rows])),
        lambda rows: [padded([[BOS, *r] for r in rows]), padded([[*r, EOS] for r in rows])],
        shift_by_sequences,
        shift_by_columns,
        shift_one_by_one,
        shift_by_the_library,
        shift_by_numpy,
        shift_by_padding,
    ],
    "loss_of_parts": [
        loss_of_the_joined,
        loss_by_gather,
        loss_token_by_token,
        loss_of_sums,
        loss_by_weights,
        loss_by_masks,
    ],
    "linear_schedule": [
        linear_by_lines,
        linear_by_numpy,
        linear_from_a_table,
        linear_as_the_lower_line,
        LinearSchedule,
        rises_and_falls,
    ],
    "train_in_parts": [
        train_by_update,
        train_on_sums,
        train_and_rescale,
        train_by_closures,
        train_by_hand,
        in_parts(by_step, by_tokens),
    ],
}

WRONG = {
    "shift_right": {
        lambda rows: (
            (padded([[*r, EOS] for r in rows]),) * 2
        ): "both are the same: the decoder would read its answer",  # the shift forgotten
        lambda rows: (
            (padded([[BOS, *r] for r in rows]),) * 2
        ): "both are the same: the decoder would read its answer",  # the shift forgotten (BOS)
        lambda rows: (
            padded([[*r, EOS] for r in rows]),
            padded([[BOS, *r] for r in rows]),
        ): "target_in and target_out are swapped",
        lambda rows: (
            padded([[BOS, *r] for r in rows]),
            padded([[*r, PAD] for r in rows]),
        ): "target_out: expected [7, 9, 8, 2, 0, 0], got [7, 9, 8, 0, 0, 0]",  # no EOS
        lambda rows: (
            padded([[*r[1:], EOS] for r in rows]),
            padded([[*r, EOS] for r in rows]),
        ): "shape (4, 6), got (4, 5)",  # shifted left
        lambda rows: (
            padded([[BOS, *r] for r in rows], left=True),
            padded([[*r, EOS] for r in rows], left=True),
        ): "target_in: expected [1, 7, 9, 8, 0, 0], got [0, 0, 1, 7, 9, 8]",  # padding on the left
        lambda rows: (
            (padded([[BOS, *r, EOS] for r in rows]),) * 2
        ): "shape (4, 6), got (4, 7)",  # both special on both sides
        lambda rows: (
            padded([[EOS, *r] for r in rows]),
            padded([[*r, EOS] for r in rows]),
        ): "target_in: expected [1, 7, 9, 8, 0, 0], got [2, 7, 9, 8, 0, 0]",  # starts with EOS
        lambda rows: (
            torch.cat([torch.full((len(rows), 1), BOS), padded(rows)], 1),
            torch.cat([padded(rows), torch.full((len(rows), 1), EOS)], 1),
        ): "target_out: expected [7, 9, 8, 2, 0, 0], got [7, 9, 8, 0, 0, 2]",  # EOS at the very end
        shift_by_appending: "argument 1 was changed",
        shift_by_filling_up: "argument 1 was changed",
        shift_to_floats: "expected whole numbers (torch.int64)",
        lambda rows: (
            [[BOS, *r] for r in rows],
            [[*r, EOS] for r in rows],
        ): "expected two tensors (target_in, target_out), got list, list",  # lists, no tensors
        lambda rows: (
            padded([[BOS, *r] for r in rows]).T,
            padded([[*r, EOS] for r in rows]).T,
        ): "shape (4, 6), got (6, 4)",  # (time, batch)
        lambda rows: shift_by_sequences(
            sorted(rows, key=len)
        ): "target_in: expected [1, 7, 9, 8, 0, 0], got [1, 5, 0, 0, 0, 0]",  # sorted
        lambda rows: tuple(
            side.where(side != PAD, EOS) for side in shift_by_sequences(rows)
        ): "target_in: expected [1, 7, 9, 8, 0, 0], got [1, 7, 9, 8, 2, 2]",  # EOS as padding
        lambda rows: tuple(
            side[:, :-1] for side in shift_by_sequences(rows)
        ): "shape (4, 6), got (4, 5)",  # one too short
    },
    "loss_of_parts": {
        loss_with(
            share=one_count, whole=one_count
        ): "the means count alike, so a token of a short micro-batch counts more",  # mean of means
        loss_with(
            share=one_count, whole=lambda y: 1 / 3
        ): "the micro-batches' means are added up",  # sum of means or nearly
        lambda logits, targets: sum(
            map(token_loss, logits, targets)
        ): "the micro-batches' means are added up",  # sum of means
        loss_with(
            per_place, one_count, one_count
        ): "expected 2.8865, the mean over all real tokens, got 3.0126",  # padding counts
        loss_with(
            share=len, whole=len
        ): "the micro-batches count by their sentences",  # sentences for tokens
        loss_with(whole=torch.numel): "padding counts below the line",  # divided by all places
        loss_with(
            per_place, torch.numel
        ): "expected 2.8865, the mean over all real tokens, got 4.8368",  # padding above the line
        loss_with(
            share=torch.numel, whole=torch.numel
        ): "expected 2.8865, the mean over all real tokens, got 2.8704",  # weighted by places
        lambda logits, targets: token_loss(
            logits[-1], targets[-1]
        ): "expected 2.8865, the mean over all real tokens, got 2.8599",  # last part only
        loss_with(
            lambda x, y: token_loss(x, y).detach()
        ): "no gradient: the loss is detached from the logits",
        loss_with(
            lambda x, y: token_loss(x, y).item()
        ): "no gradient: the loss is detached from the logits",
        loss_with(
            lambda x, y: token_loss(x.softmax(-1), y)
        ): "expected 2.8865, the mean over all real tokens, got 2.5657",  # softmax twice
        loss_with(
            lambda x, y: token_loss(x, y.where(y != EOS, PAD))
        ): "expected 2.8865, the mean over all real tokens, got 2.9284",  # EOS costs nothing
        loss_that_marks_padding: "argument 2 was changed",
        loss_of_sentences: "expected 2.8865, the mean over all real tokens, got 2.9065",
        lambda *both: loss_of_the_joined(
            *both
        ).exp(): "expected 2.8865, the mean over all real tokens, got 17.9305",  # perplexity
        lambda logits, targets: (
            sum(token_loss(x, y).item() * count_of(y) for x, y in zip(logits, targets, strict=True))
            / sum(map(count_of, targets))
        ): "a float has no gradient",  # a float without a gradient
    },
    "linear_schedule": {
        lambda steps, warmup: rises_and_falls(
            steps, warmup, first=0
        ): "steps=103, warmup=7: the rate of step 0 is 0.0: nothing is learned",
        lambda steps, warmup: rises_and_falls(
            steps, warmup, first=2
        ): "expected 0.1429 at step 0, got 0.285714",  # too early
        lambda steps, warmup: rises_and_falls(
            steps, warmup, low=-9.0
        ): "expected 0.0000 at step 104",  # below 0 after the end
        lambda steps, warmup: rises_and_falls(
            steps, warmup, end=1
        ): "expected 0.9896 at step 8",  # 0 one step too early
        lambda steps, warmup: rises_and_falls(
            steps, warmup, high=0.5
        ): "expected 0.1429 at step 0",  # not to 1
        lambda steps, warmup: rises_and_falls(
            steps, warmup, turn=1
        ): "expected 1.0000 at step 7",  # 1 at warmup - 1
        lambda steps, warmup: (
            lambda step: (steps - step) / steps
        ): "expected 0.1429 at step 0",  # no warm-up
        lambda steps, warmup: (
            lambda step: min((step + 1) / warmup, 1.0)
        ): "expected 0.9896 at step 8",  # never falls, /0
        lambda steps, warmup: (
            lambda step: min((step + 1) / max(1, warmup), 1.0)
        ): "expected 0.9896 at step 8",  # never falls
        lambda steps, warmup: (
            lambda step: min((step + 1) / warmup, max(0.0, (steps - step) / (steps - warmup)))
        ): "steps=11, warmup=0: your function raised ZeroDivisionError: division by zero",
        lambda steps, warmup: (
            lambda step: min((step + 1) / max(1, warmup), max(0.0, (steps - step) / steps))
        ): "expected 1.0000 at step 6",  # lower of two lines: no full rate
        lambda steps, warmup: 1.0: "expected a function of the step",  # a number for a function
        counts_its_calls: "it must look at nothing but the step",  # depends on calls
        lambda steps, warmup: (
            lambda step: (
                (step + 1) / (warmup + 1)
                if step < warmup
                else max(0, steps - step) / (steps - warmup)
            )
        ): "expected 0.1429 at step 0",  # warmup + 1
        lambda steps, warmup: (
            lambda step: max(0, steps - step) // (steps - warmup)
        ): "expected 0.1429 at step 0",  # whole division
        lambda steps, warmup: [
            rises_and_falls(steps, warmup)(k) for k in range(steps)
        ]: "expected a function of the step",  # a list
    },
    "train_in_parts": {
        in_parts(by_number, by_tokens): "the schedule counts updates",  # the schedule counts parts
        in_parts(
            lambda number, step: step + 1, by_tokens
        ): "the schedule counts updates",  # the schedule starts at 1
        in_parts(
            by_step, by_tokens, late=True
        ): "the rate is set before the step",  # rate set after the step
        in_parts(
            by_step, lambda part, group: 1 / len(group)
        ): "the means count alike, so a token of a short micro-batch counts more",  # mean of means
        in_parts(
            by_step, lambda part, group: 1
        ): "the micro-batches' means are added up",  # sum of means
        in_parts(
            by_step, lambda part, group: 1 / count_tokens(part)
        ): "accumulate=1, update 0: the gradient is not that of one big batch",  # divided twice
        in_parts(
            by_step, by_tokens, clear=False
        ): "that of the update before was not cleared",  # never cleared
        in_parts(
            by_step, by_tokens, each=True
        ): "expected 3 updates, got more",  # update for each part
        in_parts(by_step, by_sentences): "the micro-batches count by their sentences",
        loop_on_padding: "PAD is taken for a word",  # padding
        loop_that_eats_the_list: "argument 3 was changed",
        loop_that_clips: "accumulate=1, update 0: the gradient is not that of one big batch",
        loop_that_clears_each: "clear once per update, before the first",
        loop_that_marks_padding: "the batches were changed",  # batches changed
        loop_that_clears_too_late: "was it cleared after backward?",
        lambda model, optimizer, parts, schedule, accumulate: (
            optimizer.step()
        ): "accumulate=1: no gradient at optimizer.step()",  # nothing
    },
}
