"""The cost of a ring: against a ring that is simulated round by round, and facts of the paper."""

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from measure.costs import (
    Collective,
    Link,
    activation_bytes,
    bytes_of_step,
    bytes_sent,
    communication_time,
    data_parallel,
    messages_sent,
    plan,
    ring_time,
    sharded,
    state_bytes,
    tensor_parallel,
    tokens_that_hide,
    training_flops,
)
from measure.observed import Measured, fit_link, relative_errors
from tests.helpers import unchecked

ANY_LINK = Link(3e-5, 7e8)
GPUS, PARAMETERS = 8, 65_000_000  # the paper's base model
STEP, STEPS, HOURS, GPU_FLOPS, FLOPS = 0.4, 100_000, 12, 9.5e12, 3.3e18  # of training it
PCIE = Link(1e-5, 16 * 8e9 * 128 / 130 / 8)  # 3.0, 16 lanes of 8 GT/s, of 130 bits 128 data


def ring_all_reduce(vectors: list[list[Fraction]]) -> tuple[list[list[Fraction]], int, int]:
    """Sum vectors of n chunks in a ring; return what each rank has, its messages and chunks."""
    n = len(vectors)
    held = [list(vector) for vector in vectors]
    messages = 0
    for phase in ("reduce-scatter", "all-gather"):
        for turn in range(n - 1):
            first = 0 if phase == "reduce-scatter" else 1
            sent = [(rank, (rank + first - turn) % n) for rank in range(n)]
            values = [held[rank][chunk] for rank, chunk in sent]
            for (rank, chunk), value in zip(sent, values, strict=True):
                to = (rank + 1) % n
                held[to][chunk] = value + (held[to][chunk] if phase == "reduce-scatter" else 0)
            messages += 1
    return held, messages, messages


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_counts_are_those_of_a_ring_that_sums(n):
    vectors = [[Fraction(10 * rank + chunk) for chunk in range(n)] for rank in range(n)]
    held, messages, chunks = ring_all_reduce(vectors)
    assert held == [[sum(column) for column in zip(*vectors, strict=True)]] * n
    assert messages_sent("all_reduce", n) == messages
    assert bytes_sent("all_reduce", 8 * n, n) == 8 * chunks  # a chunk of eight bytes


@given(st.integers(1, 2000), st.integers(0, 10**12))
def test_all_reduce_is_reduce_scatter_and_all_gather(n, nbytes):
    both = [ring_time(kind, nbytes, n, ANY_LINK) for kind in ("reduce_scatter", "all_gather")]
    assert ring_time("all_reduce", nbytes, n, ANY_LINK) == pytest.approx(sum(both))
    assert bytes_sent("all_reduce", nbytes, n) <= 2 * nbytes


def test_time_is_the_formula():
    n, nbytes = 5, 7_000_000
    formula = 2 * (n - 1) / n * nbytes / ANY_LINK.bandwidth + 2 * (n - 1) * ANY_LINK.latency
    assert ring_time("all_reduce", nbytes, n, ANY_LINK) == pytest.approx(formula)
    assert ring_time("all_reduce", nbytes, 1, ANY_LINK) == 0


def test_sharding_sends_half_as_much_again_and_tensor_parallelism_activations():
    n = 7
    replicated = bytes_of_step(data_parallel(PARAMETERS), n)
    assert bytes_of_step(sharded(PARAMETERS), n) == pytest.approx(1.5 * replicated)
    kept = sharded(PARAMETERS, keep_after_forward=True)
    assert bytes_of_step(kept, n) == pytest.approx(replicated)
    split = tensor_parallel(3, 11, 16, 6)
    assert bytes_of_step(split, n) == pytest.approx(6 * 4 * 2 * (n - 1) / n * 3 * 11 * 16 * 4)
    assert communication_time(split, n, ANY_LINK) == pytest.approx(
        24 * ring_time("all_reduce", 3 * 11 * 16 * 4, n, ANY_LINK)
    )


@pytest.mark.parametrize("link", [ANY_LINK, Link(0.0, 3e9)])
def test_fit_finds_the_link_again_and_predicts_another_number_of_ranks(link):
    sizes = [10**k for k in range(3, 9)]
    fitted = fit_link([Measured(2, b, ring_time("all_reduce", b, 2, link)) for b in sizes])
    assert fitted == pytest.approx(link, rel=1e-6, abs=1e-12)
    others = [Measured(3, b, ring_time("all_gather", b, 3, link), "all_gather") for b in sizes]
    assert relative_errors(others, fitted) == pytest.approx([0] * len(sizes), abs=1e-6)


