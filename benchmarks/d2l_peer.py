"""The parts of "Dive into Deep Learning", from its own package `d2l`, behind our interface.

The package has the encoders, the attention layers, the position-wise layers and the loop that
writes greedily. The two decoders stand in the book's text alone; here they are put together from
the package's parts, in our own code. So the rows in the tables are called "d2l's parts".

`d2l.torch` is one file for the whole book: it imports what draws pictures and reads tables, too,
before anything else. None of that is used by a model. Where such a package is not installed, an
empty module stands in for it while `d2l.torch` is imported, and no longer: others would take it
for the real one. Where it is installed, nothing is stood in.
"""

import functools
import importlib
import importlib.util
import math
import sys
import warnings
from types import ModuleType

import torch
from sizes import RecurrentSize, Size
from torch import Tensor, nn

from lib.data import BOS

UNUSED = ("torchvision", "torchvision.transforms", "pandas")  # what it imports and no model needs


@functools.cache
def d2l() -> ModuleType:
    """Import `d2l.torch`."""
    absent = [name for name in UNUSED if importlib.util.find_spec(name.split(".")[0]) is None]
    sys.modules.update({name: ModuleType(name) for name in absent})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file is older than this Python
            return importlib.import_module("d2l.torch")
    finally:
        for name in absent:
            del sys.modules[name]


class Block(nn.Module):
    """A layer of the decoder. What it keeps from step to step are all its past inputs.

    Keys and values are projected from them, and from the encoder's output, anew at each step.
    """

    def __init__(self, size: Size):
        super().__init__()
        layer = (size.d_model, size.n_heads, size.dropout)
        self.self_attention = d2l().MultiHeadAttention(*layer)
        self.cross_attention = d2l().MultiHeadAttention(*layer)
        self.feed_forward = d2l().PositionWiseFFN(size.d_ff, size.d_model)
        self.after = nn.ModuleList(d2l().AddNorm(size.d_model, size.dropout) for _ in range(3))

    def forward(
        self, x: Tensor, past: Tensor | None, memory: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the layer's output, and all its inputs so far for the next call."""
        seen = x if past is None else torch.cat([past, x], dim=1)
        time, first = x.shape[1], seen.shape[1] - x.shape[1] + 1
        # The package's mask is a number of keys: each query may see one more than the last. A
        # single new token sees them all, and goes without a mask.
        visible = torch.arange(first, first + time).expand(len(x), -1) if time > 1 else None
        x = self.after[0](x, self.self_attention(x, seen, seen, visible))
        x = self.after[1](x, self.cross_attention(x, memory, memory, lengths))
        return self.after[2](x, self.feed_forward(x)), seen


class Decoder(nn.Module):
    """Embedding, positions, blocks and projection, with the methods that the package asks for."""

    def __init__(self, size: Size):
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(size.vocab, size.d_model)
        self.positions = d2l().PositionalEncoding(size.d_model, size.dropout)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.n_layers))
        self.projection = nn.Linear(size.d_model, size.vocab, bias=False)

    def init_state(self, memory: Tensor, lengths: Tensor) -> tuple:
        return memory, lengths, [None] * len(self.blocks)

    def forward(self, tokens: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        memory, lengths, past = state
        # The package counts positions from the first token it is given: written one by one, every
        # token gets position 0. That costs no time, so it is left as it is.
        x = self.positions(self.embedding(tokens) * self.scale)
        seen = []
        for block, before in zip(self.blocks, past, strict=True):
            x, inputs = block(x, before, memory, lengths)
            seen.append(inputs)
        return self.projection(x), (memory, lengths, seen)


class D2l(nn.Module):
    """The package's encoder and greedy loop, and a decoder of its parts: post-norm."""

    def __init__(self, size: Size):
        super().__init__()
        encoder = d2l().TransformerEncoder(
            size.vocab, size.d_model, size.d_ff, size.n_heads, size.n_layers, size.dropout
        )
        self.model = d2l().EncoderDecoder(encoder, Decoder(size))
        make_weights(self)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.model(source, target_in, lengths)

    def write(self, source: Tensor, lengths: Tensor, count: int) -> Tensor:
        first = source.new_full((len(source), 1), BOS)
        return self.model.predict_step((source, first, lengths, first), source.device, count)[0]


class RecurrentDecoder(nn.Module):
    """At each step: attention over the encoder's states, then the GRU reads context and token."""

    def __init__(self, size: RecurrentSize):
        super().__init__()
        self.embedding = nn.Embedding(size.vocab, size.d_embed)
        self.attention = d2l().AdditiveAttention(size.d_hidden, 0)
        self.rnn = d2l().GRU(size.d_embed + size.d_hidden, size.d_hidden, 1)
        self.projection = nn.Linear(size.d_hidden, size.vocab)

    def init_state(self, memory: tuple[Tensor, Tensor], lengths: Tensor) -> tuple:
        states, last = memory
        return states.transpose(0, 1), last, lengths

    def forward(self, tokens: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        keys, s, lengths = state
        outputs = []
        for y in self.embedding(tokens).transpose(0, 1).split(1):  # (1, batch, d_embed)
            context = self.attention(s[-1].unsqueeze(1), keys, keys, lengths)
            output, s = self.rnn(torch.cat([context.transpose(0, 1), y], dim=-1), s)
            outputs.append(output)
        return self.projection(torch.cat(outputs).transpose(0, 1)), (keys, s, lengths)


class D2lRecurrent(nn.Module):
    """The package's GRU encoder and additive attention. The encoder reads padding like tokens."""

    def __init__(self, size: RecurrentSize):
        super().__init__()
        encoder = d2l().Seq2SeqEncoder(size.vocab, size.d_embed, size.d_hidden, 1)
        self.model = d2l().EncoderDecoder(encoder, RecurrentDecoder(size))
        make_weights(self)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.model(source, target_in, lengths)


def make_weights(model: nn.Module) -> None:
    """Call the model once: the package's layers find out their input's width by it."""
    tokens = torch.full((1, 2), BOS)
    with torch.no_grad():
        model(tokens, torch.tensor([2]), tokens)
