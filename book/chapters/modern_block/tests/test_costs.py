"""The formulas against real models: their parameters, their caches, and torch's counted FLOPs."""

import itertools

import pytest
import torch

from chapters.modern_block.decoder import ModernDecoder, WindowCache, paper_2017
from chapters.modern_block.experts import MixtureOfExperts
from lib.attention import MultiHeadAttention
from lib.layers import FeedForward, LayerNorm, RMSNorm
from measure.costs import cache_bytes, flops_of, parameters_of
from measure.observed import count_flops
from tests.helpers import unchecked

CHOICES = {
    "norm": ("pre", "post"),
    "norm_layer": ("layer", "rms"),
    "activation": ("relu", "gelu", "swiglu"),
    "positions": ("none", "sinusoidal", "learned", "rotary"),
    "bias": (False, True),
    "qkv_bias": (False, True),
    "qk_norm": (False, True),
    "tied": (False, True),
    "windows": (
        {},
        {"window": 1},
        {"window": 5},
        {"window": 100},
        {"window": 1, "full_every": 2},
        {"window": 5, "full_every": 3},
    ),
    "experts": ({}, {"n_experts": 5, "n_active": 1}, {"n_experts": 3, "n_active": 3}),
    "heads": (
        {},
        {"n_kv_heads": 1},
        {"n_kv_heads": 2, "head_dim": 14},
        {"n_kv_heads": 3, "head_dim": 2},
    ),
}


def configs():
    """Every 895th of all combinations: few, and yet all pairs of choices are among them."""
    found = []
    for values in list(itertools.product(*CHOICES.values()))[::895]:
        fields = dict(zip(CHOICES, values, strict=True))
        fields |= fields.pop("experts") | fields.pop("heads") | fields.pop("windows")
        sizes = {"d_model": 24, "n_layers": len(found) % 3 + 1, "n_heads": 6, "d_ff": 37}
        found.append(paper_2017(29, **sizes, max_length=31, **fields))
    return found


CONFIGS = configs()


