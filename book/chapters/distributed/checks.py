"""Properties of what the chapter has its readers write; two checks start two processes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from chapters.distributed.launch import WorkerError, run_workers
from checks.framework import (
    CheckFailed,
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    is_parts,
    normal,
    normals,
    require,
    require_close,
    shown,
)
from lib.attention import scaled_dot_product_attention

Send = Callable[[int, int, Tensor], Tensor]


@check("mean over the tokens of all ranks")
def check_mean_over_tokens(mean: Callable[[list[Tensor], list[int]], Tensor]) -> Steps:
    """Check mean(gradients, tokens): the gradient of the mean loss over the tokens of all ranks.

    Shapes: gradients, one for each rank and all of one shape, of the mean loss over its own
        tokens; tokens, how many those are. Returns that shape.
    """
    for tokens in ([7, 2, 5], [11, 3], [13]):
        gradients = normals(*[(3, 2)] * len(tokens), seed=len(tokens))
        sums = [g * t for g, t in zip(gradients, tokens, strict=True)]
        right = torch.stack(sums).sum(0) / sum(tokens)
        shares = [sum(tokens) / t for t in tokens]
        mistakes = {
            "this is the mean of the ranks' means: a token on a rank with few tokens counts more": (
                torch.stack(gradients).mean(0)
            ),
            "the gradients are added up and not divided": torch.stack(gradients).sum(0),
            "the tokens weight the gradients, but nothing is divided by their number": (
                torch.stack(sums).sum(0)
            ),
            "divided by the number of ranks, not by the number of tokens": (
                torch.stack(sums).mean(0)
            ),
            "each gradient is divided by its number of tokens a second time": (
                sum((g / t for g, t in zip(gradients, tokens, strict=True)), right * 0)
            ),
            "a rank with few tokens gets the greater weight": (
                sum((g * s for g, s in zip(gradients, shares, strict=True)), right * 0)
                / sum(shares)
            ),
            "the sum over all tokens is divided by the tokens and by the number of ranks": (
                right / len(tokens)
            ),
        }
        if len(tokens) == 1:  # there all means are the same
            mistakes = {}
        output = expect_tensor(mean(gradients, tokens), (3, 2))
        otherwise = f"with {tokens} tokens it is not sum of tokens * gradient / sum of tokens"
        require_close(output, right, otherwise, mistakes)
    yield "every token counts the same, on 3, 2 and 1 ranks"

    gradients = normals((3, 2), (3, 2))
    output = expect_tensor(mean([gradients[0], gradients[1] * 0], [5, 0]), (3, 2))
    yield {"a rank without a token changes the mean": not close(output, gradients[0])}
    yield "a rank without a token counts for nothing"


@check("split of a batch")
def check_split(split: Callable[[Tensor, int, int], Tensor]) -> Steps:
    """Check split(rows, rank, ranks): the rows of this rank; together all rows, each one once.

    Shapes: rows (batch, time). Returns (rows of this rank, time).
    """
    for batch, ranks in ((12, 3), (7, 3), (11, 4), (6, 4), (2, 5), (5, 1)):
        rows = torch.arange(batch * 2).reshape(batch, 2)
        parts = [expect(split(rows, rank, ranks), Tensor, "a tensor") for rank in range(ranks)]
        case = f"{batch} rows on {ranks} ranks"
        for rank, part in enumerate(parts):
            require(
                part.dim() == 2 and part.shape[1] == 2,
                f"{case}: expected (rows, 2) on rank {rank}, got {tuple(part.shape)}; a rank "
                "without a row gets a tensor of shape (0, 2)",
            )
        found = Counter(int(row[0]) // 2 for part in parts for row in part)
        lost = sorted(set(range(batch)) - set(found))
        double = sorted(row for row, times in found.items() if times > 1)
        sizes = [len(part) for part in parts]
        yield {
            f"{case}: row {lost[:1]} is on no rank, so nobody learns from it": bool(lost),
            f"{case}: row {double[:1]} is on several ranks, so it counts more than once": bool(
                double
            ),
            f"{case}: the ranks get {sizes} rows; the largest part sets the pace of all": (
                max(sizes) > min(sizes) + 1
            ),
        }
        together = torch.cat(parts).sort(dim=0).values
        require_close(together, rows, f"{case}: the rows themselves have changed")
    yield "every row is on exactly one rank"
    yield "no rank has two rows more than another"


class Ring:
    """Carries messages to the next rank, counts their numbers, and refuses all others."""

    def __init__(self, ranks: int, factor: float = 1.0):
        self.sent = [0] * ranks
        self.factor = factor

    def send(self, source: int, target: int, numbers: Tensor) -> Tensor:
        """What arrives at the target. Errors: CheckFailed for a rank that is not the next one."""
        ranks = len(self.sent)
        require(
            target == (source + 1) % ranks,
            f"rank {source} of {ranks} sends to rank {target}: in the ring it has a link to rank "
            f"{(source + 1) % ranks} only",
        )
        expect(numbers, Tensor, "a tensor to send")
        self.sent[source] += numbers.numel()
        return numbers * self.factor


@check("ring all-reduce")
def check_ring(ring: Callable[[list[Tensor], Send], Sequence[Tensor]]) -> Steps:
    """Check ring(x, send): on every rank the sum over all ranks, with 2 (n - 1) / n of x sent.

    Shapes: x, one tensor (n, chunk) for each of n ranks: n chunks. send(source, target, numbers)
        gives what arrives at the target, which must be the next rank. Returns n tensors (n, chunk).
    Source: Patarasuk and Yuan 2009.
    """
    for ranks, chunk in ((3, 5), (2, 3), (5, 2), (1, 7)):
        x = normals(*[(ranks, chunk)] * ranks, seed=ranks)
        wire = Ring(ranks)
        output = ring(x, wire.send)
        require(
            is_parts(output, ranks, Tensor),
            f"expected a list of {ranks} tensors, one for each rank, got {shown(output)}",
        )
        total = torch.stack(x).sum(0)
        for rank, one in enumerate(output):
            expect_tensor(one, (ranks, chunk))
            wrong = f"rank {rank} of {ranks} does not end with the sum over all ranks"
            means = {f"rank {rank} has the mean, not the sum": total / ranks} if ranks > 1 else {}
            require_close(one, total, wrong, means)
        least = 2 * (ranks - 1) * chunk
        yield {
            f"with {ranks} ranks, a rank has sent {max(wire.sent)} numbers; a ring needs no more "
            f"than 2 * {ranks - 1} chunks of {chunk}, {least}: send one chunk in a step, not "
            "everything": max(wire.sent) > least,
            f"with {ranks} ranks, a rank has sent {min(wire.sent)} numbers of {least}: what a rank "
            "knows of another one must have come through send": min(wire.sent) < least,
        }
        weaker = ring(x, Ring(ranks, factor=0.5).send)
        yield {
            "the sum does not depend on what send returns: use what arrives": ranks > 1
            and any(close(one, total) for one in weaker)
        }
    yield "every rank ends with the sum over all ranks"
    yield "every rank sends 2 (n - 1) / n of its numbers, and to its neighbour only"


@check("attention split by heads")
def check_split_by_heads(
    split: Callable[[Tensor, Tensor, Tensor, Tensor, int, int], tuple[Tensor, ...]],
) -> Steps:
    """Check split(w_q, w_k, w_v, w_o, rank, ranks): the parts of the heads of this rank.

    Shapes: as nn.Linear stores them, w_q and w_k (heads * d_k, d_model), w_v (heads * d_v,
        d_model), w_o (d_model, heads * d_v). Returns the four, with heads / ranks heads each.
    Source: Shoeybi et al. 2019, section 3.
    """
    for heads, ranks, d_model, d_k, d_v in ((2, 2, 7, 3, 5), (6, 3, 5, 2, 3), (4, 2, 11, 3, 2)):
        w_q, w_k, w_v, w_o = normals(
            (heads * d_k, d_model),
            (heads * d_k, d_model),
            (heads * d_v, d_model),
            (d_model, heads * d_v),
            seed=heads,
        )
        x, each, total = normal(3, d_model, seed=1), heads // ranks, torch.zeros(3, d_model)
        total = total.double()
        for rank in range(ranks):
            parts = split(w_q, w_k, w_v, w_o, rank, ranks)
            require(
                is_parts(parts, 4, Tensor),
                f"expected the four parts w_q, w_k, w_v, w_o, got {shown(parts)}",
            )
            wide = {"w_q": each * d_k, "w_k": each * d_k, "w_v": each * d_v}
            for (name, rows), part in zip(wide.items(), parts, strict=False):
                got = tuple(part.shape)
                require(
                    got == (rows, d_model),
                    f"expected {name} of shape {(rows, d_model)} for {each} of {heads} heads, got "
                    f"{got}: its rows are the heads' outputs, its columns the input",
                )
            require(
                tuple(parts[3].shape) == (d_model, each * d_v),
                f"expected w_o of shape {(d_model, each * d_v)}, got {tuple(parts[3].shape)}: its "
                "columns belong to the heads, its rows to the output",
            )
            total += attend(x, *parts, heads=each)
        right = attend(x, w_q, w_k, w_v, w_o, heads=heads)
        scaled = {"the sum is too large: a rank repeats the part of another one": right * ranks}
        first = split(w_q, w_k, w_v, w_o, 0, ranks)
        same = all(torch.equal(a, b) for a, b in zip(first, parts, strict=True))
        yield {"all ranks get the same heads": same}
        require_close(
            total,
            right,
            f"the outputs of {ranks} ranks do not add up to that of the layer with {heads} heads: "
            "each rank needs whole heads, the same ones in all four matrices",
            scaled,
        )
    yield "each rank has the matrices of whole heads"
    yield "the partial outputs add up to the output of the layer"


def attend(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, *, heads: int) -> Tensor:
    """Self-attention with these matrices; x is (time, d_model)."""
    q, k, v = ((x @ w.T).unflatten(-1, (heads, -1)).transpose(0, 1) for w in (w_q, w_k, w_v))
    return scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1) @ w_o.T


# --- data parallelism, on real processes ----------------------------------------------------------

Wait = Callable[[], None]
LAYERS = ((5, 7), (7, 6), (6, 2))
SIZE = 50  # numbers of a bucket: more than any parameter of these layers has


class Message(NamedTuple):
    """One all-reduce of a rank: its numbers, and whether it was begun without waiting, and when."""

    numbers: int
    is_async: bool
    in_backward: bool


class Told(NamedTuple):
    """What a rank saw: parameters after the answer was called, and of each step the gradients.

    waited   whether each message was waited for before the gradients were read
    """

    parameters: list[Tensor]
    own: list[list[Tensor]]
    found: list[list[Tensor]]
    messages: list[list[Message]]
    waited: list[bool]


class Wire:
    """Stands in the place of dist.all_reduce, hands on to it, and writes down each call."""

    def __init__(self) -> None:
        self.send = dist.all_reduce
        self.messages: list[Message] = []
        self.open: list[Waiting] = []
        self.in_backward = False

    def all_reduce(
        self, tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        self.messages.append(Message(tensor.numel(), async_op, self.in_backward))
        work = self.send(tensor, op, group, async_op)
        return work and Waiting(work, self.open)


class Waiting:
    """A message on its way, which strikes itself off a list when somebody waits for it."""

    def __init__(self, work: Any, still: list[Any]):
        self.work, self.still = work, still
        still.append(self)

    def wait(self, *given: Any) -> Any:
        if self in self.still:
            self.still.remove(self)
        return self.work.wait(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def stepped(answer: Callable[..., Any], *options: int) -> Told | str:
    """Two steps of a small model on this rank with the reader's answer; text if it gives none."""
    rank, wire = dist.get_rank(), Wire()
    torch.manual_seed(rank)
    layers = [layer for size in LAYERS for layer in (nn.Linear(*size), nn.Tanh())]
    model = nn.Sequential(*layers[:-1]).double()
    told = Told([], [], [], [], [])
    with mock.patch.object(dist, "all_reduce", wire.all_reduce):
        wait = answer(model, *options)
        if not callable(wait):
            return f"expected a function that waits for the messages, got {shown(wait)}"
        told.parameters.extend(p.detach().clone() for p in model.parameters())
        for step in range(2):
            wire.messages = []
            x = normal(4, 5, seed=10 * step + rank)
            told.own.append(_own_gradients(model, x))
            model.zero_grad()
            loss = model(x).square().sum()
            wire.in_backward = True
            loss.backward()
            wire.in_backward = False
            wait()
            told.waited.append(not wire.open)
            told.messages.append(wire.messages)
            parameters = list(model.parameters())
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            told.found.append([g.detach().clone() for g in gradients])
            with torch.no_grad():
                for p, g in zip(parameters, gradients, strict=True):
                    p.sub_(g, alpha=0.1)
    return told


