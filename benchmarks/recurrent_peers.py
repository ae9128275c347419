"""GRU encoder-decoders with additive attention, of the same size, behind one interface."""

from collections.abc import Callable

import torch
from d2l_peer import D2lRecurrent
from peers import D2L, installed
from sizes import RecurrentSize
from torch import Tensor, nn

from lib.seq2seq import AttentionSeq2Seq


def ours(size: RecurrentSize) -> AttentionSeq2Seq:
    """`lib.seq2seq`, with a scorer as wide as the state, as the others have it."""
    return AttentionSeq2Seq(
        size.vocab, size.vocab, size.d_embed, size.d_hidden, d_scorer=size.d_hidden
    )


class OnTorchGRU(nn.Module):
    """The usual arrangement of torch's own layers.

    `nn.GRU` reads the source; `nn.GRU` with the context beside its input takes each step of the
    decoder. The keys are mapped anew at each step, or once.
    """

    def __init__(self, size: RecurrentSize, keys_once: bool = False):
        super().__init__()
        d_hidden = size.d_hidden
        self.keys_once = keys_once
        self.source_embedding = nn.Embedding(size.vocab, size.d_embed)
        self.target_embedding = nn.Embedding(size.vocab, size.d_embed)
        self.encoder = nn.GRU(size.d_embed, d_hidden, batch_first=True)
        self.decoder = nn.GRU(size.d_embed + d_hidden, d_hidden, batch_first=True)
        self.query_map = nn.Linear(d_hidden, d_hidden, bias=False)
        self.key_map = nn.Linear(d_hidden, d_hidden)
        self.score = nn.Linear(d_hidden, 1, bias=False)
        self.output = nn.Linear(d_hidden, size.vocab)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        keys, s = self.encoder(self.source_embedding(source))
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        mapped = self.key_map(keys) if self.keys_once else None
        outputs = []
        for y in self.target_embedding(target_in).split(1, dim=1):
            by_key = self.key_map(keys) if mapped is None else mapped
            hidden = torch.tanh(self.query_map(s[-1]).unsqueeze(1) + by_key)
            scores = self.score(hidden).squeeze(-1).masked_fill(~mask, float("-inf"))
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), keys)
            output, s = self.decoder(torch.cat([context, y], dim=-1), s)
            outputs.append(output)
        return self.output(torch.cat(outputs, dim=1))


RECURRENT_PEERS: dict[str, Callable[[RecurrentSize], nn.Module]] = {
    "lib": ours,
    D2L: D2lRecurrent,
    "nn.GRU": OnTorchGRU,
    "nn.GRU, keys mapped once": lambda size: OnTorchGRU(size, keys_once=True),
}


def recurrent_models(size: RecurrentSize) -> dict[str, nn.Module]:
    """Make each installed recurrent model of this size."""
    return installed(RECURRENT_PEERS, size)
