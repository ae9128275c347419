"""What the schematics show is what happens: shapes, the ring's numbers, who holds what."""

import re
from itertools import pairwise

import torch

from chapters.distributed.checks import Ring, attend, check_ring
from chapters.distributed.schematics import (
    RING,
    SHARDS,
    STATES,
    changed,
    ring,
    ring_states,
    split_by_heads,
    two_replicas,
    who_holds_what,
)
from lib.attention import MultiHeadAttention
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


def test_with_fsdp_each_third_is_on_one_rank():
    cells = len(STATES) * SHARDS
    shaded = who_holds_what().svg().count('class="shade"')
    assert shaded == SHARDS * cells + cells  # all of it on each rank; then once on all together


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
