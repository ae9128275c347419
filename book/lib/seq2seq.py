"""Sequence to sequence with recurrent networks: one fixed context, then attention over all states.

Two models with one interface: `Seq2Seq` hands the decoder the encoder's last state and nothing
else; `AttentionSeq2Seq` lets it look at every state, with new weights at each step.

    model(source, source_lengths, target_in) -> logits     teacher forcing, all steps at once
    model.start(source, source_lengths) -> state           then, one token at a time:
    model.step(token, state) -> (logits, weights, state)   weights is None without attention

Axes beside those of `lib`: d_embed is the dimension of a token's vector, d_hidden that of a
recurrent state, d_scorer that of the layer that scores a query against a key; source_time and
target_time count tokens. What is not here: several layers, reading in both directions, dropout. A
matrix multiplication that does not depend on the previous state is done for all time steps at once,
outside the loop."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.layers import _rows_of
from lib.masks import _require_boolean, _require_one_each, padding_mask


class GRUCell(nn.Module):
    """One step of a gated recurrent unit: a new state from an input and the old state.

    reset     r  = sigmoid(W_r x + U_r h)          both maps with a bias, as in torch
    update    z  = sigmoid(W_z x + U_z h)
    candidate n  = tanh(W_n x + r * (U_n h))
    state     h' = (1 - z) * n + z * h

    Source: Cho et al. 2014, section 2.3, there without biases and with r inside the product,
    U_n (r * h); this form, torch's, needs one matrix multiplication with h instead of two.
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        self.input_map = nn.Linear(d_in, 3 * d_hidden)  # W_r, W_z, W_n, one above the other
        self.hidden_map = nn.Linear(d_hidden, 3 * d_hidden)  # U_r, U_z, U_n

    def forward(
        self, x: Float[Tensor, "batch d_in"], h: Float[Tensor, "batch d_hidden"]
    ) -> Float[Tensor, "batch d_hidden"]:
        return self.advance(self.input_map(x), h)

    def advance(
        self, projected: Float[Tensor, "batch gates"], h: Float[Tensor, "batch d_hidden"]
    ) -> Float[Tensor, "batch d_hidden"]:
        """The part that must wait for h: `projected` is input_map(x), with gates = 3 d_hidden."""
        x_r, x_z, x_n = projected.chunk(3, dim=-1)
        h_r, h_z, h_n = self.hidden_map(h).chunk(3, dim=-1)
        reset = torch.sigmoid(x_r + h_r)
        update = torch.sigmoid(x_z + h_z)
        candidate = torch.tanh(x_n + reset * h_n)
        return candidate + update * (h - candidate)


