"""Published models in the book's own modules: encoders of BERT's design, GPT-2's language models.

A folder in Hugging Face's layout (`config.json`, and `model.safetensors` or its shards) is all that
is needed; names and shapes are checked before any number is used, and nothing is fetched. Where
their parts differ from the book's, the difference stands here:

    both    embeddings are not multiplied by sqrt(d_model); positions are learned
    BERT    a third embedding, of segments; a norm on the sum of the three; eps 1e-12
    GPT-2   GELU by its tanh formula; matrices stored as (in, out), and W^Q, W^K, W^V as one"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.layers import Embedding, LayerNorm, TiedProjection
from lib.masks import padding_mask
from lib.positions import Learned
from lib.transformer import Config, Encoder, LanguageModel
from train.huggingface import (
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

# BERT's pooler and second task serve training alone; position_ids and attn.bias are no weights.
WITH_A_HEAD = ("MaskedLM", "PreTraining")  # in the names of the classes that have one
BERT_UNUSED = ("pooler.", "cls.seq_relationship.", ".position_ids")
BERT_COPIES = {  # of a tied head
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
GPT2_UNUSED = (".attn.bias", ".attn.masked_bias")
GPT2_COPIES = {"lm_head.weight": "wte.weight"}
GELU, GELU_TANH = ("gelu", "gelu_python"), (  # one formula each, under several names
    "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate",
)  # fmt: skip
ACTIVATION_OF = {"relu": "relu"} | dict.fromkeys(GELU, "gelu")
ACTIVATION_OF |= dict.fromkeys(GELU_TANH, "gelu_tanh")


def bert_names(n_layers: int, head: bool, *, tied: bool = True) -> dict[str, str]:
    """From the book's name of each parameter of a `BertEncoder` to the name in a file of BERT's.

    Args: head, with what predicts a masked token; tied, by the matrix of the embedding.
    Source: Devlin et al. 2019, as stored by Hugging Face.
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
        if not tied:  # then Hugging Face's own copy of the bias is not tied either, and counts
            names["projection.weight"] = "cls.predictions.decoder.weight"
            names["projection_bias"] = "cls.predictions.decoder.bias"
    return names


def gpt2_names(n_layers: int, *, tied: bool = True) -> dict[str, str]:
    """From the book's names of a `LanguageModel` to those in a file of GPT-2's, but W^Q, W^K, W^V.

    Args: tied, the projection is the embedding's matrix.
    Source: Radford et al. 2019, as stored by Hugging Face.
    """
    names = {"embedding.weight": "wte.weight", "decoder.positions.weight": "wpe.weight"}
    if not tied:
        names["projection.weight"] = "lm_head.weight"
    names |= _norm("decoder.norm", "ln_f")
    for i in range(n_layers):
        attention, feed = (
            f"decoder.layers.{i}.{part}" for part in ("self_attention", "feed_forward")
        )
        names |= _norm(f"{attention}.norm", f"h.{i}.ln_1")
        names |= _linear(f"{attention}.sublayer.w_o", f"h.{i}.attn.c_proj")
        names |= _norm(f"{feed}.norm", f"h.{i}.ln_2")
        names |= _linear(f"{feed}.sublayer.w_1", f"h.{i}.mlp.c_fc")
        names |= _linear(f"{feed}.sublayer.w_2", f"h.{i}.mlp.c_proj")
    return names


def gpt2_shapes(model: LanguageModel) -> dict[str, tuple[int, ...]]:
    """The tensors of a file of GPT-2's, with their shapes. A matrix is (in, out), as in x W."""
    config, ours = model.config, model.state_dict()
    names, d = gpt2_names(config.n_layers, tied=config.tied), config.d_model
    shapes = {
        theirs: tuple(_transposed(theirs, ours[name]).shape) for name, theirs in names.items()
    }
    for i in range(config.n_layers):
        shapes |= {f"h.{i}.attn.c_attn.weight": (d, 3 * d), f"h.{i}.attn.c_attn.bias": (3 * d,)}
    return shapes


