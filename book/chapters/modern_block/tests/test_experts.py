"""A mixture of experts: token by token the same, and a loss that is least where experts share."""

import pytest
import torch

from chapters.modern_block.decoder import ModernDecoder, today
from chapters.modern_block.experts import MixtureOfExperts, load_balancing_loss, router_logits
from tests.helpers import assert_close, gradients, normal, unchecked


def made(n_experts=5, n_active=2, **options):
    torch.manual_seed(0)
    layer = MixtureOfExperts(7, 11, n_experts, n_active, **options).double()
    torch.nn.init.normal_(layer.router.weight)
    return layer


def naive(layer, x):
    """One token after another: the softmax over all, the best, and their sum made 1 again."""
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        chances = layer.router(token).softmax(-1)
        best = sorted(range(len(chances)), key=lambda i: -chances[i].item())[: layer.n_active]
        total = sum(chances[i] for i in best)
        rows.append(sum(chances[i] / total * layer.experts[i](token) for i in best))
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize(("n_experts", "n_active"), [(1, 1), (2, 1), (3, 3), (5, 2), (13, 5)])
@pytest.mark.parametrize("options", [{}, {"activation": "gelu", "bias": True}], ids=str)
def test_equals_token_by_token_with_gradients(n_experts, n_active, options):
    layer = made(n_experts, n_active, **options)
    x = normal(2, 3, 7).requires_grad_()
    got, wanted = layer(x), naive(layer, x)
    assert_close(got, wanted, 1e-12)
    inputs = [x, *layer.parameters()]
    weight = normal(2, 3, 7, seed=99)
    for (name, _), one, other in zip(
        [("x", x), *layer.named_parameters()],
        gradients(got, inputs),
        torch.autograd.grad((wanted * weight).sum(), inputs, allow_unused=True),
        strict=True,
    ):
        if other is None:  # an expert that nobody chose
            assert name.startswith("experts.")
            assert not one.any()
        else:
            assert_close(one, other, 1e-10)


def test_each_position_is_treated_by_itself():
    layer, x = made(), normal(2, 3, 7)
    together = layer(x)
    for b in range(2):
        for t in range(3):
            assert_close(layer(x[b, t]), together[b, t], 1e-12)


def test_route_chooses_the_best_and_its_weights_sum_to_one():
    layer, x = made(13, 5), normal(2, 3, 7)
    chosen, weights = layer.route(x)
    assert chosen.shape == weights.shape == (2, 3, 5)
    scores = layer.router(x)
    taken = scores.gather(-1, chosen)
    assert (taken.diff(dim=-1) <= 0).all()
    others = scores.scatter(-1, chosen, -torch.inf)
    assert (others.max(-1).values < taken.min(-1).values).all()
    assert_close(weights.sum(-1), torch.ones(2, 3), 1e-12)
    assert_close(weights, (taken - taken.logsumexp(-1, keepdim=True)).exp(), 1e-12)


def test_one_active_expert_has_the_weight_one():
    """So its router learns nothing from the output: Switch does not renormalise, Mixtral does."""
    layer, x = made(n_active=1), normal(3, 7)
    assert torch.equal(layer.route(x)[1], torch.ones(3, 1, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(layer(x).sum(), layer.router.weight)
    assert not gradient.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast(dtype):
    layer, x = made().float(), normal(2, 3, 7, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = layer(x)
    assert got.dtype == torch.float32
    assert_close(got, layer(x), 0.05)
    half = made().to(dtype)
    assert half.route(x.to(dtype))[1].dtype == torch.float32
    assert half(x.to(dtype)).dtype == dtype
    assert_close(half(x.to(dtype)), layer(x), 0.05)


def test_router_logits_are_collected_with_gradients_and_the_model_is_left_alone():
    torch.manual_seed(0)
    model = ModernDecoder(today(29, d_model=14, n_layers=3, n_heads=1, d_ff=11, n_experts=5))
    text = torch.randint(29, (2, 7))
    alone = model(text)
    with router_logits(model) as found:
        assert torch.equal(model(text), alone)
    assert [one.shape for one in found] == [(14, 5)] * 3
    loss = load_balancing_loss(torch.stack(found), 2)
    loss.backward()
    for layer in model.decoder.layers:
        assert layer.feed_forward.sublayer.router.weight.grad.abs().max() > 0
    model(text)
    assert len(found) == 3


def test_loss_by_hand():
    """Two tokens, experts of chances 3/4 and 1/4, and 1/2 each: both choose the first."""
    logits = torch.tensor([[3.0, 1.0], [1.0, 1.0 - 1e-6]]).log()
    wanted = 2 * (1.0 * (0.75 + 0.5) / 2 + 0.0)
    assert load_balancing_loss(logits, 1).item() == pytest.approx(wanted, abs=1e-5)
    assert load_balancing_loss(logits, 2).item() == pytest.approx(2.0, abs=1e-5)  # all are chosen


def test_loss_of_an_even_spread_and_of_a_collapse():
    n_experts = 6
    even = torch.eye(n_experts).repeat(5, 1) * 40.0
    for n_active in (1, 2, 5):
        rolled = sum(even.roll(i, -1) for i in range(n_active))  # each token chooses n_active
        assert load_balancing_loss(rolled, n_active).item() == pytest.approx(n_active)
        same = torch.zeros(30, n_experts)
        same[:, :n_active] = 40.0
        assert load_balancing_loss(same, n_active).item() == pytest.approx(n_experts)


def test_loss_takes_all_axes_as_one():
    logits = normal(2, 3, 5, 7)
    assert_close(load_balancing_loss(logits, 2), load_balancing_loss(logits.view(30, 7), 2), 0.0)


def test_loss_drives_a_router_to_an_even_spread():
    layer, x = made(6, 2), normal(211, 7) + 1.0
    optimizer = torch.optim.Adam(layer.router.parameters(), lr=0.05)

    def share():
        counts = torch.bincount(layer.route(x)[0].flatten(), minlength=6)
        return (counts / len(x)).max().item()

    before = share()
    for _ in range(150):
        loss = load_balancing_loss(layer.router(x), 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert before > 0.6
    assert share() < 0.45  # 1/3 is even


@pytest.mark.parametrize(("n_experts", "n_active"), [(1, 1), (3, 1), (5, 2), (8, 3), (4, 4)])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_loss_equals_transformers(n_experts, n_active, n_layers):
    pytest.importorskip("transformers", reason="needs the package transformers")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = normal(n_layers, 35, n_experts, dtype=torch.float32).requires_grad_()
    ours = load_balancing_loss(logits, n_active)
    theirs = load_balancing_loss_func(tuple(logits), n_experts, n_active)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    got, wanted = (torch.autograd.grad(one, logits)[0] for one in (ours, theirs))
    assert_close(got, wanted, 1e-7)


def test_mistakes_are_named():
    for n_active in (0, 4):
        with pytest.raises(ValueError, match=f"n_active={n_active} and n_experts=3"):
            MixtureOfExperts(7, 11, 3, n_active)
        with pytest.raises(ValueError, match=f"n_active={n_active} and n_experts=3"):
            load_balancing_loss(torch.zeros(2, 3), n_active)
    with unchecked(), pytest.raises(ValueError, match=r"d_model=7 for Mix.* got \(2, 3, 5\)"):
        made()(torch.zeros(2, 3, 5))
