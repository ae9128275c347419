"""Equal to transformers' own models of LLaMA's family, in random configurations.

transformers computes norms, rotations, router and softmax in float32, whatever the model's type.
To compare formulas and not roundings, `in_float64` lets it compute these in float64.
"""

import contextlib
import importlib
import random
from types import ModuleType

import pytest
import torch

from chapters.modern_block.experts import load_balancing_loss, router_logits
from chapters.modern_block.llama import DESIGNS, load_llama, save_llama
from tests.helpers import assert_close

transformers = pytest.importorskip("transformers", reason="needs the package transformers")
SEEDS, OFTEN, FEW = range(24), range(12), range(4)  # of each design; the slow run tries all


def models(often):
    """Every design with every seed: with these each time, with the others in the slow run."""
    cases = [
        pytest.param(kind, seed, marks=[] if seed in often else pytest.mark.slow)
        for kind in DESIGNS
        for seed in SEEDS
    ]
    return pytest.mark.parametrize(("kind", "seed"), cases)


FEW_MODELS = pytest.mark.parametrize(("kind", "seed"), [(k, s) for k in DESIGNS for s in (0, 3)])
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROTATIONS = (
    {"rope_type": "default"},
    {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": 32},
    {"rope_type": "linear", "factor": 3.0},
)
FULL, SLIDING = "full_attention", "sliding_attention"


class Double(ModuleType):
    """torch, but for the names of float32, which stand for float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_float64():
    names = [f"models.{kind}.modeling_{kind}" for kind in DESIGNS]
    with pytest.MonkeyPatch.context() as patch:
        for name in (*names, "modeling_rope_utils"):
            module = importlib.import_module(f"transformers.{name}")
            patch.setattr(module, "torch", Double("torch"))
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def settings_of(kind, seed):
    """A random configuration; heads, their groups, rotation, ties and windows go round."""
    choose = random.Random(f"{kind} {seed}")
    n_heads = (6, 5, 1, 9, 7, 8, 3, 4)[seed % 8]
    shared = [n for n in range(1, n_heads + 1) if n_heads % n == 0]
    wide = n_heads * choose.choice([4, 6, 10])
    settings = {
        "vocab_size": choose.choice([29, 31, 37]),
        "hidden_size": wide if kind == "llama" or seed % 2 else 22,
        "intermediate_size": choose.choice([17, 41]),
        "num_hidden_layers": choose.choice([1, 2, 3, 4]),
        "num_attention_heads": n_heads,
        "num_key_value_heads": choose.choice(shared),
        "head_dim": choose.choice([2, 8, 14]),
        "rms_norm_eps": choose.choice([1e-6, 1e-5, 1e-2]),
        "rope_parameters": ROTATIONS[seed % 3] | {"rope_theta": choose.choice([1e2, 1e4, 1e6])},
        "tie_word_embeddings": seed % 5 < 2,
        "max_position_embeddings": 64,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if kind == "mixtral":
        experts = choose.choice([1, 2, 3, 5, 8])
        settings["num_local_experts"] = experts
        settings["num_experts_per_tok"] = choose.randint(1, min(experts, 3))
    if kind != "llama":
        settings["sliding_window"] = (None, 3, 7, 1)[choose.randrange(4)]
    if kind.startswith("qwen") and settings["sliding_window"] is not None:
        every = choose.choice([1, 2, 3, 9])
        settings["use_sliding_window"] = True
        layers = range(1, settings["num_hidden_layers"] + 1)
        settings["layer_types"] = [SLIDING if i % every else FULL for i in layers]
    return settings


def reference(kind, seed, dtype):
    """Their model with random parameters, those of the norms around 1, in evaluation mode."""
    name = DESIGNS[kind].architecture.removesuffix("ForCausalLM")
    config = getattr(transformers, f"{name}Config")(
        **settings_of(kind, seed), attn_implementation="eager", experts_implementation="eager"
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter_name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.2
        parameter.data = (noise + ("norm" in parameter_name)).to(dtype)
    return model


def text_of(seed):
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    return torch.randint(29, (3, choose.choice([5, 11, 23])), generator=generator)


@torch.no_grad()
@models(OFTEN)
def test_equal_in_float32_and_written_back_bit_for_bit(kind, seed, tmp_path):
    """In one pass, in chunks and with the cache; then the folder that we write, read by them."""
    theirs, text = reference(kind, seed, torch.float32), text_of(seed)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, wanted = load_llama(tmp_path / "theirs"), theirs(text).logits
    assert_same_logits(ours, text, wanted, 1e-5)
    save_llama(ours, tmp_path / "ours")
    again = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", attn_implementation="eager", experts_implementation="eager"
    )
    before, after = theirs.state_dict(), again.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(again.eval()(text).logits, wanted)


@torch.no_grad()
@models(FEW)
def test_equal_in_float64(kind, seed, tmp_path):
    with in_float64():
        theirs = reference(kind, seed, torch.float64)
        theirs.save_pretrained(tmp_path)
        text = text_of(seed)
        wanted = theirs(text).logits
    assert_same_logits(load_llama(tmp_path, dtype=torch.float64), text, wanted, 1e-10)


def assert_same_logits(ours, text, wanted, tolerance):
    """Within the tolerance of the largest logit: in one pass, in chunks, token by token."""
    scale = wanted.abs().max().item()
    assert_close(ours(text) / scale, wanted / scale, tolerance)
    a, b = text.shape[1] // 3, text.shape[1] // 3 + 2
    state = ours.start()
    logits = [ours(text[:, :a], state), ours(text[:, a:b], state)]
    for token in text[:, b:].T:
        said, _, state = ours.step(token, state)
        logits.append(said[:, None])
    assert_close(torch.cat(logits, dim=1) / scale, wanted / scale, tolerance)


def test_the_configurations_cover_what_they_should():
    assert len(DESIGNS) * len(OFTEN) >= 60
    for kind in DESIGNS:
        for seeds in (FEW, OFTEN, SEEDS):
            drawn = [settings_of(kind, seed) for seed in seeds]
            assert {s["rope_parameters"]["rope_type"] for s in drawn} == {
                "default", "linear", "llama3"}  # fmt: skip
            assert {s["tie_word_embeddings"] for s in drawn} == {True, False}
            odd = {s["num_attention_heads"] for s in drawn if s["num_attention_heads"] % 2}
            assert odd == ({1, 5, 9} if seeds == FEW else {1, 3, 5, 7, 9})
        groups = {s["num_attention_heads"] // s["num_key_value_heads"] for s in drawn}
        assert len(groups) >= 4
        assert {s["head_dim"] for s in drawn} == {2, 8, 14}
        assert len({s["rms_norm_eps"] for s in drawn}) == 3
        if kind != "llama":
            assert {s["sliding_window"] for s in drawn} == {None, 1, 3, 7}
            assert any(s["hidden_size"] % s["num_attention_heads"] for s in drawn)
        if kind.startswith("qwen"):
            assert any(set(s.get("layer_types", ())) == {FULL, SLIDING} for s in drawn)
        if kind == "mixtral":
            assert {s["num_local_experts"] for s in drawn} == {1, 2, 3, 5, 8}
            assert {s["num_experts_per_tok"] for s in drawn} == {1, 2, 3}


@torch.no_grad()
@FEW_MODELS
def test_shards_are_read_as_one_file_is(kind, seed, tmp_path):
    theirs = reference(kind, seed, torch.float32)
    theirs.save_pretrained(tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size="5KB")
    assert len(list((tmp_path / "many").glob("model-*.safetensors"))) > 2
    one, many = (load_llama(tmp_path / name).state_dict() for name in ("one", "many"))
    assert list(one) == list(many)
    assert all(torch.equal(one[name], many[name]) for name in one)


@torch.no_grad()
@FEW_MODELS
def test_greedy_generation(kind, seed, tmp_path):
    theirs, text = reference(kind, seed, torch.float32), text_of(seed)
    theirs.save_pretrained(tmp_path)
    # With a window of 1 and its cache, transformers writes something else than without the cache.
    cached = settings_of(kind, seed).get("sliding_window") != 1
    wanted = theirs.generate(
        text,
        attention_mask=torch.ones_like(text),
        max_new_tokens=13,
        do_sample=False,
        use_cache=cached,
    )
    ours = load_llama(tmp_path)
    state = ours.start()
    logits, found = ours(text, state)[:, -1], [text]
    for _ in range(13):
        token = logits.argmax(dim=-1)
        found.append(token[:, None])
        logits, _, state = ours.step(token, state)
    assert torch.equal(torch.cat(found, dim=1), wanted)


@pytest.mark.parametrize("seed", FEW)
def test_gradients_and_the_balancing_loss_of_a_whole_model(seed, tmp_path):
    with in_float64():
        theirs, text = reference("mixtral", seed, torch.float64), text_of(seed)
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


UNSUPPORTED = (
    "Arcee", "Cohere", "DeepseekV3", "Falcon", "Gemma", "Gemma2", "Gemma3Text", "Glm4", "GPTNeoX",
    "GptOss", "Granite", "MiniMax", "Ministral", "Nemotron", "Olmo", "Olmo2", "Olmoe", "Phi",
    "Phi3", "Qwen2Moe", "Qwen3Moe", "Qwen3Next", "SmolLM3", "StableLm", "Starcoder2",
)  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_another_design_is_refused_by_name(name, tmp_path):
    """Each has its own norms, activations or positions, though many have LLaMA's tensors' names."""
    config = getattr(transformers, f"{name}Config")()
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"model_type out of .* got '{config.model_type}'; this"):
        load_llama(tmp_path)


SCALED = {"rope_theta": 1e4, "factor": 4.0}
UNSUPPORTED_SETTINGS = (
    ("llama", "hidden_act 'silu', got 'gelu'", {"hidden_act": "gelu"}),
    ("llama", "attention_bias False, got True", {"attention_bias": True}),
    ("llama", "mlp_bias False, got True", {"mlp_bias": True}),
    ("qwen3", "attention_bias False, got True", {"attention_bias": True}),
    ("mistral", "rope_type .* got {.*'yarn'", {"rope_parameters": SCALED | {"rope_type": "yarn"}}),
    ("llama", "got {.*'dynamic'", {"rope_parameters": SCALED | {"rope_type": "dynamic"}}),
    (
        "qwen2",
        "got {.*'longrope'",
        {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0,
         "short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
         "original_max_position_embeddings": 32}},
    ),
    (
        "llama",
        "got {.*'partial_rotary_factor': 0.5",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
         "partial_rotary_factor": 0.5}},
    ),
    ("qwen2", "layer_types with .* got .*full_attention', 'sliding_attention'", {
        "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2,
        "num_hidden_layers": 4}),
    ("qwen3", "quantization_config of 'fp8'; .* in bfloat16", {
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "settings"), UNSUPPORTED_SETTINGS)
def test_a_setting_without_a_module_is_refused_by_name(kind, message, settings, tmp_path):
    name = DESIGNS[kind].architecture.removesuffix("ForCausalLM")
    getattr(transformers, f"{name}Config")(**settings).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_llama(tmp_path)


@pytest.mark.parametrize("kind", DESIGNS)
def test_what_a_config_leaves_out_is_what_transformers_takes(kind):
    """For `usual` and `needed` of each design, against the defaults of its class."""
    design, sizes = DESIGNS[kind], {"hidden_size": 40, "num_attention_heads": 8}
    name = design.architecture.removesuffix("ForCausalLM")
    theirs = getattr(transformers, f"{name}Config")(**sizes, num_hidden_layers=30)
    said = theirs.to_dict() | {"rope_theta": theirs.rope_parameters["rope_theta"]}
    assert theirs.rope_parameters["rope_type"] == "default"
    for setting, value in (design.usual | design.needed).items():
        if setting in said and setting != "sliding_window":
            follows = {"head_dim": 5, "num_key_value_heads": 8}.get(setting)  # other sizes
            assert said[setting] in ((None, follows) if value is None else (value,)), setting
    window = (
        design.usual["sliding_window"] if design.usual.get("use_sliding_window", True) else None
    )
    assert said.get("sliding_window") == window