def _own_gradients(model: nn.Sequential, x: Tensor) -> list[Tensor]:
    """The gradients of this rank alone, by a model without hooks."""
    plain = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    output = torch.func.functional_call(model, plain, x)
    return list(torch.autograd.grad(output.square().sum(), list(plain.values())))


@contextmanager
def alone() -> Iterator[None]:
    """Be the only rank there is, in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _rehearsed(answer: Callable[..., Wait], *options: int) -> Told:
    """What one rank alone sees, in this process: most mistakes show there, and at once."""
    with alone():
        told = stepped(answer, *options)
    if isinstance(told, str):
        raise CheckFailed(told)
    return told


def _told_by_ranks(answer: Callable[..., Wait], *options: int) -> list[Told]:
    """What two real processes see."""
    plain = getattr(answer, "__wrapped__", answer)
    try:
        return list(run_workers(stepped, plain, *options, patience=20).results)
    except WorkerError as error:
        raise CheckFailed(f"in two processes, {error}") from error


def _require_means(ranks: list[Told]) -> None:
    """Require that all begin alike and that each step gives both ranks the mean gradient."""
    both = zip(*(told.parameters for told in ranks), strict=True)
    require(
        all(torch.equal(a, b) for a, b in both),
        "the ranks begin with different parameters, so equal updates leave them different: send "
        "rank 0's parameters to all with dist.broadcast",
    )
    for step in range(2):
        for rank, told in enumerate(ranks):
            owns = zip(*(other.own[step] for other in ranks), strict=True)
            for got, own in zip(told.found[step], owns, strict=True):
                mistakes = {
                    "the gradient is the sum over the ranks, not their mean": own[0] + own[1],
                    f"a gradient is still rank {rank}'s own: no all-reduce has changed it": own[
                        rank
                    ],
                    "the gradients are divided by the number of ranks twice": sum(own) / 4,
                }
                wrong = f"step {step + 1}: a gradient on rank {rank} is not the mean over the ranks"
                require_close(got, sum(own) / 2, wrong, mistakes)


def _require_overlap(told: Told) -> None:
    """Require that messages leave during backward, and that nobody waits before its end."""
    messages = [one for step in told.messages for one in step]
    require(bool(messages), "expected dist.all_reduce to be called; it is what the check counts")
    require(
        any(one.in_backward for one in messages),
        "nothing is sent before backward has ended, so nothing overlaps: send from a hook, "
        "parameter.register_post_accumulate_grad_hook",
    )
    require(
        all(one.is_async for one in messages if one.in_backward),
        "backward stops at each message until it has arrived: begin it with async_op=True, and "
        "wait for it in the function that you return",
    )
    require(
        all(told.waited),
        "a message is still on its way when your function returns: call wait() of each",
    )


@check("data parallelism with a hook on each gradient")
def check_ddp(ddp: Callable[[nn.Module], Wait]) -> Steps:
    """Check ddp(model), in two processes: each gradient becomes the mean over the ranks.

    It returns a function, called after backward, that waits until all gradients have arrived.
    """
    _require_overlap(_rehearsed(ddp))
    yield "gradients are sent while backward is still computing"
    _require_means(_told_by_ranks(ddp))
    yield "both ranks begin with the same parameters"
    yield "after each of two steps every gradient is the mean over the ranks"


@check("data parallelism with buckets")
def check_buckets(ddp: Callable[[nn.Module, int], Wait]) -> Steps:
    """Check ddp(model, size): as `check_ddp`, with gradients sent together, `size` numbers or more.

    The last bucket, what is left when backward ends, may be smaller.
    """
    told = _rehearsed(ddp, SIZE)
    _require_overlap(told)
    numbers = sum((rows + 1) * columns for rows, columns in LAYERS)
    for step in told.messages:
        sizes = [one.numbers for one in step]
        yield {
            f"{sum(sizes)} numbers were sent, of {numbers} in all gradients: some are sent again; "
            "empty the bucket when it is sent": sum(sizes) > numbers,
            f"buckets of {sizes} numbers: expected {SIZE} or more in each but the last": any(
                size < SIZE for size in sizes[:-1]
            ),
        }
    yield "every bucket but the last has at least as many numbers as asked"
    _require_means(_told_by_ranks(ddp, SIZE))
    yield "every gradient is sent once, and becomes the mean over the ranks"