def gpt2_state(
    weights: dict[str, Tensor], n_layers: int, *, tied: bool = True
) -> dict[str, Tensor]:
    """The same tensors as a `LanguageModel` has them: transposed, and c_attn split in three."""
    names = gpt2_names(n_layers, tied=tied)
    state = {name: _transposed(theirs, weights[theirs]) for name, theirs in names.items()}
    for i in range(n_layers):
        for part in ("weight", "bias"):
            fused = f"h.{i}.attn.c_attn.{part}"  # (d, 3d) or (3d): queries, keys, values
            for letter, third in zip("qkv", weights[fused].chunk(3, dim=-1), strict=True):
                name = f"decoder.layers.{i}.self_attention.sublayer.w_{letter}.{part}"
                state[name] = _transposed(fused, third)
    return state


def _transposed(name: str, tensor: Tensor) -> Tensor:
    """GPT-2's matrices, whose names have a c, transposed; all else as it is."""
    return tensor.mT if ".c_" in name and name.endswith(".weight") else tensor


def _linear(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


def _norm(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.gain": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}


class BertEncoder(nn.Module):
    """BERT's encoder: three embeddings, their norm, then the book's `Encoder`.

    x = LayerNorm(E[token] + P[position] + S[segment]), then post-norm layers.

    Args: config, of which norm and positions are set here; n_segments, entries of the
        segment embedding; eps, of every norm; head adds what predicts a masked token,
        see `logits`.
    Shapes: tokens (batch, time), lengths (batch), segments (batch, time), 0 everywhere
        unless given. Returns one vector for each token, (batch, time, d_model).
    Source: Devlin et al. 2019, section 3.
    """

    def __init__(
        self,
        config: Config,
        *,
        n_segments: int = 2,
        eps: float = 1e-12,
        head: bool = False,
    ):
        super().__init__()
        d_model = config.d_model
        self.config = replace(config, norm="post", positions="none")
        self.embedding = Embedding(config.source_vocab, d_model)
        self.segments = Embedding(n_segments, d_model)
        self.embedding.scale = self.segments.scale = 1.0
        self.positions = Learned(d_model, max_length=config.max_length)
        self.norm = LayerNorm(d_model)
        self.encoder = Encoder(self.config)  # drops out after the norm, as BERT does
        self.transform = None
        if head:
            self.transform = nn.Sequential(
                nn.Linear(d_model, d_model), nn.GELU(), LayerNorm(d_model)
            )
            self.projection = TiedProjection(self.embedding)
            self.projection_bias = nn.Parameter(torch.zeros(config.source_vocab))
        for module in self.modules():
            if isinstance(module, LayerNorm):
                module.eps = eps

    def forward(
        self,
        tokens: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"] | None = None,
        segments: Int[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        segments = torch.zeros_like(tokens) if segments is None else segments
        x = self.positions.add(self.embedding(tokens) + self.segments(segments))
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        return self.encoder(self.norm(x), mask)

    def logits(
        self, hidden: Float[Tensor, "batch time d_model"]
    ) -> Float[Tensor, "batch time vocab"]:
        """Score each token at each position, from what `forward` returned.

        Errors: ValueError for a model without a head.
        Source: Devlin et al. 2019, section 3.1.
        """
        if self.transform is None:
            raise ValueError("expected a model with a head, got one without; it gives vectors only")
        return self.projection(self.transform(hidden)) + self.projection_bias


def mean_pooled(
    hidden: Float[Tensor, "batch time d_model"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch d_model"]:
    """One vector for a sentence: the mean over its real tokens, scaled to length 1.

    Source: Reimers and Gurevych 2019, section 3.
    """
    real = padding_mask(lengths, hidden.shape[1]).mT  # (batch, time, 1)
    mean = (hidden * real).sum(dim=1) / real.sum(dim=1)
    return nn.functional.normalize(mean, dim=-1)


def load_bert(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> BertEncoder:
    """Load an encoder of BERT's shape, with its head if the folder has one, in evaluation mode.

    Errors: ValueError for another kind of model, or files that are missing, broken or of others.
    Source: Devlin et al. 2019.
    """
    found = read_config(folder)
    require(found, folder, model_type="bert", is_decoder=False)
    require(found, folder, position_embedding_type="absolute", add_cross_attention=False)
    require_unquantised(found, folder)
    config = Config(
        source_vocab=size_of(found, "vocab_size", folder),
        d_model=size_of(found, "hidden_size", folder),
        n_heads=size_of(found, "num_attention_heads", folder),
        d_ff=size_of(found, "intermediate_size", folder),
        n_layers=size_of(found, "num_hidden_layers", folder),
        max_length=size_of(found, "max_position_embeddings", folder),
        activation=_activation(found.get("hidden_act", "gelu"), folder),
        dropout=number_of(found, "hidden_dropout_prob", 0.1, folder),
        tied=flag_of(found, "tie_word_embeddings", True, folder),
    )
    head = any(kind in str(found.get("architectures")) for kind in WITH_A_HEAD)
    if head and found.get("hidden_act") not in GELU:  # its transform has it too, and ours is GELU
        require(found, folder, hidden_act="gelu")
    eps = number_of(found, "layer_norm_eps", 1e-12, folder)
    segments = size_of({"type_vocab_size": 2} | found, "type_vocab_size", folder)
    separate = head and not config.tied  # then it has a matrix of its own

    def make() -> BertEncoder:
        model = BertEncoder(config, n_segments=segments, eps=eps, head=head)
        if separate:
            projection = nn.Linear(config.d_model, config.source_vocab, bias=False)
            model.add_module("projection", projection)
        return model

    ours = without_memory(folder, config.n_layers, make).state_dict()
    names = bert_names(config.n_layers, head, tied=config.tied)
    shapes = {theirs: tuple(ours[name].shape) for name, theirs in names.items()}
    weights = read_weights(
        folder,
        shapes,
        prefix="bert.",
        unused=(*BERT_UNUSED, "cls.predictions.bias") if separate else BERT_UNUSED,
        copies={} if separate else {name: of for name, of in BERT_COPIES.items() if of in shapes},
        dtype=dtype,
    )
    state = {name: weights[theirs] for name, theirs in names.items()}
    return filled(make().to(dtype), state, tied=head and not separate)


def load_gpt2(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """Load a language model of GPT-2's shape, in evaluation mode.

    Errors: ValueError for another kind of model, or files that are missing, broken or of others.
    Source: Radford et al. 2019.
    """
    found = read_config(folder)
    require(found, folder, model_type="gpt2", scale_attn_weights=True)
    require(found, folder, add_cross_attention=False, scale_attn_by_inverse_layer_idx=False)
    require_unquantised(found, folder)
    d_model = size_of(found, "n_embd", folder)
    config = Config(
        source_vocab=size_of(found, "vocab_size", folder),
        d_model=d_model,
        n_heads=size_of(found, "n_head", folder),
        d_ff=4 * d_model if found.get("n_inner") is None else size_of(found, "n_inner", folder),
        n_layers=size_of(found, "n_layer", folder),
        max_length=size_of(found, "n_positions", folder),
        activation=_activation(found.get("activation_function", "gelu_new"), folder),
        dropout=number_of(found, "resid_pdrop", 0.1, folder),
        norm="pre",
        positions="learned",
        tied=flag_of(found, "tie_word_embeddings", True, folder),
    )
    eps = number_of(found, "layer_norm_epsilon", 1e-5, folder)
    make = partial(LanguageModel, config)
    shapes = gpt2_shapes(without_memory(folder, config.n_layers, make))
    weights = read_weights(
        folder,
        shapes,
        prefix="transformer.",
        unused=GPT2_UNUSED,
        copies=GPT2_COPIES if config.tied else {},
        dtype=dtype,
    )
    model = make().to(dtype)
    model.embedding.scale = 1.0
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.eps = eps
    state = gpt2_state(weights, config.n_layers, tied=config.tied)
    return filled(model, state, tied=config.tied)


def _activation(name: Any, folder: str | Path) -> str:
    if not isinstance(name, str) or name not in ACTIVATION_OF:
        wanted = ", ".join(ACTIVATION_OF)
        raise ValueError(
            f"{config_file(folder)}: expected an activation out of {wanted}, got {name!r}"
        )
    return ACTIVATION_OF[name]
