"""What `test_ranks.py` measures in several processes at once; torchrun starts it, rank 0 writes.

    torchrun --nproc-per-node=3 -m tests.train.in_ranks FILE

Each measurement is a function of the ranks, and runs in the test's own process as well, alone.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from lib.data import PAD, Batch, BatchStream, Pair, Vocabulary, make_batch
from lib.training import (
    label_smoothed_loss,
    paper_adam,
    teacher_forcing,
    train,
    update,
    validation_loss,
)
from lib.transformer import Config, Transformer
from train.ranks import Ranks, joined

WORDS = Vocabulary("abcdefg")
SIZES = (5, 1, 7, 2)  # sentences in the batches of one update, at most
LOSS = partial(teacher_forcing, criterion=label_smoothed_loss)
CASES = {
    f"accumulate {accumulate}, clip {clip}, first {first}": (accumulate, clip, first)
    for accumulate in (1, 2, 3)
    for clip in (1e9, 0.01)
    for first in (0, 1)
}


def pairs(number: int = 61) -> list[Pair]:
    """Sentences whose translations have one to nine tokens, whatever the length of the source."""
    rng = random.Random(5)
    return [
        Pair(*(tuple(rng.choices("abcdefg", k=rng.randint(1, n))) for n in (6, 9)))
        for _ in range(number)
    ]


def model(dtype: torch.dtype = torch.float64, dropout: float = 0.0) -> Transformer:
    torch.manual_seed(3)
    sizes = {"d_model": 6, "n_heads": 2, "d_ff": 13, "n_layers": 2, "norm": "pre"}
    return Transformer(Config(len(WORDS), len(WORDS), dropout=dropout, **sizes)).to(dtype)


def some_batches() -> list[Batch]:
    left = iter(pairs())
    return [make_batch([next(left) for _ in range(size)], WORDS, WORDS) for size in SIZES]


def one_update(ranks: Ranks, accumulate: int, clip: float, first: int) -> dict[str, Any]:
    """Loss, tokens, gradient after clipping, and parameters after one step of gradient descent."""
    net = model()
    parts = [ranks.part(batch) for batch in some_batches()[first : first + accumulate]]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    loss = ranks.loss_of_all(LOSS, accumulate)
    mean, tokens = update(ranks.replicate(net), optimizer, parts, loss, clip=clip)
    gradients = [weight.grad for weight in net.parameters()]
    return {
        "loss": mean,
        "tokens": tokens,
        "gradients": gradients,
        "parameters": [weight.detach() for weight in net.parameters()],
    }


def sentences(ranks: Ranks, epochs: int = 2) -> list[list[list[list[int]]]]:
    """Of each rank, what it reads of each batch of an epoch, as lists of source and target."""
    stream = BatchStream(pairs(), WORDS, WORDS, batch_size=8, seed=1)
    read = []
    for batch in (next(stream) for _ in range(epochs * stream.per_epoch)):
        part = ranks.part(batch)
        read.append(
            [
                [token for token in [*source, -1, *target] if token != PAD]
                for source, target in zip(
                    part.source.tolist(), part.target_out.tolist(), strict=True
                )
                if any(target)
            ]
        )
    return ranks.gather(read)


def validated(ranks: Ranks) -> list[float]:
    loss = ranks.loss_of_all(teacher_forcing)
    found = validation_loss(model(), map(ranks.part, some_batches()), loss=loss)
    return ranks.gather(found)


def exchanges(ranks: Ranks, accumulate: int) -> int:
    """How often gradients travel in three updates."""
    seen = []

    def counting(state, bucket):
        seen.append(bucket)
        return allreduce_hook(state, bucket)

    copies = ranks.replicate(model())
    copies.register_comm_hook(None, counting)
    optimizer = torch.optim.SGD(copies.parameters(), lr=0.5)
    loss = ranks.loss_of_all(LOSS, accumulate)
    for _ in range(3):
        update(copies, optimizer, some_batches()[:accumulate], loss)
    return len(seen)


def in_one_piece_and_in_two(ranks: Ranks) -> list[list[torch.Tensor]]:
    """Parameters after nine updates, and after four and five with copies made anew between them."""
    found = []
    for pieces in ([9], [4, 9]):
        net = model(torch.float32, dropout=0.3)
        torch.manual_seed(ranks.rank)
        optimizer = paper_adam(net)
        stream = BatchStream(pairs(), WORDS, WORDS, batch_size=8, seed=1)
        start = 0
        for end in pieces:
            train(
                ranks.replicate(net),
                map(ranks.part, stream),
                end,
                0.01,
                loss=ranks.loss_of_all(LOSS),
                optimizer=optimizer,
                start=start,
            )
            start = end
        found.append([weight.detach() for weight in net.parameters()])
    return found


def agreed(ranks: Ranks) -> list[list[Any]]:
    """What each rank is told when one of them fails, and when they make different things."""

    def fails_in(rank: int) -> int:
        if ranks.rank == rank:
            raise ValueError("expected a file, got none")
        return ranks.rank

    def said_of(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except ValueError as error:
            return str(error)

    said = [said_of(partial(ranks.agree, partial(fails_in, rank))) for rank in (1, 0, 99)]
    said += [said_of(partial(ranks.expect_same, text)) for text in ("one", str(ranks.rank))]
    return ranks.gather(said)


def random_numbers(ranks: Ranks) -> dict[str, list[float]]:
    """A number of each rank: in a new run, again, resumed in another size, resumed in this one."""
    cpu = torch.device("cpu")

    def draw(step: int, kept: list[list[str]]) -> list[float]:
        torch.manual_seed(7)  # as every rank does first, to make the same parameters
        ranks.set_generators(7, step, kept, cpu)
        return ranks.gather(torch.rand(1).item())

    found = {"new": draw(0, []), "again": draw(0, []), "other size": draw(5, [["none"]] * 7)}
    kept = ranks.generators(cpu)
    found["going on"] = ranks.gather(torch.rand(1).item())
    found["resumed"] = draw(5, kept)
    return found


def measured(ranks: Ranks) -> dict[str, Any]:
    return {
        "world": ranks.world,
        "updates": {name: one_update(ranks, *case) for name, case in CASES.items()},
        "sentences": sentences(ranks),
        "validated": validated(ranks),
        "any": ranks.gather(ranks.any(False, ranks.rank == 1, True)),
    }


def main() -> None:
    with joined() as ranks:
        found = measured(ranks) | {
            "exchanges": [exchanges(ranks, accumulate) for accumulate in (1, 3)],
            "pieces": in_one_piece_and_in_two(ranks),
            "agreed": agreed(ranks),
            "random": random_numbers(ranks),
        }
        if ranks.rank == 0:
            torch.save(found, sys.argv[1])


if __name__ == "__main__":
    main()
