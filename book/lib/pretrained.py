"""Real weights in the book's own modules: encoders of BERT's shape, language models of GPT-2's.

A folder in Hugging Face's layout (`config.json`, `model.safetensors`) is all that is needed. Where
their parts differ from the book's, the difference stands here:

    both    embeddings are not multiplied by sqrt(d_model); positions are learned
    BERT    a third embedding, of segments; a norm on the sum of the three; eps 1e-12
    GPT-2   GELU by its tanh formula; matrices stored as (in, out), and W^Q, W^K, W^V as one
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.config import Config
from lib.language_model import LanguageModel
from lib.layers import Embedding, LayerNorm, TiedProjection
from lib.masks import padding_mask
from lib.positions import Learned
from lib.transformer import Encoder
from lib.weight_files import read_config, read_weights
from lib.weight_names import bert_names, gpt2_shapes, gpt2_state

# BERT's pooler and second task serve training alone; position_ids and attn.bias are no weights.
WITH_A_HEAD = ("MaskedLM", "PreTraining")  # in the names of the classes that have one
BERT_UNUSED = ("pooler.", "cls.seq_relationship.", "cls.predictions.decoder.", ".position_ids")
GPT2_UNUSED = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
ACTIVATION_OF = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh"}
ACTIVATION_OF["gelu_pytorch_tanh"] = "gelu_tanh"


class BertEncoder(nn.Module):
    """An encoder as BERT has it: three embeddings, their norm, then the book's `Encoder`.

    x = LayerNorm(E[token] + P[position] + S[segment]), and post-norm layers on top of it.

    Args: config, of which norm and positions are set here; n_segments, entries of the segment
        embedding; eps, of every norm; head adds what says a hidden token, see `logits`.
    Shapes: tokens (batch, time), lengths (batch), segments (batch, time), 0 everywhere unless
        given. Returns one vector for each token, (batch, time, d_model).
    Source: Devlin et al. 2019, section 3. Chapter: 14 (One design, three families).
    """

    def __init__(
        self, config: Config, *, n_segments: int = 2, eps: float = 1e-12, head: bool = False
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
        """Score each token of the vocabulary at each position, from what `forward` returned.

        Errors: ValueError for a model without a head.
        Source: Devlin et al. 2019, section 3.1. Chapter: 14 (One design, three families).
        """
        if self.transform is None:
            raise ValueError("expected a model with a head, got one without; it gives vectors only")
        return self.projection(self.transform(hidden)) + self.projection_bias


def mean_pooled(
    hidden: Float[Tensor, "batch time d_model"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch d_model"]:
    """One vector for a sentence: the mean over its real tokens, made one unit long.

    Source: Reimers and Gurevych 2019, section 3. Chapter: 14 (One design, three families).
    """
    real = padding_mask(lengths, hidden.shape[1]).mT  # (batch, time, 1)
    mean = (hidden * real).sum(dim=1) / real.sum(dim=1)
    return nn.functional.normalize(mean, dim=-1)


def load_bert(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> BertEncoder:
    """Load an encoder of BERT's shape, with its head if the folder has one, in evaluation mode.

    Errors: ValueError for another kind of model, or files that are missing, broken or of others.
    Source: Devlin et al. 2019. Chapter: 14 (One design, three families).
    """
    found = read_config(folder)
    _require(found, folder, model_type="bert", is_decoder=False)
    _require(found, folder, position_embedding_type="absolute", tie_word_embeddings=True)
    _require(found, folder, add_cross_attention=False)
    config = Config(
        source_vocab=_size(found, "vocab_size", folder),
        d_model=_size(found, "hidden_size", folder),
        n_heads=_size(found, "num_attention_heads", folder),
        d_ff=_size(found, "intermediate_size", folder),
        n_layers=_size(found, "num_hidden_layers", folder),
        max_length=_size(found, "max_position_embeddings", folder),
        activation=_activation(found.get("hidden_act", "gelu"), folder),
        dropout=_number(found, "hidden_dropout_prob", 0.1, folder),
    )
    head = any(kind in str(found.get("architectures")) for kind in WITH_A_HEAD)
    if head:  # its transform has this function too, and ours is GELU
        _require(found, folder, hidden_act="gelu")
    eps = _number(found, "layer_norm_eps", 1e-12, folder)
    segments = _size({"type_vocab_size": 2} | found, "type_vocab_size", folder)
    model = BertEncoder(config, n_segments=segments, eps=eps, head=head).to(dtype)
    names = bert_names(config.n_layers, head)
    ours = model.state_dict()
    shapes = {theirs: tuple(ours[name].shape) for name, theirs in names.items()}
    weights = read_weights(folder, shapes, prefix="bert.", unused=BERT_UNUSED, dtype=dtype)
    state = {name: weights[theirs] for name, theirs in names.items()}
    return _filled(model, state, tied=head)


def load_gpt2(folder: str | Path, *, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """Load a language model of GPT-2's shape, in evaluation mode.

    Errors: ValueError for another kind of model, or files that are missing, broken or of others.
    Source: Radford et al. 2019. Chapter: 14 (One design, three families).
    """
    found = read_config(folder)
    _require(found, folder, model_type="gpt2", tie_word_embeddings=True, scale_attn_weights=True)
    _require(found, folder, add_cross_attention=False, scale_attn_by_inverse_layer_idx=False)
    _require(found, folder, layer_norm_epsilon=1e-5)
    d_model = _size(found, "n_embd", folder)
    config = Config(
        source_vocab=_size(found, "vocab_size", folder),
        d_model=d_model,
        n_heads=_size(found, "n_head", folder),
        d_ff=4 * d_model if found.get("n_inner") is None else _size(found, "n_inner", folder),
        n_layers=_size(found, "n_layer", folder),
        max_length=_size(found, "n_positions", folder),
        activation=_activation(found.get("activation_function", "gelu_new"), folder),
        dropout=_number(found, "resid_pdrop", 0.1, folder),
        norm="pre",
        positions="learned",
    )
    model = LanguageModel(config).to(dtype)
    model.embedding.scale = 1.0
    wanted = gpt2_shapes(config)
    weights = read_weights(folder, wanted, prefix="transformer.", unused=GPT2_UNUSED, dtype=dtype)
    return _filled(model, gpt2_state(weights, config.n_layers), tied=True)


def _filled(model: nn.Module, state: dict[str, Tensor], *, tied: bool) -> Any:
    if tied:  # one matrix under two names
        state |= {"projection.weight": state["embedding.weight"]}
    model.load_state_dict(state)
    return model.eval()


def _size(found: dict[str, Any], name: str, folder: str | Path) -> int:
    size = found.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(
            f"{_file(folder)}: expected {name} as a whole number above 0, got {size!r}"
        )
    return size


def _number(found: dict[str, Any], name: str, usual: float, folder: str | Path) -> float:
    number = found.get(name, usual)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number < 1:
        raise ValueError(
            f"{_file(folder)}: expected {name} as a number from 0 to below 1, got {number!r}"
        )
    return number


def _file(folder: str | Path) -> str:
    return f"{Path(folder).name}/config.json"


def _activation(name: Any, folder: str | Path) -> str:
    if not isinstance(name, str) or name not in ACTIVATION_OF:
        wanted = ", ".join(ACTIVATION_OF)
        raise ValueError(f"{_file(folder)}: expected an activation out of {wanted}, got {name!r}")
    return ACTIVATION_OF[name]


def _require(found: dict[str, Any], folder: str | Path, **wanted: Any) -> None:
    """What the config may leave out, it may not set otherwise; the model's type it must say."""
    for name, value in wanted.items():
        got = found.get(name, None if name == "model_type" else value)
        if got != value:
            raise ValueError(
                f"{_file(folder)}: expected {name} {value!r}, got {got!r}; "
                "this design would need other modules"
            )
