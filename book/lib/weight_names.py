"""What BERT and GPT-2 call the book's parameters, and how GPT-2 stores them.

Left the book's names, right those of the files that Hugging Face's library writes.
"""

from torch import Tensor

from lib.config import Config


def bert_names(n_layers: int, head: bool) -> dict[str, str]:
    """From the book's name of each parameter of a `BertEncoder` to the name in a file of BERT's.

    Source: Devlin et al. 2019, as stored by Hugging Face. Chapter: 14 (One design, three families).
    """
    names = {
        "embedding.weight": "embeddings.word_embeddings.weight",
        "positions.weight": "embeddings.position_embeddings.weight",
        "segments.weight": "embeddings.token_type_embeddings.weight",
        **_norm("norm", "embeddings.LayerNorm"),
    }
    for i in range(n_layers):
        ours, theirs = f"encoder.layers.{i}", f"encoder.layer.{i}"
        attention, feed = f"{ours}.self_attention", f"{ours}.feed_forward"
        for letter, word in (("q", "query"), ("k", "key"), ("v", "value")):
            there = f"{theirs}.attention.self.{word}"
            names |= _linear(f"{attention}.sublayer.w_{letter}", there)
        names |= _linear(f"{attention}.sublayer.w_o", f"{theirs}.attention.output.dense")
        names |= _norm(f"{attention}.norm", f"{theirs}.attention.output.LayerNorm")
        names |= _linear(f"{feed}.sublayer.w_1", f"{theirs}.intermediate.dense")
        names |= _linear(f"{feed}.sublayer.w_2", f"{theirs}.output.dense")
        names |= _norm(f"{feed}.norm", f"{theirs}.output.LayerNorm")
    if head:
        names |= _linear("transform.0", "cls.predictions.transform.dense")
        names |= _norm("transform.2", "cls.predictions.transform.LayerNorm")
        names["projection_bias"] = "cls.predictions.bias"
    return names


def gpt2_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The tensors of a file of GPT-2's, with their shapes. A matrix is (in, out), as in x W.

    Source: Radford et al. 2019, as stored by Hugging Face.
    Chapter: 14 (One design, three families).
    """
    d, d_ff = config.d_model, config.d_ff
    shapes = {"wte.weight": (config.source_vocab, d), "wpe.weight": (config.max_length, d)}
    for i in range(config.n_layers):
        for name, width_in, width_out in (
            ("attn.c_attn", d, 3 * d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", d, d_ff),
            ("mlp.c_proj", d_ff, d),
        ):
            shapes[f"h.{i}.{name}.weight"] = (width_in, width_out)
            shapes[f"h.{i}.{name}.bias"] = (width_out,)
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.{part}": (d,) for part in ("weight", "bias")}
    return shapes | {"ln_f.weight": (d,), "ln_f.bias": (d,)}


def gpt2_state(weights: dict[str, Tensor], n_layers: int) -> dict[str, Tensor]:
    """The same tensors as a `LanguageModel` has them: transposed, and c_attn cut in three.

    Source: Radford et al. 2019, as stored by Hugging Face.
    Chapter: 14 (One design, three families).
    """
    state = {
        "embedding.weight": weights["wte.weight"],
        "decoder.positions.weight": weights["wpe.weight"],
        "decoder.norm.gain": weights["ln_f.weight"],
        "decoder.norm.bias": weights["ln_f.bias"],
    }
    for i in range(n_layers):
        layer = f"decoder.layers.{i}"
        for part in ("weight", "bias"):
            fused = weights[f"h.{i}.attn.c_attn.{part}"]  # (d, 3d) or (3d): queries, keys, values
            for letter, third in zip("qkv", fused.chunk(3, dim=-1), strict=True):
                third = third.mT if part == "weight" else third
                state[f"{layer}.self_attention.sublayer.w_{letter}.{part}"] = third
            for ours, theirs in (
                ("self_attention.sublayer.w_o", "attn.c_proj"),
                ("feed_forward.sublayer.w_1", "mlp.c_fc"),
                ("feed_forward.sublayer.w_2", "mlp.c_proj"),
            ):
                tensor = weights[f"h.{i}.{theirs}.{part}"]
                state[f"{layer}.{ours}.{part}"] = tensor.mT if part == "weight" else tensor
        for ours, theirs in (("self_attention", "ln_1"), ("feed_forward", "ln_2")):
            state[f"{layer}.{ours}.norm.gain"] = weights[f"h.{i}.{theirs}.weight"]
            state[f"{layer}.{ours}.norm.bias"] = weights[f"h.{i}.{theirs}.bias"]
    return state


def _linear(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


def _norm(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.gain": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}