def test_fit_is_the_best_in_relative_error():
    noisy = [1.3, 0.8, 1.1, 0.7, 1.2]
    measured = [
        Measured(2, 10**k, factor * ring_time("all_reduce", 10**k, 2, ANY_LINK))
        for k, factor in enumerate(noisy, start=3)
    ]

    def loss(link):  # relative to what was measured
        return sum(error**2 for error in relative_errors(measured, link))

    fitted = fit_link(measured)
    for change in (0.99, 1.01):
        assert loss(fitted) < loss(fitted._replace(latency=change * fitted.latency))
        assert loss(fitted) < loss(fitted._replace(bandwidth=change * fitted.bandwidth))


@pytest.mark.parametrize(
    ("seconds", "gone"), [((1.0, 100.0, 1e5), "latency"), ((1.0, 1.0, 0.9), "bandwidth")]
)
def test_fit_is_never_negative(seconds, gone):
    times = zip((10**6, 10**7, 10**8), seconds, strict=True)
    link = fit_link([Measured(2, nbytes, one) for nbytes, one in times])
    assert link.latency >= 0 < link.bandwidth
    assert link.latency == 0 if gone == "latency" else link.bandwidth == float("inf")


def test_plan_hides_what_fits_into_its_own_pass():
    step = data_parallel(10**7)
    n = 4
    alone = plan(2.0, step, n, ANY_LINK)
    assert alone.total == pytest.approx(0.5 + communication_time(step, n, ANY_LINK))
    assert alone.efficiency == pytest.approx(0.5 / alone.total)
    tenth = plan(2.0, step, n, ANY_LINK, overlap=True, backward=0.1)
    assert tenth.exposed == pytest.approx(alone.communication - 0.05)
    assert plan(2.0, step, n, ANY_LINK, overlap=True).exposed == 0
    assert plan(2.0, step, n, ANY_LINK, same_batch=False).compute == 2.0
    assert plan(2.0, step, 1, ANY_LINK).efficiency == 1
    gather, again, reduce = sharded(10**7)
    both = plan(0.4, [gather, again, reduce], n, ANY_LINK, overlap=True)
    forward = max(communication_time([gather], n, ANY_LINK) - 0.1 / 3, 0)
    backward = max(communication_time([again, reduce], n, ANY_LINK) - 0.2 / 3, 0)
    assert 0 < both.exposed == pytest.approx(forward + backward)
    waited = tensor_parallel(3, 11, 16, 6)  # a layer's output is needed at once: nothing hides it
    step = plan(9.0, waited, n, ANY_LINK, overlap=True)
    assert 0 < step.exposed == pytest.approx(step.communication)


@pytest.mark.parametrize("parameters", [1, 65_000_000])
@pytest.mark.parametrize(
    ("step", "wanted"),
    [(data_parallel, 2), (sharded, 2), (lambda n: sharded(n, stage=1), 2)],
    ids=["DDP", "ZeRO 3", "ZeRO 1"],
)
def test_tokens_that_hide_the_links_do_not_depend_on_the_model(step, wanted, parameters):
    flops, bandwidth = 3e12, 16e9
    operations = step(parameters)
    tokens = tokens_that_hide(operations, parameters, flops, bandwidth)
    assert tokens == pytest.approx(wanted * flops / bandwidth)
    for factor, waits in ((0.9, True), (1.01, False)):
        compute = training_flops(parameters, factor * tokens) / flops
        link = Link(0, bandwidth)
        many = plan(compute, operations, 10**4, link, overlap=True, same_batch=False)
        assert (many.exposed > 0) == waits


def test_recomputing_makes_the_backward_pass_longer():
    assert training_flops(7, 5) == 6 * 35
    assert training_flops(7, 5, recompute=True) == 8 * 35
    args = data_parallel(7), 7, 3e12, 16e9
    assert tokens_that_hide(*args, recompute=True) == pytest.approx(tokens_that_hide(*args) / 1.5)


@pytest.mark.parametrize("mixed", [False, True])
def test_the_stages_of_zero_divide_one_thing_after_the_other(mixed):
    of_each = (2, 2, 12) if mixed else (4, 4, 8)
    held = [state_bytes(70, 7, stage=stage, mixed=mixed) for stage in range(4)]
    parameters, gradients, adam = (70 * each for each in of_each)
    assert held == [
        parameters + gradients + adam,
        parameters + gradients + adam / 7,
        parameters + (gradients + adam) / 7,
        (parameters + gradients + adam) / 7,
    ]
    assert held[0] == 16 * 70


