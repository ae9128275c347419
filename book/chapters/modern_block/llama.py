"""Files of LLaMA's family, read into a `ModernDecoder` and written from one.

LLaMA, Mistral, Mixtral, Qwen2 and Qwen3 are one design with few differences, which `DESIGNS` lists.
A folder in Hugging Face's layout (`config.json`, and `model.safetensors` or its shards) is all that
is needed. Two things differ from the book's modules, and both are exact:

    names      self_attn.q_proj is w_q; gate_proj, up_proj and down_proj are w_1, w_3 and w_2
    rotation   pairs of a head's d_k entries are neighbours here, (0, 1), (2, 3), ...; there they
               come from its halves, (0, d_k / 2), (1, d_k / 2 + 1), ...: rows of W^Q and W^K move,
               and with them entries of their biases and norms

What the book's modules do not have (other rotations, quantised numbers) is refused."""

import json
import sys
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from chapters.modern_block.decoder import BlockConfig, ModernDecoder, today
from chapters.modern_block.rotation import Scaling
from train.checkpoints import write_whole
from train.huggingface import (
    CONFIG,
    WEIGHTS,
    config_file,
    filled,
    flag_of,
    number_of,
    read_config,
    read_weights,
    require,
    require_unquantised,
    size_of,
    without_memory,
)


class Design(NamedTuple):
    """What sets one design of the family apart.

    architecture  the name of Hugging Face's class
    parts         the fields of `BlockConfig` by which a model is of this design
    window        "none", "every layer", or "mixed" with layers that have none
    usual         what a config that leaves it out means, as in Hugging Face's classes
    needed        what a config may leave out, and may not say otherwise
    """

    architecture: str
    parts: dict[str, bool]
    window: str
    usual: dict[str, Any]
    needed: dict[str, Any]


