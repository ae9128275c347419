"""Folders of LLaMA's family: what is refused, what is written, and where each number goes."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from chapters.modern_block.decoder import ModernDecoder, paper_2017, today
from chapters.modern_block.llama import (
    DESIGNS,
    config_of,
    halves_to_pairs,
    llama_names,
    load_llama,
    pairs_to_halves,
    save_llama,
)
from chapters.modern_block.rotation import Scaling
from lib.positions import Rotary
from measure.costs import parameters_of
from tests.helpers import assert_close, normal, unchecked

SMALL = {"d_model": 24, "n_layers": 2, "n_heads": 6, "d_ff": 37}
LLAMA = today(29, **SMALL, n_kv_heads=2, head_dim=10, rope_base=5e5, norm_eps=1e-6, max_length=61)
MIXTRAL = replace(LLAMA, n_experts=3, n_active=2, window=5, tied=True)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 31}  # fmt: skip
QWEN3 = replace(LLAMA, qk_norm=True, window=5, full_every=2, n_layers=3, n_heads=5, n_kv_heads=1)
KINDS = {
    "llama": LLAMA,
    "llama, slowed": replace(LLAMA, rope_scaling=Scaling(4.0)),
    "llama, slowed in part": replace(LLAMA, rope_scaling=Scaling(8.0, 1.0, 4.0, 31)),
    "mistral": replace(LLAMA, window=5),
    "mistral, 7 heads": replace(LLAMA, n_heads=7, n_kv_heads=7),
    "mixtral": MIXTRAL,
    "qwen2": replace(LLAMA, qkv_bias=True),
    "qwen3": QWEN3,
}
BOTH = pytest.mark.parametrize("config", [LLAMA, MIXTRAL], ids=["llama", "mixtral"])
EVERY_KIND = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)


def made(config, dtype=torch.float32):
    torch.manual_seed(0)
    model = ModernDecoder(config)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # gains of 1 and biases of 0 would hide an order
            parameter.data += torch.randn_like(parameter) / 5
    return model.to(dtype).eval()


def change(folder, settings=None, weights=lambda w: w):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | (settings or {})
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "nothing"}))
    save_file(weights(load_file(folder / "model.safetensors")), folder / "model.safetensors")


@EVERY_KIND
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_written_and_read_it_is_the_same_model(config, tied, dtype, tmp_path):
    model = made(replace(config, tied=tied), dtype)
    save_llama(model, tmp_path / "a" / "model")
    assert sorted(p.name for p in (tmp_path / "a" / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    again = load_llama(tmp_path / "a" / "model", dtype=dtype)
    assert not again.training
    sizes = {"n_kv_heads": config.kv_heads, "head_dim": config.d_k}
    assert again.config == replace(model.config, **sizes)
    before, after = model.state_dict(), again.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (again.projection.weight is again.embedding.weight) == tied
    save_llama(again, tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a/model" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@EVERY_KIND
def test_names_cover_each_parameter_once(config):
    for tied in (True, False):
        names = llama_names(replace(config, tied=tied))
        ours = set(made(replace(config, tied=tied)).state_dict())
        assert set(names) == ours - ({"projection.weight"} if tied else set())
        assert len(set(names.values())) == len(names)


def test_pairs_and_halves_by_hand():
    rows = torch.arange(12.0)[:, None]  # two heads of 6 rows
    halves = [0, 3, 1, 4, 2, 5]
    wanted = [*halves, *(6 + i for i in halves)]
    assert halves_to_pairs(rows, 6).flatten().tolist() == wanted
    assert torch.equal(pairs_to_halves(halves_to_pairs(rows, 6), 6), rows)
    assert torch.equal(halves_to_pairs(rows, 2), rows)


def test_turned_halves_are_turned_pairs():
    """Rotating halves by its formula, then moving the entries, is our rotation of moved entries."""
    x = normal(3, 7, 10)  # (heads, time, d_k)
    rotary, angle = Rotary(10, base=50.0), torch.arange(7.0, dtype=torch.float64)[:, None]
    angle = angle / 50.0 ** (torch.arange(0, 10, 2, dtype=torch.float64) / 10)  # (time, d_k / 2)
    a, b = x.chunk(2, dim=-1)
    halves = torch.cat(
        (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), dim=-1
    )

    def moved(x):
        return halves_to_pairs(x.mT.flatten(0, 1), 10).unflatten(0, (3, 10)).mT.contiguous()

    assert_close(rotary.double().rotate(moved(x)), moved(halves), 1e-12)


@pytest.mark.parametrize(("name", "config"), KINDS.items())
def test_the_first_design_that_can_hold_a_model_is_written(name, config, tmp_path):
    save_llama(made(config), tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    assert said["model_type"] == name.split(",")[0]
    assert said["architectures"] == [DESIGNS[said["model_type"]].architecture]


LLAMA_3_2 = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128_256,
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
    "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True,
    "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False, "hidden_act": "silu",
    "pretraining_tp": 1,
}  # fmt: skip
MISTRAL_V3 = {
    "model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 32_768,
    "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None, "attention_dropout": 0.0,
    "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
QWEN2_5 = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151_936,
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "sliding_window": 32_768, "max_window_layers": 24,
    "use_sliding_window": False, "use_mrope": False, "attention_dropout": 0.0,
    "hidden_act": "silu", "tie_word_embeddings": True,
}  # fmt: skip
QWEN_3 = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151_936,
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6, "rope_theta": 1_000_000, "rope_scaling": None, "sliding_window": None,
    "max_window_layers": 28, "use_sliding_window": False, "attention_bias": False,
    "attention_dropout": 0.0, "hidden_act": "silu", "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "parameters", "window", "scaling"),
    [
        (LLAMA_3_2, 1_235_814_400, None, (32.0, 1.0, 4.0, 8192)),
        (MISTRAL_V3, 7_248_023_552, None, None),
        (MISTRAL_V3 | {"vocab_size": 32_000, "sliding_window": 4096}, 7_241_732_096, 4096, None),
        (QWEN2_5, 494_032_768, None, None),
        (QWEN_3, 596_049_920, None, None),
    ],
    ids=["Llama 3.2 1B", "Mistral 7B, third version", "Mistral 7B", "Qwen2.5 0.5B", "Qwen3 0.6B"],
)
def test_published_configurations_are_read_and_counted(said, parameters, window, scaling, tmp_path):
    """As their publishers count: a matrix, a bias or a norm too few or too many would show."""
    (tmp_path / "config.json").write_text(json.dumps(said))
    config = config_of(tmp_path)
    assert parameters_of(config).total == parameters
    assert set(config.windows) == {window}
    assert config.rope_scaling == (None if scaling is None else Scaling(*scaling))
    with pytest.raises(ValueError, match=r"expected a file .*model\.safetensors, got no such"):
        load_llama(tmp_path)


def test_a_stored_order_of_layers_with_and_without_a_window(tmp_path):
    model = made(QWEN3)
    full, sliding = "full_attention", "sliding_attention"
    for settings, windows in (
        ({}, (5, None, 5)),
        ({"layer_types": [full] * 3}, (None,) * 3),
        ({"layer_types": [sliding] * 3}, (5,) * 3),
        ({"layer_types": [sliding, sliding, full]}, (5, 5, None)),
        ({"use_sliding_window": False}, (None,) * 3),
        ({"layer_types": None, "max_window_layers": 0}, (5,) * 3),
        ({"layer_types": "nothing"}, (None,) * 3),  # 28 layers without one, from the first
    ):
        save_llama(model, tmp_path)
        change(tmp_path, settings)
        assert load_llama(tmp_path).config.windows == windows
    for settings in (
        {"layer_types": [full, sliding, sliding]},
        {"layer_types": None, "max_window_layers": 1},
        {"layer_types": [sliding]},
        {"layer_types": "sliding"},
    ):
        save_llama(model, tmp_path)
        change(tmp_path, settings)
        with pytest.raises(ValueError, match="expected layer_types with full_attention in every"):
            load_llama(tmp_path)


def test_what_older_and_newer_configs_say_otherwise(tmp_path):
    model = made(LLAMA)
    save_llama(model, tmp_path)
    wanted = model(torch.arange(7)[None])
    for settings in (
        {"rope_theta": "nothing"},
        {"rope_parameters": "nothing"},
        {"rope_parameters": None, "rope_scaling": None, "sliding_window": None},
        {"architectures": "nothing", "attention_bias": "nothing", "mlp_bias": "nothing"},
        {"attention_dropout": 0, "pretraining_tp": 1, "use_cache": True},
    ):
        save_llama(model, tmp_path)
        change(tmp_path, settings)
        assert torch.equal(load_llama(tmp_path)(torch.arange(7)[None]), wanted)
    change(
        tmp_path, {}, lambda w: w | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(5)}
    )
    assert torch.equal(load_llama(tmp_path)(torch.arange(7)[None]), wanted)


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path):
    left_out = ("rope_theta", "rope_parameters", "rms_norm_eps", "num_key_value_heads", "head_dim",
                "tie_word_embeddings", "max_position_embeddings")  # fmt: skip
    plain = replace(LLAMA, n_kv_heads=6, head_dim=4)
    save_llama(made(plain), tmp_path)
    change(tmp_path, dict.fromkeys(left_out, "nothing"))
    wanted = replace(plain, rope_base=1e4, norm_eps=1e-6, max_length=2048)
    assert load_llama(tmp_path).config == replace(wanted, n_kv_heads=None, head_dim=None)
    left_out = (*left_out, "sliding_window", "num_local_experts", "num_experts_per_tok")
    plain = replace(
        MIXTRAL, tied=False, n_heads=8, n_kv_heads=8, head_dim=4, n_experts=8, d_model=32
    )
    save_llama(made(plain), tmp_path)
    change(tmp_path, dict.fromkeys(left_out, "nothing"))
    found = load_llama(tmp_path).config
    assert found == replace(
        plain, rope_base=1e6, norm_eps=1e-5, max_length=131_072, head_dim=None, window=None
    )


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (LLAMA, {"model_type": "nothing"}, "model_type out of llama, mistral, .*, got None"),
        (LLAMA, {"model_type": ["llama"]}, r"model_type out of .* got \['llama'\]"),
        (LLAMA, {"model_type": "mixtral"}, "architectures .*Mixtral.* got .*LlamaForCausalLM"),
        (LLAMA, {"architectures": ["LlamaModel"]}, r"architectures .* got \['LlamaModel'\]"),
        (LLAMA, {"hidden_act": "gelu"}, "hidden_act 'silu', got 'gelu'"),
        (LLAMA, {"attention_bias": True}, "attention_bias False, got True"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias False, got True"),
        (LLAMA, {"attention_dropout": 0.1}, "attention_dropout 0.0, got 0.1"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.0}}, "_scaling to say the same"),
        (LLAMA, {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "low_freq.* got None"),
        (LLAMA, {"rope_parameters": {"rope_type": "linear"}}, "expected factor as one .* got None"),
        (LLAMA, {"rope_parameters": LLAMA3 | {"factor": "8"}}, "factor as one number .* got '8'"),
        (LLAMA, {"rope_parameters": LLAMA3 | {"low_freq_factor": 4.0}}, "below high_freq_factor"),
        (LLAMA, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "but its own, got {'pa"),
        (LLAMA, {"rope_parameters": "default"}, "of rope_type .* got 'default'"),
        (LLAMA, {"rope_theta": 7.0}, "one number above 0, got 500000.0 and 7.0"),
        (LLAMA, {"rope_theta": [1], "rope_parameters": None}, r"above 0, got \[1\]"),
        (LLAMA, {"rope_theta": 0, "rope_parameters": None}, "above 0, got 0"),
        (LLAMA, {"rope_theta": 10**400, "rope_parameters": None}, "above 0, got 1000"),
        (LLAMA, {"rope_theta": float("inf"), "rope_parameters": None}, "above 0, got inf"),
        (LLAMA, {"num_hidden_layers": 10**9}, "expected 1,000,000,000 layers and experts, got 21"),
        (MIXTRAL, {"num_local_experts": 10**9}, "layers and experts, got "),
        (LLAMA, {"intermediate_size": 10**30}, "expected smaller sizes, got"),
        (LLAMA, {"quantization_config": {"bits": 4}}, "quantization_config of {'bits': 4}"),
        (LLAMA, {"sliding_window": 5}, "sliding_window None, got 5"),
        (LLAMA, {"head_dim": 5}, "an even d_k for rotary positions, got 5"),
        (LLAMA, {"head_dim": "10"}, "head_dim as a whole number above 0, got '10'"),
        (LLAMA, {"head_dim": None}, r"q_proj.weight of shape \(24, 24\), got \(60, 24\)"),
        (LLAMA, {"num_attention_heads": 5}, "n_kv_heads to divide n_heads"),
        (LLAMA, {"num_attention_heads": None}, "num_attention_heads as a whole number .* None"),
        (LLAMA, {"num_key_value_heads": 3}, r"k_proj.weight of shape \(30, 24\), got \(20, 24\)"),
        (LLAMA, {"num_hidden_layers": 3}, r"expected a tensor model\.layers\.2\..* \(9 missing"),
        (LLAMA, {"num_hidden_layers": 1}, r"no tensor model\.layers\.1\..* \(9 left over"),
        (LLAMA, {"intermediate_size": 38}, r"gate_proj.weight of shape \(38, 24\), got \(37, 24\)"),
        (LLAMA, {"vocab_size": 31}, r"embed_tokens.weight of shape \(31, 24\), got \(29, 24\)"),
        (LLAMA, {"rms_norm_eps": "0"}, "rms_norm_eps as a number .* got '0'"),
        (LLAMA, {"tie_word_embeddings": None}, "tie_word_embeddings true or false, got None"),
        (MIXTRAL, {"tie_word_embeddings": False}, r"expected a tensor lm_head\.weight"),
        (MIXTRAL, {"num_local_experts": 4}, r"experts\.3\.w1\.weight, got none \(6 missing"),
        (MIXTRAL, {"num_local_experts": 2}, r"no tensor .*experts\.2\.w1\.weight.* \(6 left"),
        (MIXTRAL, {"num_experts_per_tok": 4}, "n_active=4 and n_experts=3"),
        (MIXTRAL, {"router_jitter_noise": 0.1}, "router_jitter_noise 0.0, got 0.1"),
        (MIXTRAL, {"sliding_window": 0}, "sliding_window as a whole number above 0, got 0"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_named(config, settings, message, tmp_path, monkeypatch):
    save_llama(made(config), tmp_path)
    change(tmp_path, settings)
    built = []
    real = ModernDecoder.__init__

    def spy(self, config):
        real(self, config)
        built.append(self.embedding.weight.device.type)

    monkeypatch.setattr(ModernDecoder, "__init__", spy)
    with unchecked(), pytest.raises(ValueError, match=message):
        load_llama(tmp_path)
    assert set(built) <= {"meta"}  # no model is built before all is known to fit


@BOTH
def test_a_tied_head_that_is_stored_beside_is_read_only_if_it_is_the_same(config, tmp_path):
    save_llama(made(replace(config, tied=True)), tmp_path)
    matrix = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    change(tmp_path, weights=lambda w: w | {"lm_head.weight": matrix.clone()})
    model = load_llama(tmp_path)
    assert torch.equal(model.projection.weight, matrix)
    change(tmp_path, weights=lambda w: w | {"lm_head.weight": matrix + 0.1})
    with pytest.raises(ValueError, match=r"expected lm_head.weight to be model.embed_tokens"):
        load_llama(tmp_path)


@BOTH
def test_a_tensor_missing_left_over_or_of_another_shape(config, tmp_path):
    save_llama(made(config), tmp_path)
    name = "model.layers.1.self_attn.o_proj.weight"
    whole = load_file(tmp_path / "model.safetensors")
    for weights, message in (
        ({k: v for k, v in whole.items() if k != name}, rf"expected a tensor {name}, got none"),
        (whole | {"model.layers.1.extra": torch.ones(1)}, r"no tensor model\.layers\.1\.extra"),
        (whole | {name: whole[name].T.contiguous()}, r"of shape \(24, 60\), got \(60, 24\)"),
        (whole | {name: whole[name] * torch.nan}, rf"finite real numbers in {name}"),
    ):
        save_file(weights, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            load_llama(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (paper_2017(29, **SMALL), "norm_layer='rms', got 'layer'"),
        (replace(LLAMA, norm="post"), "norm='pre', got 'post'"),
        (replace(LLAMA, activation="gelu"), "activation='swiglu', got 'gelu'"),
        (replace(LLAMA, positions="none"), "positions='rotary', got 'none'"),
        (replace(LLAMA, bias=True), "bias=False, got True"),
        (replace(LLAMA, scaled_embedding=True), "scaled_embedding=False, got True"),
        (replace(LLAMA, window=5, full_every=2), "none of .* and a window in mixed"),
        (replace(MIXTRAL, full_every=2), "got experts and a window in mixed"),
        (replace(MIXTRAL, qk_norm=True), "got experts, qk_norm and a window in every layer"),
        (replace(LLAMA, qk_norm=True, qkv_bias=True), "got qkv_bias, qk_norm and a window in none"),
    ],
)
def test_a_model_that_the_files_cannot_hold_is_refused(config, message, tmp_path):
    with pytest.raises(ValueError, match=f"expected .*{message}"):
        save_llama(made(config), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_writing_leaves_the_old_file_or_the_new(tmp_path, monkeypatch):
    model = made(LLAMA)
    save_llama(model, tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def fail(tensors, path, metadata):
        with open(path, "wb") as stream:
            stream.write(before[:100])
        raise OSError("no space left")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="no space left"):
        save_llama(made(replace(LLAMA, tied=True)), tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    load_llama(tmp_path)
