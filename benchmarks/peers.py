"""Encoder-decoders of the same size from other libraries, behind one interface.

Each adapter is called like ours, `model(source, source_lengths, target_in) -> logits`, and has a
method that writes a fixed number of tokens greedily or by beam search, if its library has one.
A library that is not installed is left out; `missing` says which.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Callable

import torch
from d2l_peer import D2l
from sizes import LONGEST, RecurrentSize, Size
from torch import Tensor, nn

from checks.torch_weights import torch_masks
from lib.data import BOS, EOS, PAD
from lib.decoding import beam_search, greedy
from lib.layers import Embedding
from lib.masks import padding_mask
from lib.positions import make_positions
from lib.transformer import Config, Transformer


class Ours(nn.Module):
    """`lib.transformer`, as the paper has it, with its own decoders."""

    def __init__(self, size: Size, tied: bool = False):
        super().__init__()
        sizes = (size.d_model, size.n_heads, size.d_ff, size.n_layers)
        config = Config(size.vocab, None if tied else size.vocab, *sizes, size.dropout, tied=tied)
        self.model = Transformer(config)
        if not tied:
            never_ends(self.model.projection)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.model(source, lengths, target_in)

    def real_logits(
        self, source: Tensor, lengths: Tensor, target_in: Tensor, target_lengths: Tensor
    ) -> Tensor:
        return self.model.real_logits(source, lengths, target_in, target_lengths)

    def write(self, source: Tensor, lengths: Tensor, count: int) -> Tensor:
        return greedy(self.model, source, lengths, count)[0]

    def search(self, source: Tensor, lengths: Tensor, count: int, beam: int) -> Tensor:
        return beam_search(self.model, source, lengths, count, beam=beam)[0]


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` between embeddings and a projection. It comes without a cache."""

    def __init__(self, size: Size):
        super().__init__()
        d_model = size.d_model
        self.inner = nn.Transformer(
            d_model, size.n_heads, size.n_layers, size.n_layers, size.d_ff, size.dropout,
            batch_first=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(size.dropout)
        self.positions = make_positions("sinusoidal", d_model, size.n_heads, max_length=LONGEST)
        self.source_embedding = Embedding(size.vocab, d_model)
        self.target_embedding = Embedding(size.vocab, d_model)
        self.projection = nn.Linear(d_model, size.vocab, bias=False)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        source_in = self.dropout(self.positions.add(self.source_embedding(source)))
        target = self.dropout(self.positions.add(self.target_embedding(target_in)))
        masks = torch_masks(padding_mask(lengths, source.shape[1]), target.shape[1])
        return self.projection(self.inner(source_in, target, **masks))


class HuggingFace(nn.Module):
    """`MarianMTModel`: post-norm, sinusoidal positions, a key-value cache."""

    def __init__(self, size: Size):
        super().__init__()
        marian = importlib.import_module("transformers")
        config = marian.MarianConfig(
            vocab_size=size.vocab, decoder_vocab_size=size.vocab, d_model=size.d_model,
            encoder_layers=size.n_layers, decoder_layers=size.n_layers,
            encoder_attention_heads=size.n_heads, decoder_attention_heads=size.n_heads,
            encoder_ffn_dim=size.d_ff, decoder_ffn_dim=size.d_ff, dropout=size.dropout,
            attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
            scale_embedding=True, max_position_embeddings=LONGEST, tie_word_embeddings=False,
            share_encoder_decoder_embeddings=False, pad_token_id=PAD, eos_token_id=EOS,
            decoder_start_token_id=BOS, forced_eos_token_id=None,
        )  # fmt: skip
        self.model = marian.MarianMTModel(config)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        mask = padding_mask(lengths, source.shape[1])[:, 0].long()
        return self.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target_in, use_cache=False
        ).logits

    def write(self, source: Tensor, lengths: Tensor, count: int) -> Tensor:
        return self.search(source, lengths, count, beam=1)

    def search(self, source: Tensor, lengths: Tensor, count: int, beam: int) -> Tensor:
        mask = padding_mask(lengths, source.shape[1])[:, 0].long()
        return self.model.generate(
            input_ids=source, attention_mask=mask, num_beams=beam, do_sample=False, use_cache=True,
            max_new_tokens=count, min_new_tokens=count, max_length=None,
        )  # fmt: skip


class XTransformers(nn.Module):
    """`XTransformer` with fused attention: pre-norm, learned positions."""

    def __init__(self, size: Size):
        super().__init__()
        package = importlib.import_module("x_transformers")
        side = {
            "num_tokens": size.vocab, "depth": size.n_layers, "heads": size.n_heads,
            "max_seq_len": LONGEST, "attn_dim_head": size.d_model // size.n_heads,
            "attn_flash": True, "ff_mult": size.d_ff / size.d_model,
            "ff_dropout": size.dropout, "emb_dropout": size.dropout,
        }  # fmt: skip
        both = {f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()}
        self.model = package.XTransformer(dim=size.d_model, tie_token_emb=False, **both)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        mask = padding_mask(lengths, source.shape[1])[:, 0]
        memory = self.model.encoder(source, mask=mask, return_embeddings=True)
        return self.model.decoder.net(target_in, context=memory, context_mask=mask)

    def write(self, source: Tensor, lengths: Tensor, count: int) -> Tensor:
        mask = padding_mask(lengths, source.shape[1])[:, 0]
        first = source.new_full((len(source), 1), BOS)
        return self.model.generate(source, first, count, mask=mask, temperature=0.0)


D2L = "d2l's parts"
PEERS: dict[str, Callable[[Size], nn.Module]] = {
    "lib": Ours,
    "torch.nn": TorchTransformer,
    "Hugging Face": HuggingFace,
    "x-transformers": XTransformers,
    D2L: D2l,
}
PACKAGES = {"Hugging Face": "transformers", "x-transformers": "x_transformers", D2L: "d2l"}


def missing() -> list[str]:
    """Return the names of the peers that are not installed."""
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None]


def installed(peers: dict[str, Callable], size: Size | RecurrentSize) -> dict[str, nn.Module]:
    """Make those of the peers whose package is here, of one size."""
    warnings.simplefilter("ignore")  # what peers say while they are made is not ours to mend
    absent = missing()
    return {name: make(size) for name, make in peers.items() if name not in absent}


def models(size: Size) -> dict[str, nn.Module]:
    """Make each installed Transformer of this size."""
    return installed(PEERS, size)


def never_ends(projection: nn.Linear) -> None:
    """Keep the end of the sentence from being written: its logit is 0, never the largest."""
    with torch.no_grad():
        projection.weight[EOS] = 0
