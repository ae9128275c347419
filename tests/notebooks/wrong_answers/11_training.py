"""Wrong answers to the exercises of chapter 11, each a mistake that people make."""

import torch
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD
from lib.training import count_tokens, token_loss


def padded(rows, left=False):
    longest = max(map(len, rows))
    filler = [[PAD] * (longest - len(row)) for row in rows]
    joined = zip(rows, filler, strict=True)
    return torch.tensor([pad + row if left else row + pad for row, pad in joined])


def per_place(logits, target):
    """The mean over all places, padding among them."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def in_parts(rate, share, *, clear=True, each=False):
    """A loop with a choice of mistakes: which rate, which share of a part, what is cleared."""

    def loop(model, optimizer, parts, schedule, accumulate):
        optimizer.zero_grad()
        for number, part in enumerate(parts):
            step, place = divmod(number, accumulate)
            group = parts[step * accumulate : (step + 1) * accumulate]
            logits = model(part.source, part.source_lengths, part.target_in)
            (token_loss(logits, part.target_out) * share(part, group)).backward()
            if each or place == accumulate - 1:
                optimizer.param_groups[0]["lr"] = schedule(rate(number, step))
                optimizer.step()
                if clear:
                    optimizer.zero_grad()

    return loop


def by_tokens(part, group):
    return count_tokens(part) / sum(map(count_tokens, group))


def loop_on_padding(model, optimizer, parts, schedule, accumulate):
    for step in range(len(parts) // accumulate):
        optimizer.param_groups[0]["lr"] = schedule(step)
        optimizer.zero_grad()
        for part in parts[step * accumulate : (step + 1) * accumulate]:
            logits = model(part.source, part.source_lengths, part.target_in)
            (per_place(logits, part.target_out) / accumulate).backward()
        optimizer.step()


def rises_and_falls(steps, warmup, first=1, high=1.0, low=0.0, end=0):
    def factor(step):
        if step < warmup:
            return high * (step + first) / warmup
        return high * max(low, (steps - end - step) / (steps - end - warmup))

    return factor


WRONG = {
    "shift_right": [
        lambda rows: (padded([[*r, EOS] for r in rows]),) * 2,  # the shift forgotten
        lambda rows: (padded([[BOS, *r] for r in rows]),) * 2,
        lambda rows: (padded([[*r, EOS] for r in rows]), padded([[BOS, *r] for r in rows])),
        lambda rows: (padded([[BOS, *r] for r in rows]), padded([[*r, PAD] for r in rows])),
        lambda rows: (  # shifted left
            padded([[*r[1:], EOS] for r in rows]),
            padded([[*r, EOS] for r in rows]),
        ),
        lambda rows: (  # padding on the left
            padded([[BOS, *r] for r in rows], left=True),
            padded([[*r, EOS] for r in rows], left=True),
        ),
        lambda rows: (  # both special tokens on both sides
            padded([[BOS, *r, EOS] for r in rows]),
            padded([[BOS, *r, EOS] for r in rows]),
        ),
        lambda rows: (padded([[EOS, *r] for r in rows]), padded([[*r, EOS] for r in rows])),
        lambda rows: (  # EOS behind the padding
            torch.cat([torch.full((len(rows), 1), BOS), padded(rows)], 1),
            torch.cat([padded(rows), torch.full((len(rows), 1), EOS)], 1),
        ),
    ],
    "loss_of_parts": [
        lambda logits, targets: sum(map(token_loss, logits, targets)) / len(targets),
        lambda logits, targets: sum(map(token_loss, logits, targets)),
        lambda logits, targets: sum(map(per_place, logits, targets)) / len(targets),
        lambda logits, targets: (  # sentences for tokens
            sum(token_loss(x, y) * len(y) for x, y in zip(logits, targets, strict=True))
            / sum(map(len, targets))
        ),
        lambda logits, targets: (  # divided by all places
            sum(token_loss(x, y) * (y != PAD).sum() for x, y in zip(logits, targets, strict=True))
            / sum(y.numel() for y in targets)
        ),
        lambda logits, targets: (  # padding above the line and not below
            sum(per_place(x, y) * y.numel() for x, y in zip(logits, targets, strict=True))
            / sum((y != PAD).sum() for y in targets)
        ),
        lambda logits, targets: token_loss(logits[-1], targets[-1]),
        lambda logits, targets: (
            sum(
                token_loss(x, y).detach() * (y != PAD).sum()
                for x, y in zip(logits, targets, strict=True)
            )
            / sum((y != PAD).sum() for y in targets)
        ),
    ],
    "linear_schedule": [
        lambda steps, warmup: rises_and_falls(steps, warmup, first=0),  # no rate at step 0
        lambda steps, warmup: rises_and_falls(steps, warmup, first=2),
        lambda steps, warmup: rises_and_falls(steps, warmup, low=-9.0),  # below 0 after the end
        lambda steps, warmup: rises_and_falls(steps, warmup, end=1),  # 0 one step too early
        lambda steps, warmup: rises_and_falls(steps, warmup, high=0.5),
        lambda steps, warmup: lambda step: (steps - step) / steps,  # no warm-up
        lambda steps, warmup: lambda step: min((step + 1) / warmup, 1.0),  # never falls
        lambda steps, warmup: (
            lambda step: min(  # the lower of two lines: no full rate
                (step + 1) / max(1, warmup), max(0.0, (steps - step) / steps)
            )
        ),
        lambda steps, warmup: 1.0,
    ],
    "train_in_parts": [
        in_parts(lambda number, step: number, by_tokens),  # the schedule counts parts
        in_parts(lambda number, step: step + 1, by_tokens),
        in_parts(lambda number, step: step, lambda part, group: 1 / len(group)),  # mean of means
        in_parts(lambda number, step: step, lambda part, group: 1),  # the sum of means
        in_parts(lambda number, step: step, by_tokens, clear=False),
        in_parts(lambda number, step: step, by_tokens, each=True),  # an update for each part
        in_parts(
            lambda number, step: step,
            lambda part, group: len(part.source) / sum(len(p.source) for p in group),
        ),
        loop_on_padding,
        lambda model, optimizer, parts, schedule, accumulate: optimizer.step(),
    ],
}