class Block(nn.Module):
    """A layer of a decoder, pre-norm, whose attention keeps no map."""

    def __init__(self, d: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.maps = nn.ModuleList(
            nn.Linear(*size) for size in ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d))
        )

    def forward(self, x):
        q, k, v = (
            one.unflatten(-1, (2, -1)).transpose(1, 2)
            for one in self.maps[0](self.norms[0](x)).chunk(3, dim=-1)
        )
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.maps[1](heads.transpose(1, 2).flatten(-2))
        inner = nn.functional.gelu(self.maps[2](self.norms[1](x)))
        return x + self.maps[3](inner)


def test_a_layer_keeps_sixteen_vectors_of_each_token():
    batch, time, d, layers = 3, 40, 32, 5
    model = nn.Sequential(*(Block(d) for _ in range(layers)))
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept = {}  # each storage once, however many tensors of it are kept

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    x = torch.randn(batch, time, d, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)
    found = sum(nbytes for nbytes, _ in kept.values())
    wanted = activation_bytes(batch * time, d, layers)
    assert out.requires_grad
    assert wanted == 16 * d * 4 * batch * time * layers
    assert found == pytest.approx(wanted, rel=0.03)
    kept.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for layer in model:
            x = checkpoint(layer, x, use_reentrant=False)
    inputs = sum(nbytes for nbytes, _ in kept.values())
    of_one = activation_bytes(batch * time, d, 1)
    recomputed = activation_bytes(batch * time, d, layers, recompute=True)
    assert inputs + of_one == pytest.approx(recomputed, rel=0.03)


def test_more_ranks_for_the_same_batch_are_used_less_and_less_well():
    steps = [plan(3.2, data_parallel(PARAMETERS), n, PCIE) for n in (1, 2, 4, 8, 16, 64)]
    assert all(a.efficiency > b.efficiency for a, b in pairwise(steps))


def test_the_papers_machine_could_spend_most_of_its_step_computing():
    """What the paper says of its training agrees with itself, and leaves room for communication.

    The bandwidth is that of PCI Express 3.0 with 16 lanes. How the authors' program exchanged
    gradients, the paper does not say: the ring is an assumption.
    """
    assert pytest.approx(HOURS, rel=0.1) == STEP * STEPS / 3600
    assert pytest.approx(FLOPS, rel=0.01) == 3600 * HOURS * GPUS * GPU_FLOPS
    gradients = data_parallel(PARAMETERS)
    assert bytes_of_step(gradients, GPUS) == pytest.approx(455e6)
    busy = communication_time(gradients, GPUS, PCIE)
    assert busy == pytest.approx(0.029, abs=0.0005)
    step = plan(GPUS * (STEP - busy), gradients, GPUS, PCIE)
    assert step.total == pytest.approx(STEP)
    assert step.efficiency == pytest.approx(0.93, abs=0.005)


def test_a_thousand_ranks_of_one_ring_wait_for_its_latency():
    short, long = (plan(400.0, data_parallel(PARAMETERS), n, PCIE) for n in (8, 1000))
    assert long.communication / short.communication == pytest.approx(1.82, abs=0.05)
    assert long.efficiency < short.efficiency


def test_mistakes_are_named():
    with unchecked():
        with pytest.raises(ValueError, match="expected one of all_reduce"):
            ring_time("broadcast", 1, 2, ANY_LINK)
        with pytest.raises(ValueError, match="got n=0"):
            ring_time("all_reduce", 1, 0, ANY_LINK)
        with pytest.raises(ValueError, match="nbytes of 0 or more"):
            bytes_sent("all_reduce", -1, 2)
        with pytest.raises(ValueError, match="bandwidth > 0"):
            ring_time("all_reduce", 1, 2, Link(0, 0))
        with pytest.raises(ValueError, match="backward from 0 to 1"):
            plan(1.0, [Collective("x", "all_reduce", 1.0)], 2, ANY_LINK, backward=2)
        with pytest.raises(ValueError, match="stage 1, 2 or 3 of ZeRO, got 0"):
            sharded(7, stage=0)
        with pytest.raises(ValueError, match="stage 0, 1, 2 or 3 of ZeRO, got 4"):
            state_bytes(7, 2, stage=4)
        with pytest.raises(ValueError, match="parameters above 0"):
            data_parallel(0)
        with pytest.raises(ValueError, match="at least two sizes"):
            fit_link([Measured(2, 8, 1.0)] * 3)
        with pytest.raises(ValueError, match="positive times of two ranks"):
            fit_link([Measured(2, 8, 1.0), Measured(2, 9, 0.0)])
