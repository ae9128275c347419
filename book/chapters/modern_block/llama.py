"""LLaMA's and Mixtral's files, read into a `ModernDecoder` and written from one.

A folder in Hugging Face's layout (`config.json`, `model.safetensors`) is all that is needed. Two
things differ from the book's modules, and both are exact:

    names      self_attn.q_proj is w_q; gate_proj, up_proj and down_proj are w_1, w_3 and w_2
    rotation   pairs of a head's d_k entries are neighbours here, (0, 1), (2, 3), ...; there they
               come from its halves, (0, d_k / 2), (1, d_k / 2 + 1), ...: rows of W^Q and W^K move

What the book's modules do not have (other rotations, biases, quantised numbers) is refused."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from chapters.modern_block.decoder import BlockConfig, ModernDecoder, today
from train.checkpoints import write_whole
from train.huggingface import (
    CONFIG,
    WEIGHTS,
    config_file,
    filled,
    number_of,
    read_config,
    read_weights,
    require,
    size_of,
    without_memory,
)

ARCHITECTURES = {"llama": "LlamaForCausalLM", "mixtral": "MixtralForCausalLM"}
UNUSED = (".rotary_emb.inv_freq",)  # older files keep what can be computed again
TURNED = (".w_q.weight", ".w_k.weight")  # queries and keys, which are rotated


def llama_names(config: BlockConfig) -> dict[str, str]:
    """From the book's name of each parameter of a `ModernDecoder` to the name in a file.

    Source: Touvron et al. 2023 and Jiang et al. 2024, as stored by Hugging Face.
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
            there = f"{theirs}.self_attn.{letter}_proj.weight"
            names[f"{attention}.sublayer.w_{letter}.weight"] = there
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
    weight: Float[Tensor, "rows d_model"], d_k: int
) -> Float[Tensor, "rows d_model"]:
    """Move the rows of each head from halves, (0, d_k / 2), (1, ...), to pairs, (0, 1), (2, ...).

    Shapes: weight (heads * d_k, d_model). Returns that shape.
    """
    return weight.unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)