def size(*modules: torch.nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


def all_of(model: torch.nn.Module, *kinds: type) -> list:
    return [module for module in model.modules() if isinstance(module, kinds)]


def test_the_configurations_meet_all_pairs_of_choices():
    names = (
        "norm",
        "norm_layer",
        "activation",
        "positions",
        "bias",
        "qkv_bias",
        "qk_norm",
        "tied",
        "window",
        "full_every",
        "n_experts",
        "kv_heads",
    )
    for a, b in itertools.combinations(names, 2):
        values = [{getattr(c, name) for c in CONFIGS} for name in (a, b)]
        met = {(getattr(c, a), getattr(c, b)) for c in CONFIGS}
        if {a, b} != {"window", "full_every"}:  # which needs one
            assert met == set(itertools.product(*values)), (a, b)


@pytest.mark.parametrize("config", CONFIGS)
def test_parameters_by_part_are_those_of_the_model(config):
    model, parts = ModernDecoder(config), parameters_of(config)
    assert parts.total == size(model)
    assert parts.embedding == size(model.embedding)
    assert parts.positions == size(model.decoder.positions)
    assert parts.attention == size(*all_of(model, MultiHeadAttention))
    assert parts.feed_forward == size(*all_of(model, FeedForward))
    assert parts.router == size(*(m.router for m in all_of(model, MixtureOfExperts)))
    of_heads = [m for a in all_of(model, MultiHeadAttention) for m in all_of(a, RMSNorm)]
    assert len(of_heads) == 2 * config.n_layers * config.qk_norm
    assert parts.norms == size(*all_of(model, LayerNorm, RMSNorm)) - size(*of_heads)
    assert parts.projection == (0 if config.tied else size(model.projection))


@pytest.mark.parametrize("config", CONFIGS[::3])
def test_active_parameters_leave_out_the_experts_that_a_token_does_not_pass(config):
    model, idle = ModernDecoder(config), []

    def note(expert, inputs, output):
        if not len(inputs[0]):
            idle.append(expert)

    experts = [expert for m in all_of(model, MixtureOfExperts) for expert in m.experts]
    for expert in experts:
        expert.register_forward_hook(note)
    model(torch.tensor([[3]]))
    assert len(experts) - len(idle) == (config.n_layers * config.n_active if experts else 0)
    assert parameters_of(config, active=True).total == size(model) - size(*idle)


def decode(model: ModernDecoder, context: int, batch: int = 1):
    """The caches after so many tokens, one at a time."""
    state = model.start()
    for i in range(context):
        model.step(torch.full((batch,), i % 29), state)
    return state


@pytest.mark.parametrize("context", [1, 4, 5, 6, 13])
@pytest.mark.parametrize("config", CONFIGS[::7])
def test_cache_bytes_are_those_that_the_last_token_attends_to(config, context, monkeypatch):
    model = ModernDecoder(config)
    state = decode(model, context - 1)
    used = []
    for cache, _ in state:
        append = cache.append

        def kept(key, value, append=append):
            pair = append(key, value)
            used.extend(pair)
            return pair

        monkeypatch.setattr(cache, "append", kept)
    model.step(torch.tensor([7]), state)
    assert len(used) == 2 * config.n_layers
    assert cache_bytes(config, context, bytes_per_number=4) == sum(x.nbytes for x in used)
    assert 2 * cache_bytes(config, context) == sum(x.nbytes for x in used)


@pytest.mark.parametrize("context", [1, 4, 5, 13])
@pytest.mark.parametrize("config", CONFIGS[1::7])
def test_cache_bytes_are_those_of_the_caches_after_decoding(config, context):
    state = decode(ModernDecoder(config), context)
    held = sum(x.nbytes for cache, _ in state for x in cache_tensors(cache))
    after = [context if w is None else min(context, w - 1) for w in config.windows]
    assert held == sum(after) * 2 * config.kv_heads * config.d_k * 4
    if config.window is None or context < config.window:
        assert held == cache_bytes(config, context, bytes_per_number=4)


def cache_tensors(cache):
    return (cache._key, cache._value) if isinstance(cache, WindowCache) else cache.read()


@pytest.mark.parametrize("context", [1, 5, 13])
@pytest.mark.parametrize("config", CONFIGS[::5])
def test_flops_are_those_that_torch_counts_in_a_step(config, context):
    model = ModernDecoder(config)
    state = decode(model, context - 1)
    assert count_flops(model.step, torch.tensor([7]), state) == flops_of(config, context).total


@pytest.mark.parametrize("config", CONFIGS[::5])
def test_flops_by_part_are_those_of_the_parts(config):
    """Counted in one token, which attends to itself alone."""
    model, flops = ModernDecoder(config), flops_of(config, 1)
    x = torch.zeros(1, 1, config.d_model)
    attention = sum(count_flops(m, x) for m in all_of(model, MultiHeadAttention))
    assert flops.projections + flops.attention == attention
    assert flops.attention == 4 * config.n_layers * config.n_heads * config.d_k
    mixtures = all_of(model, MixtureOfExperts)
    networks = mixtures or all_of(model, FeedForward)
    assert flops.feed_forward + flops.router == sum(count_flops(m, x) for m in networks)
    assert flops.router == sum(count_flops(m.router, x) for m in mixtures)
    assert flops.logits == count_flops(model.projection, x)


@pytest.mark.parametrize("config", [c for c in CONFIGS if c.window is None][::3])
def test_a_pass_over_all_tokens_costs_as_many_times_the_last_one(config):
    model, context = ModernDecoder(config), 19
    tokens = torch.arange(context)[None] % 29
    assert count_flops(model, tokens) == context * flops_of(config, context).total


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: cache_bytes(c, 0), "expected context to be a whole number above 0, got 0"),
        (lambda c: cache_bytes(c, 3, bytes_per_number=0), "expected bytes_per_number to be a"),
        (lambda c: flops_of(c, 2.5), "expected context to be a whole number above 0, got 2.5"),
        (lambda c: flops_of(c, True), "expected context to be a whole number above 0, got True"),
    ],
)
def test_wrong_sizes_are_explained(call, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        call(CONFIGS[0])