PARTS = {"experts": False, "qkv_bias": False, "qk_norm": False}
USUAL = {
    "head_dim": None,
    "max_position_embeddings": 131_072,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e4,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
QWEN = USUAL | {"max_position_embeddings": 32_768, "num_key_value_heads": 32}
QWEN |= {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
DESIGNS = {
    "llama": Design(
        "LlamaForCausalLM",
        PARTS,
        "none",
        USUAL | {"max_position_embeddings": 2048, "num_key_value_heads": None},
        {"attention_bias": False, "mlp_bias": False, "sliding_window": None, "layer_types": None},
    ),
    "mistral": Design(
        "MistralForCausalLM",
        PARTS,
        "every layer",
        USUAL | {"sliding_window": 4096},
        {"layer_types": None},
    ),
    "mixtral": Design(
        "MixtralForCausalLM",
        PARTS | {"experts": True},
        "every layer",
        USUAL
        | {"rms_norm_eps": 1e-5, "rope_theta": 1e6}
        | {"num_local_experts": 8, "num_experts_per_tok": 2},
        {"router_jitter_noise": 0.0, "layer_types": None},
    ),
    "qwen2": Design("Qwen2ForCausalLM", PARTS | {"qkv_bias": True}, "mixed", QWEN, {}),
    "qwen3": Design(
        "Qwen3ForCausalLM",
        PARTS | {"qk_norm": True},
        "mixed",
        QWEN | {"head_dim": 128},
        {"attention_bias": False},
    ),
}
SCALINGS = {  # what each kind of rotation says beside its base, in the order of `Scaling`
    "default": (),
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}
WINDOWS = {"none": 0, "every layer": 1, "mixed": 2}  # who has room for one has it for those before
FULL, SLIDING = "full_attention", "sliding_attention"  # what layer_types calls them
UNUSED = (".rotary_emb.inv_freq",)  # older files keep what can be computed again
# What belongs to queries and keys, which are rotated.
TURNED = (".w_q.weight", ".w_k.weight", ".w_q.bias", ".w_k.bias", ".q_norm.gain", ".k_norm.gain")


def llama_names(config: BlockConfig) -> dict[str, str]:
    """From the book's name of each parameter of a `ModernDecoder` to the name in a file.

    Source: Touvron et al. 2023, Jiang et al. 2024 and Yang et al. 2025, as stored by Hugging Face.
    """
    names = {
        "embedding.weight": "model.embed_tokens.weight",
        "decoder.norm.gain": "model.norm.weight",
    }
    if not config.tied:
        names["projection.weight"] = "lm_head.weight"
    for i in range(config.n_layers):
        ours, theirs = f"decoder.layers.{i}", f"model.layers.{i}"
        attention, feed = f"{ours}.self_attention", f"{ours}.feed_forward"
        names[f"{attention}.norm.gain"] = f"{theirs}.input_layernorm.weight"
        names[f"{feed}.norm.gain"] = f"{theirs}.post_attention_layernorm.weight"
        for letter in "qkvo":
            there = f"{theirs}.self_attn.{letter}_proj"
            names[f"{attention}.sublayer.w_{letter}.weight"] = f"{there}.weight"
            if config.qkv_bias and letter != "o":
                names[f"{attention}.sublayer.w_{letter}.bias"] = f"{there}.bias"
            if config.qk_norm and letter in "qk":
                there = f"{theirs}.self_attn.{letter}_norm"
                names[f"{attention}.sublayer.{letter}_norm.gain"] = f"{there}.weight"
        if config.n_experts is None:
            for number, word in ((1, "gate"), (2, "down"), (3, "up")):
                there = f"{theirs}.mlp.{word}_proj.weight"
                names[f"{feed}.sublayer.w_{number}.weight"] = there
            continue
        experts = f"{theirs}.block_sparse_moe"
        names[f"{feed}.sublayer.router.weight"] = f"{experts}.gate.weight"
        for j in range(config.n_experts):
            for number in (1, 2, 3):
                here = f"{feed}.sublayer.experts.{j}.w_{number}.weight"
                names[here] = f"{experts}.experts.{j}.w{number}.weight"
    return names


def halves_to_pairs(
    weight: Float[Tensor, "rows *d_model"], d_k: int
) -> Float[Tensor, "rows *d_model"]:
    """Move the rows of each head from halves, (0, d_k / 2), (1, ...), to pairs, (0, 1), (2, ...).

    Shapes: weight (heads * d_k, d_model), or a vector of heads * d_k entries. Returns that shape.
    """
    return weight.unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)


def pairs_to_halves(
    weight: Float[Tensor, "rows *d_model"], d_k: int
) -> Float[Tensor, "rows *d_model"]:
    """The inverse of `halves_to_pairs`: the same numbers, each back in its row."""
    return weight.unflatten(0, (-1, d_k // 2, 2)).transpose(1, 2).flatten(0, 2)


def load_llama(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> ModernDecoder:
    """Load a model of one of the `DESIGNS`, in evaluation mode.

    Errors: ValueError for another kind of model, for one with parts that the book's modules do not
        have, or files that are missing, broken or of others; nothing is built before.
    Source: Touvron et al. 2023 (LLaMA); Jiang et al. 2023 and 2024 (Mistral, Mixtral); Yang et
        al. 2024 and 2025 (Qwen2, Qwen3).
    """
    config = config_of(folder)
    n_blocks = config.n_layers * (config.n_experts or 1)
    ours = without_memory(folder, n_blocks, partial(ModernDecoder, config)).state_dict()
    names = llama_names(config)
    shapes = {theirs: tuple(ours[name].shape) for name, theirs in names.items()}
    copies = {"lm_head.weight": names["embedding.weight"]} if config.tied else {}
    weights = read_weights(folder, shapes, prefix="", unused=UNUSED, copies=copies, dtype=dtype)
    state = {name: weights[theirs] for name, theirs in names.items()}
    for name in state:
        if name.endswith(TURNED):
            state[name] = halves_to_pairs(state[name], config.d_k)
    return filled(ModernDecoder(config).to(dtype), state, tied=config.tied)


def save_llama(model: ModernDecoder, folder: str | Path) -> None:
    """Write a model as a folder that transformers reads as the first of `DESIGNS` that can hold it.

    Dropout, which serves training alone, is not kept. Each file is complete or the old one.

    Errors: ValueError for a model that no design can hold; nothing is written then.
    Source: as in `load_llama`.
    """
    config, folder = model.config, Path(folder)
    dtype = str(model.embedding.weight.dtype).removeprefix("torch.")
    settings = _settings(config) | {"dtype": dtype}
    from safetensors.torch import save_file  # only who saves weights needs safetensors

    state, weights = model.state_dict(), {}
    for name, theirs in llama_names(config).items():
        weight = state[name]
        if name.endswith(TURNED):
            weight = pairs_to_halves(weight, config.d_k)
        weights[theirs] = weight.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, lambda part: save_file(weights, str(part), {"format": "pt"}))
    text = json.dumps(settings, indent=2) + "\n"
    write_whole(folder / CONFIG, lambda part: part.write_text(text, encoding="utf-8"))


def config_of(folder: str | Path) -> BlockConfig:
    """What a folder's config.json describes.

    Errors: ValueError for another kind of model, and for what the book's modules do not have.
    Source: as in `load_llama`.
    """
    found = read_config(folder)
    kind = found.get("model_type")
    design = DESIGNS.get(kind) if isinstance(kind, str) else None
    if design is None:
        wanted = ", ".join(DESIGNS)
        raise ValueError(
            f"{config_file(folder)}: expected a model_type out of {wanted}, got {kind!r}; "
            "this design would need other modules"
        )
    require_unquantised(found, folder)
    require(found, folder, architectures=[design.architecture], hidden_act="silu")
    require(found, folder, attention_dropout=0.0, partial_rotary_factor=1.0, **design.needed)
    given = design.usual | found

    def size(name: str) -> int:
        return size_of(given, name, folder)

    def optional_size(name: str) -> int | None:
        return None if given.get(name) is None else size(name)

    n_layers, experts = size("num_hidden_layers"), design.parts["experts"]
    window = optional_size("sliding_window") if given.get("use_sliding_window", True) else None
    full_every = None
    if design.window == "mixed" and window is not None:
        window, full_every = _mixed(given, n_layers, window, folder)
    rope_base, rope_scaling = _rotation(found, design.usual, folder)
    return today(
        size("vocab_size"),
        d_model=size("hidden_size"),
        n_layers=n_layers,
        n_heads=size("num_attention_heads"),
        n_kv_heads=optional_size("num_key_value_heads"),
        head_dim=optional_size("head_dim"),
        d_ff=size("intermediate_size"),
        norm_eps=number_of(given, "rms_norm_eps", 0.0, folder),
        rope_base=rope_base,
        rope_scaling=rope_scaling,
        qkv_bias=design.parts["qkv_bias"],
        qk_norm=design.parts["qk_norm"],
        window=window,
        full_every=full_every,
        n_experts=size("num_local_experts") if experts else None,
        n_active=size("num_experts_per_tok") if experts else 2,
        tied=flag_of(given, "tie_word_embeddings", False, folder),
        max_length=size("max_position_embeddings"),
    )


def _mixed(
    given: dict[str, Any], n_layers: int, window: int, folder: str | Path
) -> tuple[int | None, int | None]:
    """The window, and every how many layers one has none: what layer_types says layer by layer."""
    kinds = given.get("layer_types")
    if kinds is None:  # then all layers above a number of them have a window
        first = given["max_window_layers"]
        kinds = [FULL if type(first) is int and i < first else SLIDING for i in range(n_layers)]
    for every in (None, *range(1, n_layers + 1)):
        if kinds == _layer_types(n_layers, every):
            return (None, None) if every == 1 else (window, every)
    raise ValueError(
        f"{config_file(folder)}: expected layer_types with {FULL} in every so many layers, the "
        f"last of them, and {SLIDING} in the others, got {str(kinds)[:100]}; another order would "
        "need other modules"
    )


def _layer_types(n_layers: int, full_every: int | None) -> list[str]:
    every = full_every or n_layers + 1
    return [SLIDING if i % every else FULL for i in range(1, n_layers + 1)]


def _rotation(
    found: dict[str, Any], usual: dict[str, Any], folder: str | Path
) -> tuple[float, Scaling | None]:
    """The base of the rotation and how it was slowed.

    Older files say it by rope_theta and rope_scaling, newer ones by rope_parameters, some by both.
    """
    said = [found[name] for name in ("rope_parameters", "rope_scaling") if found.get(name)]
    kind, rest = _kind_of(said[0] if said else {})
    if any(_kind_of(one) != (kind, rest) for one in said):
        raise ValueError(
            f"{config_file(folder)}: expected rope_parameters and rope_scaling to say the same, "
            f"got {' and '.join(map(repr, said))}"
        )
    if kind not in SCALINGS or set(rest) - set(SCALINGS[kind]):
        raise ValueError(
            f"{config_file(folder)}: expected a rotation of rope_type {', '.join(SCALINGS)} with "
            f"no settings but its own, got {said[0]!r}; another rotation would need other modules"
        )
    bases = [one["rope_theta"] for one in (*said, found) if one.get("rope_theta") is not None]
    bases = bases or [usual["rope_theta"]]
    length = "original_max_position_embeddings"
    rest = {length: found.get(length) or (usual | found)["max_position_embeddings"]} | rest
    numbers = {"rope_theta": bases[0]} | {name: rest.get(name) for name in SCALINGS[kind]}
    for name, number in numbers.items():
        numeric = isinstance(number, int | float) and not isinstance(number, bool)
        if not numeric or not 0 < number <= sys.float_info.max:
            raise ValueError(
                f"{config_file(folder)}: expected {name} as one number above 0, got {number!r}"
            )
    if any(base != bases[0] for base in bases):
        raise ValueError(
            f"{config_file(folder)}: expected rope_theta as one number above 0, "
            f"got {' and '.join(map(repr, bases))}"
        )
    base, *scaling = numbers.values()
    if kind == "llama3" and not numbers["low_freq_factor"] < numbers["high_freq_factor"]:
        raise ValueError(
            f"{config_file(folder)}: expected low_freq_factor below high_freq_factor, got {rest!r}"
        )
    return float(base), Scaling(*scaling) if scaling else None


def _kind_of(rotation: Any) -> tuple[Any, dict[str, Any]]:
    """The kind of rotation and what is said of it, but for its base."""
    if not isinstance(rotation, dict):
        return None, {"got": rotation}
    kind = str(rotation.get("rope_type", rotation.get("type", "default")))
    return kind, {k: v for k, v in rotation.items() if k not in ("rope_type", "type", "rope_theta")}


def _settings(config: BlockConfig) -> dict[str, Any]:
    """What config.json says of the model, or a ValueError if no design can hold it."""
    wanted = {"norm": "pre", "norm_layer": "rms", "activation": "swiglu", "positions": "rotary"}
    for name, value in (wanted | {"bias": False, "scaled_embedding": False}).items():
        if (got := getattr(config, name)) != value:
            raise ValueError(
                f"expected a model with {name}={value!r}, got {got!r}; files of LLaMA's family "
                "have no room for it"
            )
    kind = _kind_for(config)
    scaling = config.rope_scaling
    rotation = [] if scaling is None else [n for n in astuple(scaling) if n is not None]
    rope_type = next(name for name, has in SCALINGS.items() if len(has) == len(rotation))
    rope = {"rope_type": rope_type, "rope_theta": config.rope_base}
    rope |= dict(zip(SCALINGS[rope_type], rotation, strict=True))
    settings: dict[str, Any] = {
        "architectures": [DESIGNS[kind].architecture],
        "model_type": kind,
        "vocab_size": config.vocab,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_k,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": rope,
        "rope_theta": config.rope_base,
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,  # which numbers are special is the vocabulary's affair
        "eos_token_id": None,
    }
    if config.n_experts is not None:
        settings["num_local_experts"] = config.n_experts
        settings["num_experts_per_tok"] = config.n_active
    if DESIGNS[kind].window != "none":
        settings["sliding_window"] = config.window
    if DESIGNS[kind].window == "mixed" and config.window is not None:
        settings["use_sliding_window"] = True
        settings["layer_types"] = _layer_types(config.n_layers, config.full_every)
    return settings


def _kind_for(config: BlockConfig) -> str:
    """The first design that holds the model."""
    parts = {"experts": config.n_experts is not None}
    parts |= {"qkv_bias": config.qkv_bias, "qk_norm": config.qk_norm}
    kinds = {window is None for window in config.windows}
    window = "mixed" if len(kinds) > 1 else "none" if kinds == {True} else "every layer"
    for kind, design in DESIGNS.items():
        # transformers wants that of LLaMA's, whatever d_k is.
        odd = kind == "llama" and config.d_model % config.n_heads != 0
        if parts == design.parts and WINDOWS[window] <= WINDOWS[design.window] and not odd:
            return kind
    has = ", ".join(name for name, value in parts.items() if value) or f"none of {', '.join(parts)}"
    raise ValueError(
        f"expected a model that one of {', '.join(DESIGNS)} can hold, got {has} and a window in "
        f"{window}; their files have no room for it"
    )