class _Embedding(nn.Embedding):
    """torch's own, with an error for what it does not have."""

    def forward(self, tokens: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape d_embed"]:
        if not tokens.numel():
            raise ValueError(
                f"expected tokens (batch, time), got {tuple(tokens.shape)}; a target begins with "
                "BOS"
            )
        return _rows_of(self.weight, tokens)


class Encoder(nn.Module):
    """Read the source from left to right: h_i = f(h_{i-1}, x_i), with h_0 = 0.

    Returns every state, zero at padding, and each sequence's last one, taken at its true length:
    a sequence gets the same states alone and in a padded batch.
    Errors: ValueError for a length below 1 or beyond the source, or another number of lengths.
    Source: Sutskever et al. 2014, section 2.
    """

    def __init__(self, vocab: int, d_embed: int, d_hidden: int):
        super().__init__()
        self.embedding = _Embedding(vocab, d_embed)
        self.cell = GRUCell(d_embed, d_hidden)
        self.d_hidden = d_hidden

    def forward(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch source_time d_hidden"], Float[Tensor, "batch d_hidden"]]:
        _require_one_each(source_lengths, source)
        real = real_positions(source_lengths, source.shape[1])
        projected = self.cell.input_map(self.embedding(source))  # (batch, source_time, 3 d_hidden)
        h = projected.new_zeros(len(source), self.d_hidden)
        states = []
        for x in projected.unbind(dim=1):  # the loop that no second processor can shorten
            h = self.cell.advance(x, h)
            states.append(h)
        all_states = torch.stack(states, dim=1) * real.unsqueeze(-1)
        rows = torch.arange(len(source), device=source.device)
        return all_states, all_states[rows, source_lengths - 1]


def real_positions(lengths: Int[Tensor, " batch"], time: int) -> Bool[Tensor, "batch {time}"]:
    """True where a right-padded batch holds a real token: position < length.

    Errors: ValueError for a length below 1 or above `time`.
    """
    real = padding_mask(lengths, time)[:, 0]
    if lengths.dim() != 1 or not ((lengths > 0) & (lengths <= time)).all():
        got = f"{lengths.tolist()}: count each sequence's real tokens, padding left out"
        raise ValueError(f"expected source lengths from 1 to {time}, got {got}")
    return real


class DecoderState(NamedTuple):
    """What a decoder without attention carries from step to step; only `s` changes."""

    s: Tensor  # (batch, d_hidden)
    context: Tensor  # (batch, d_hidden)


class Decoder(nn.Module):
    """Write the target from one context vector: s_t = g(s_{t-1}, y_{t-1}, c), with s_0 = c.

    The cell's input is the pair of y and c. Its linear layer is split in two,
    W [y; c] = W_y y + W_c c, so that each part is computed once, before the loop.
    Source: Cho et al. 2014, section 2.2. Simpler than theirs, appendix A.1: they pass c and s_0
    through a linear layer and a tanh each, and their output layer, a maxout, also reads y and c.
    """

    def __init__(self, vocab: int, d_embed: int, d_hidden: int):
        super().__init__()
        self.embedding = _Embedding(vocab, d_embed)
        self.cell = GRUCell(d_embed, d_hidden)
        self.context_map = nn.Linear(d_hidden, 3 * d_hidden, bias=False)  # W_c
        self.output = nn.Linear(d_hidden, vocab)

    def start(self, states: Tensor, last: Tensor, mask: Tensor) -> DecoderState:
        """Keep the encoder's last state; its other states, and their mask, are dropped here."""
        return DecoderState(s=last, context=last)

    def forward(
        self, target_in: Int[Tensor, "batch target_time"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch target_time vocab"], None, DecoderState]:
        s, context = state
        projected = self.cell.input_map(self.embedding(target_in))
        projected = projected + self.context_map(context).unsqueeze(1)
        states = []
        for y in projected.unbind(dim=1):
            s = self.cell.advance(y, s)
            states.append(s)
        return self.output(torch.stack(states, dim=1)), None, state._replace(s=s)


class Seq2Seq(nn.Module):
    """Encoder and decoder connected by one vector, whatever the length of the source.

    Source: Cho et al. 2014; Sutskever et al. 2014, with four layers of LSTM, the source backwards,
    and a decoder that gets the vector as its first state only.
    """

    def __init__(
        self, source_vocab: int, target_vocab: int, d_embed: int = 64, d_hidden: int = 128
    ):
        super().__init__()
        self.encoder = Encoder(source_vocab, d_embed, d_hidden)
        self.decoder: Any = Decoder(target_vocab, d_embed, d_hidden)  # a subclass has another

    def forward(
        self,
        source: Int[Tensor, "batch source_time"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch target_time"],
    ) -> Float[Tensor, "batch target_time vocab"]:
        """Teacher forcing: the input of every step is given, so all logits come at once."""
        return self.decoder(target_in, self.start(source, source_lengths))[0]

    def start(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple:
        """Read the source; return the decoder's state before its first token."""
        states, last = self.encoder(source, source_lengths)
        return self.decoder.start(states, last, real_positions(source_lengths, source.shape[1]))

    def step(
        self, token: Int[Tensor, " batch"], state: tuple
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch source_time"] | None, tuple]:
        """Feed one token: logits of the next, weights over the source (or None), new state."""
        logits, weights, state = self.decoder(token.view(-1, 1), state)
        return logits.squeeze(1), None if weights is None else weights.squeeze(1), state


class AdditiveAttention(nn.Module):
    """Mix the keys with weights that depend on the query.

    e_i = v . tanh(W_q q + W_k k_i);  a = softmax(e) over the keys;  c = sum_i a_i k_i

    A key where `mask` is False gets weight 0; at least one key of each row must be allowed.
    `projected` is key_map(keys), for a caller that asks the same keys many times.
    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2.
    """

    def __init__(self, d_query: int, d_key: int, d_scorer: int = 64):
        super().__init__()
        self.query_map = nn.Linear(d_query, d_scorer, bias=False)
        self.key_map = nn.Linear(d_key, d_scorer)
        self.score = nn.Linear(d_scorer, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "batch d_query"],
        keys: Float[Tensor, "batch key d_key"],
        mask: Bool[Tensor, "batch key"] | None = None,
        projected: Float[Tensor, "batch key d_scorer"] | None = None,
    ) -> tuple[Float[Tensor, "batch d_key"], Float[Tensor, "batch key"]]:
        if projected is None:
            projected = self.key_map(keys)
        fitting = keys.dim() == projected.dim() == 3 and keys.shape[:2] == projected.shape[:2]
        fitting = fitting and (mask is None or mask.shape == keys.shape[:2])
        if not fitting or query.shape[:-1] != keys.shape[:1]:
            got = [tuple(x.shape) for x in (query, keys, projected, mask) if x is not None]
            wanted = "query (batch, d), keys and their map (batch, key, d), mask (batch, key)"
            raise ValueError(f"expected {wanted}, got {got}")
        scores = self.score(torch.tanh(projected + self.query_map(query).unsqueeze(1))).squeeze(-1)
        if mask is not None:
            _require_boolean(mask)
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)  # (batch, key)
        context = torch.bmm(weights.unsqueeze(1), keys).squeeze(1)  # (batch, d_key)
        return context, weights


class AttentionState(NamedTuple):
    """What a decoder with attention carries from step to step; only `s` changes."""

    s: Tensor  # (batch, d_hidden)
    keys: Tensor  # (batch, key, d_key)
    projected: Tensor  # (batch, key, d_scorer)
    mask: Tensor | None  # (batch, key)


class AttentionDecoder(nn.Module):
    """Write the target while looking at all keys: s_t = g(s_{t-1}, y_{t-1}, c_t).

    c_t comes from s_{t-1}, anew at each step. The keys may be any set of vectors: the encoder's
    states, or the cells of a picture.
    Source: Bahdanau et al. 2015, section 3.1; their output layer, a maxout, reads s_{t-1}, y_{t-1}
    and c_t (appendix A.2.2), ours is linear and reads s_t.
    """

    def __init__(self, vocab: int, d_embed: int, d_hidden: int, d_key: int, d_scorer: int = 64):
        super().__init__()
        self.embedding = _Embedding(vocab, d_embed)
        self.attention = AdditiveAttention(d_hidden, d_key, d_scorer)
        self.cell = GRUCell(d_embed, d_hidden)
        self.context_map = nn.Linear(d_key, 3 * d_hidden, bias=False)
        self.output = nn.Linear(d_hidden, vocab)

    def start(
        self,
        keys: Float[Tensor, "batch key d_key"],
        s: Float[Tensor, "batch d_hidden"],
        mask: Bool[Tensor, "batch key"] | None = None,
    ) -> AttentionState:
        return AttentionState(s, keys, self.attention.key_map(keys), mask)

    def forward(
        self, target_in: Int[Tensor, "batch target_time"], state: AttentionState
    ) -> tuple[
        Float[Tensor, "batch target_time vocab"],
        Float[Tensor, "batch target_time key"],
        AttentionState,
    ]:
        s, keys, keys_projected, mask = state
        projected = self.cell.input_map(self.embedding(target_in))
        states, maps = [], []
        for y in projected.unbind(dim=1):
            context, weights = self.attention(s, keys, mask, keys_projected)
            s = self.cell.advance(y + self.context_map(context), s)
            states.append(s)
            maps.append(weights)
        logits = self.output(torch.stack(states, dim=1))
        return logits, torch.stack(maps, dim=1), state._replace(s=s)


class AttentionSeq2Seq(Seq2Seq):
    """The same encoder, and a decoder that attends to all its states: nothing else is different.

    Source: Bahdanau et al. 2015; their encoder reads in both directions, section 3.2, and s_0 is
    tanh(W h) of the backward state at the first token. Ours is the last forward state.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_embed: int = 64,
        d_hidden: int = 128,
        d_scorer: int = 64,
    ):
        super().__init__(source_vocab, target_vocab, d_embed, d_hidden)
        self.decoder = AttentionDecoder(target_vocab, d_embed, d_hidden, d_hidden, d_scorer)