def pairs_to_halves(
    weight: Float[Tensor, "rows d_model"], d_k: int
) -> Float[Tensor, "rows d_model"]:
    """The inverse of `halves_to_pairs`: the same numbers, each back in its row."""
    return weight.unflatten(0, (-1, d_k // 2, 2)).transpose(1, 2).flatten(0, 2)


def load_llama(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> ModernDecoder:
    """Load a model of LLaMA's or Mixtral's shape, in evaluation mode.

    Errors: ValueError for another kind of model, for one with parts that the book's modules do not
        have, or files that are missing, broken or of others; nothing is built before.
    Source: Touvron et al. 2023 (LLaMA); Jiang et al. 2024 (Mixtral).
    """
    config = _config_of(read_config(folder), folder)
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
    """Write a model as a folder that transformers reads as LLaMA's or, with experts, as Mixtral's.

    Dropout, which serves training alone, is not kept. Each file is complete or the old one.

    Errors: ValueError for a model that the two designs cannot hold; nothing is written then.
    Source: Touvron et al. 2023 (LLaMA); Jiang et al. 2024 (Mixtral).
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


def _config_of(found: dict[str, Any], folder: str | Path) -> BlockConfig:
    """What config.json describes, or a ValueError for what the book's modules do not have."""
    kind = found.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        wanted = ", ".join(ARCHITECTURES)
        raise ValueError(
            f"{config_file(folder)}: expected a model_type out of {wanted}, got {kind!r}; "
            "this design would need other modules"
        )
    require(found, folder, architectures=[ARCHITECTURES[kind]], hidden_act="silu")
    require(found, folder, attention_bias=False, mlp_bias=False, attention_dropout=0.0)
    require(found, folder, rope_scaling=None, quantization_config=None)
    moe = kind == "mixtral"
    if moe:
        require(found, folder, router_jitter_noise=0.0)
    else:
        require(found, folder, sliding_window=None)
    n_heads = size_of(found, "num_attention_heads", folder)
    # What a config leaves out has the value that Hugging Face's own classes give it.
    usual = {"num_key_value_heads": 8 if moe else n_heads, "num_experts_per_tok": 2}
    usual |= {"num_local_experts": 8, "max_position_embeddings": 131_072 if moe else 2048}
    given = usual | found

    def optional_size(name: str) -> int | None:
        return None if given.get(name) is None else size_of(given, name, folder)

    tied = given.get("tie_word_embeddings", False)
    if not isinstance(tied, bool):
        raise ValueError(
            f"{config_file(folder)}: expected tie_word_embeddings true or false, got {tied!r}"
        )
    return today(
        size_of(given, "vocab_size", folder),
        d_model=size_of(given, "hidden_size", folder),
        n_layers=size_of(given, "num_hidden_layers", folder),
        n_heads=n_heads,
        n_kv_heads=optional_size("num_key_value_heads"),
        head_dim=optional_size("head_dim"),
        d_ff=size_of(given, "intermediate_size", folder),
        norm_eps=number_of(given, "rms_norm_eps", 1e-5 if moe else 1e-6, folder),
        rope_base=_rope_base(given, 1e6 if moe else 1e4, folder),
        window=optional_size("sliding_window"),
        n_experts=size_of(given, "num_local_experts", folder) if moe else None,
        n_active=size_of(given, "num_experts_per_tok", folder) if moe else 2,
        tied=tied,
        max_length=size_of(given, "max_position_embeddings", folder),
    )


def _rope_base(found: dict[str, Any], usual: float, folder: str | Path) -> float:
    """The base of the rotation: older files call it rope_theta, newer ones keep it among others."""
    inside = found.get("rope_parameters")
    inside = {} if inside is None else inside
    others = {k: v for k, v in inside.items() if k != "rope_theta"} if type(inside) is dict else 0
    if others not in ({}, {"rope_type": "default"}):
        raise ValueError(
            f'{config_file(folder)}: expected rope_parameters of rope_type "default", with '
            f"rope_theta alone, got {inside!r}; another rotation would need other modules"
        )
    given = [one["rope_theta"] for one in (inside, found) if one.get("rope_theta") is not None]
    base = given[0] if given else usual
    numeric = isinstance(base, int | float) and not isinstance(base, bool)
    if not numeric or not 0 < base <= sys.float_info.max or any(other != base for other in given):
        raise ValueError(
            f"{config_file(folder)}: expected rope_theta as one number above 0, "
            f"got {' and '.join(map(repr, given))}"
        )
    return float(base)


def _settings(config: BlockConfig) -> dict[str, Any]:
    """What config.json says of the model, or a ValueError if neither design can hold it."""
    wanted = {"norm": "pre", "norm_layer": "rms", "activation": "swiglu", "positions": "rotary"}
    for name, value in (wanted | {"bias": False, "scaled_embedding": False}).items():
        if (got := getattr(config, name)) != value:
            raise ValueError(
                f"expected a model with {name}={value!r}, got {got!r}; LLaMA's and Mixtral's files "
                "have no room for it"
            )
    moe = config.n_experts is not None
    if not moe and config.window is not None:
        raise ValueError(
            f"expected a model without a window, got window={config.window}; LLaMA's files have no "
            "room for it, and Mixtral's need experts"
        )
    if not moe and config.d_model % config.n_heads:
        raise ValueError(
            "expected d_model to be a multiple of n_heads, whatever d_k is, got "
            f"d_model={config.d_model} and n_heads={config.n_heads}; transformers refuses it"
        )
    kind = "mixtral" if moe else "llama"
    settings: dict[str, Any] = {
        "architectures": [ARCHITECTURES[kind]],
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
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
        "rope_theta": config.rope_base,
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,  # which numbers are special is the vocabulary's affair
        "eos_token_id": None,
    }
    if moe:
        settings |= {
            "num_local_experts": config.n_experts,
            "num_experts_per_tok": config.n_active,
            "sliding_window": config.window,
        }
    return settings
