"""Equal to transformers' own LlamaForCausalLM and MixtralForCausalLM, in random configurations.

transformers computes norms, rotations, router and softmax in float32, whatever the model's type.
To compare formulas and not roundings, `in_float64` lets it compute these in float64.
"""

import contextlib
import random
from types import ModuleType

import pytest
import torch

from chapters.modern_block.experts import load_balancing_loss, router_logits
from chapters.modern_block.llama import load_llama, save_llama
from tests.helpers import assert_close

transformers = pytest.importorskip("transformers", reason="needs the package transformers")
PRECISIONS = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=["32", "64"]
)
LLAMAS, MIXTRALS = range(32), range(100, 132)
EVERY_MODEL = pytest.mark.parametrize("seed", [*LLAMAS, *MIXTRALS])


class Double(ModuleType):
    """torch, but for the names of float32, which stand for float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_float64():
    from transformers.models.llama import modeling_llama
    from transformers.models.mixtral import modeling_mixtral

    with pytest.MonkeyPatch.context() as patch:
        for module in (modeling_llama, modeling_mixtral):
            patch.setattr(module, "torch", Double("torch"))
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def settings_of(seed):
    """A random configuration: each grouping of heads, base, tie, head_dim and window comes up."""
    choose = random.Random(seed)
    n_heads = choose.choice([4, 8])
    settings = {
        "vocab_size": choose.choice([29, 31, 37]),
        "hidden_size": n_heads * choose.choice([6, 10]),
        "intermediate_size": choose.choice([17, 41]),
        "num_hidden_layers": choose.choice([1, 2, 3]),
        "num_attention_heads": n_heads,
        "num_key_value_heads": (1, 2, 4, n_heads)[seed % 4],
        "head_dim": choose.choice([None, 2, 8, 14]),
        "rms_norm_eps": choose.choice([1e-6, 1e-5, 1e-2]),
        "rope_parameters": {"rope_type": "default", "rope_theta": (1e4, 5e5, 1e6)[seed % 3]},
        "tie_word_embeddings": seed % 5 < 2,
        "max_position_embeddings": 64,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if seed in MIXTRALS:
        experts = choose.choice([1, 2, 3, 5, 8])
        settings |= {
            "num_local_experts": experts,
            "num_experts_per_tok": choose.randint(1, min(experts, 3)),
            "sliding_window": (None, 1, 3, 7)[choose.randrange(4)],
        }
    return settings


def reference(seed, dtype):
    """Their model with random parameters, those of the norms around 1, in evaluation mode."""
    kind = "Llama" if seed in LLAMAS else "Mixtral"
    config = getattr(transformers, f"{kind}Config")(
        **settings_of(seed), attn_implementation="eager", experts_implementation="eager"
    )
    model = getattr(transformers, f"{kind}ForCausalLM")(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.2
        parameter.data = (noise + (parameter.dim() == 1)).to(dtype)
    return model


def text_of(seed):
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    return torch.randint(29, (3, choose.choice([2, 11, 23])), generator=generator)


def exact(dtype):
    return in_float64() if dtype == torch.float64 else contextlib.nullcontext()


@torch.no_grad()
@PRECISIONS
@EVERY_MODEL
def test_logits_with_and_without_the_cache(seed, dtype, tolerance, tmp_path):
    with exact(dtype):
        theirs = reference(seed, dtype)
        theirs.save_pretrained(tmp_path)
        text = text_of(seed)
        wanted = theirs(text).logits
    ours = load_llama(tmp_path, dtype=dtype)
    scale = wanted.abs().max().item()
    assert_close(ours(text) / scale, wanted / scale, tolerance)
    first, state = text.shape[1] // 2, ours.start()
    logits = [ours(text[:, :first], state)]
    for token in text[:, first:].T:
        said, _, state = ours.step(token, state)
        logits.append(said[:, None])
    assert_close(torch.cat(logits, dim=1) / scale, wanted / scale, tolerance)


def test_the_configurations_cover_what_they_should():
    for seeds in (LLAMAS, MIXTRALS):
        drawn = [settings_of(seed) for seed in seeds]
        assert len(drawn) >= 30
        groups = {(s["num_key_value_heads"], s["num_attention_heads"]) for s in drawn}
        assert groups == {(k, n) for n in (4, 8) for k in (1, 2, 4, n)}
        assert {s["rope_parameters"]["rope_theta"] for s in drawn} == {1e4, 5e5, 1e6}
        assert {s["tie_word_embeddings"] for s in drawn} == {True, False}
        assert {s["head_dim"] for s in drawn} == {None, 2, 8, 14}
        assert len({s["rms_norm_eps"] for s in drawn}) == 3
    assert {s["num_local_experts"] for s in drawn} == {1, 2, 3, 5, 8}
    assert {s["num_experts_per_tok"] for s in drawn} == {1, 2, 3}
    assert {s["sliding_window"] for s in drawn} == {None, 1, 3, 7}


@torch.no_grad()
@pytest.mark.parametrize("seed", [*LLAMAS[:6], *MIXTRALS[:6]])
def test_there_and_back_bit_for_bit(seed, tmp_path):
    theirs, text = reference(seed, torch.float32), text_of(seed)
    theirs.save_pretrained(tmp_path / "theirs")
    save_llama(load_llama(tmp_path / "theirs"), tmp_path / "ours")
    again = type(theirs).from_pretrained(
        tmp_path / "ours", attn_implementation="eager", experts_implementation="eager"
    )
    before, after = theirs.state_dict(), again.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(again.eval()(text).logits, theirs(text).logits)


@torch.no_grad()
@pytest.mark.parametrize("seed", [*LLAMAS[:4], *MIXTRALS[:4]])
def test_greedy_generation(seed, tmp_path):
    theirs, text = reference(seed, torch.float32), text_of(seed)
    theirs.save_pretrained(tmp_path)
    wanted = theirs.generate(
        text, attention_mask=torch.ones_like(text), max_new_tokens=13, do_sample=False
    )
    ours = load_llama(tmp_path)
    state = ours.start()
    logits, found = ours(text, state)[:, -1], [text]
    for _ in range(13):
        token = logits.argmax(dim=-1)
        found.append(token[:, None])
        logits, _, state = ours.step(token, state)
    assert torch.equal(torch.cat(found, dim=1), wanted)


@pytest.mark.parametrize("seed", MIXTRALS[:5])
def test_gradients_and_the_balancing_loss_of_a_whole_model(seed, tmp_path):
    with in_float64():
        theirs, text = reference(seed, torch.float64), text_of(seed)
        theirs.save_pretrained(tmp_path)
        said = theirs(text, labels=text, output_router_logits=True)
        said.loss.backward()
    ours = load_llama(tmp_path, dtype=torch.float64)
    with router_logits(ours) as found:
        logits = ours(text)
    balance = load_balancing_loss(torch.stack(found), ours.config.n_active)
    assert_close(balance, said.aux_loss, 1e-6)  # which they sum in float32
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten())
    (loss + theirs.config.router_aux_loss_coef * balance).backward()
    for name, part in (
        ("embedding", theirs.model.embed_tokens),
        ("decoder.layers.0.self_attention.sublayer.w_v", theirs.model.layers[0].self_attn.v_proj),
        ("decoder.layers.0.feed_forward.sublayer.router", theirs.model.layers[0].mlp.gate),
    ):
        wanted = part.weight.grad
        got = ours.get_submodule(name).weight.grad
        scale = max(wanted.abs().max().item(), 1e-3)
        assert_close(got / scale, wanted / scale, 1e-7)
