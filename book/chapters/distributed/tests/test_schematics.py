"""What the schematics show is what happens: shapes, the ring's numbers, who holds what."""

import re
from itertools import pairwise

import pytest
import torch

from chapters.distributed.checks import Ring, attend, check_ring
from chapters.distributed.schematics import (
    BUCKETS,
    COMPUTING,
    RING,
    SCHEMES,
    SENDING,
    SHARDS,
    STATES,
    WIDE,
    buckets_in_time,
    changed,
    in_time,
    ring,
    ring_states,
    split_by_heads,
    split_feed_forward,
    step_in_time,
    two_replicas,
    who_holds_what,
)
from lib.attention import MultiHeadAttention
from lib.layers import FeedForward
from measure.costs import state_bytes
from tests.helpers import assert_shapes, normal


def test_two_replicas_add_the_gradients_of_every_second_sentence():
    batch, model = torch.randn(14, 5).double(), torch.nn.Linear(5, 2).double()

    def gradient(rows):
        grads = torch.autograd.grad(model(rows).square().sum(), list(model.parameters()))
        return torch.cat([one.flatten() for one in grads])

    parts = [batch[rank::2] for rank in range(2)]
    gradients = [gradient(part) for part in parts]
    total = sum(gradients)
    torch.testing.assert_close(total, gradient(batch))
    tensors = {"batch": batch}
    for rank in range(2):
        tensors[f"sentences of rank {rank}"] = parts[rank]
        tensors[f"g_{rank}"] = gradients[rank]
        tensors[f"sum on rank {rank}"] = total
    sizes = {"batch": 14, "batch/ranks": 7, "time": 5, "N": 12}
    assert_shapes(two_replicas(), tensors, sizes)


def test_the_ring_ends_with_the_sums_and_sends_one_chunk_at_a_time():
    held = ring_states()
    sums = [sum(one) for one in zip(*RING, strict=True)]
    assert held[-1] == [sums] * len(RING)
    assert len(held) == 2 * (len(RING) - 1) + 1
    for before, after in pairwise(held):
        assert len({changed(a, b) for a, b in zip(before, after, strict=True)}) == len(RING)
    drawn = re.findall(r">(\d+)</text>", ring().svg())
    assert [int(n) for n in drawn] == [n for now in held for one in now for n in one]


def test_the_ring_of_the_schematic_passes_the_check_of_the_exercise():
    """The same order of chunks, with tensors that travel."""

    def as_drawn(x, send):
        n, x = len(x), [one.clone() for one in x]
        for step in range(2 * (n - 1)):
            arrived = [send(r, (r + 1) % n, x[r][(r - step) % n]) for r in range(n)]
            for r in range(n):
                own = x[r][(r - 1 - step) % n] if step < n - 1 else 0
                x[r][(r - 1 - step) % n] = arrived[r - 1] + own
        return x

    assert check_ring(as_drawn)
    x = [torch.tensor(one)[:, None] for one in RING]
    done = as_drawn(x, Ring(len(RING)).send)
    assert [one.flatten().tolist() for one in done] == ring_states()[-1]


def test_a_step_in_time_is_that_of_the_formulas():
    """What is drawn waits as the formula says, and at most for one bucket more: the last one."""
    parts = {part.name: part for part in in_time().parts}
    titles = ("sent after backward", "sent in buckets, during backward", "a third of the tokens")
    for title, computing, overlap in zip(
        titles, (COMPUTING, COMPUTING, COMPUTING / 3), (False, True, True), strict=True
    ):
        step = step_in_time(computing, overlap=overlap)
        passes = [parts[f"{title}: {name}"] for name in ("forward", "backward")]
        assert [one.width for one in passes] == pytest.approx(
            [computing * WIDE / 3, computing * WIDE * 2 / 3]
        )
        sent = [parts[f"{title}: bucket {i + 1}"] for i in range(BUCKETS)]
        assert sum(one.width for one in sent) == pytest.approx(step.communication * WIDE)
        begin = passes[0].left[0]
        for one, (start, end) in zip(
            sent, buckets_in_time(computing, overlap=overlap), strict=True
        ):
            drawn = [(x - begin) / WIDE for x in (one.left[0], one.right[0])]
            assert drawn == pytest.approx([start, end])
        wait = (sent[-1].right[0] - passes[1].right[0]) / WIDE
        assert step.exposed - 1e-9 <= wait <= step.exposed + SENDING / BUCKETS + 1e-9
        if not overlap:
            assert wait == pytest.approx(SENDING)


def test_each_scheme_holds_what_the_formula_says():
    parts = {part.name: part for part in who_holds_what().parts}
    assert len(parts) == len(SCHEMES) * SHARDS
    of_each = (4, 4, 4, 4)  # bytes in float32, in the order of STATES
    for stage, whole in enumerate(SCHEMES.values()):
        held = sum(
            each * (1 if i < whole else 1 / SHARDS) for i, each in enumerate(of_each[: len(STATES)])
        )
        assert held == pytest.approx(state_bytes(1, SHARDS, stage=stage))
    cells = len(STATES) * SHARDS
    shaded = who_holds_what().svg().count('class="shade"')
    rows = sum(
        SHARDS * SHARDS * whole + SHARDS * (len(STATES) - whole) for whole in SCHEMES.values()
    )
    assert shaded == rows
    assert cells * SHARDS * len(SCHEMES) > shaded


def test_a_network_split_by_columns_and_rows_has_the_shapes_of_its_schematic():
    sizes = {"time": 11, "d_{model}": 13, "d_{ff}/2": 17}
    network, x = FeedForward(13, 34, bias=False).double(), normal(11, 13)
    tensors, total = {"x, on both": x}, torch.zeros(11, 13).double()
    for rank in range(2):
        w_1, w_2 = network.w_1.weight.T.chunk(2, 1)[rank], network.w_2.weight.T.chunk(2)[rank]
        inner = (x @ w_1).relu()
        tensors |= {f"W_1 of rank {rank}": w_1, f"W_2 of rank {rank}": w_2}
        tensors |= {f"inner of rank {rank}": inner, f"partial output {rank}": inner @ w_2}
        total += inner @ w_2
    tensors["output, on both"] = total
    torch.testing.assert_close(total, network(x[None])[0])
    assert_shapes(split_feed_forward(), tensors, sizes)


def test_a_layer_split_by_heads_has_the_shapes_of_its_schematic():
    heads, sizes = 2 * 3, {"time": 11, "d_{model}": 13, "h/2": 3, "d_k": 5, "d_v": 7}
    layer = MultiHeadAttention(13, heads, d_k=5, d_v=7, bias=False).double()
    x = normal(11, 13)
    tensors = {"x, on both": x}
    total = torch.zeros(11, 13).double()
    for rank in range(2):
        w_q, w_k, w_v = (w.weight.chunk(2)[rank] for w in (layer.w_q, layer.w_k, layer.w_v))
        w_o = layer.w_o.weight.chunk(2, dim=1)[rank]
        inner = attend(x, w_q, w_k, w_v, torch.eye(21).double(), heads=3)
        for letter, w in zip("QKVO", (w_q, w_k, w_v, w_o), strict=True):
            tensors[f"W_{rank}^{letter}"] = w.T
        tensors[f"heads of rank {rank}"] = inner
        tensors[f"partial output {rank}"] = inner @ w_o.T
        total += inner @ w_o.T
    tensors["output, on both"] = total
    torch.testing.assert_close(total, layer(x[None])[0])
    assert_shapes(split_by_heads(), tensors, sizes)
