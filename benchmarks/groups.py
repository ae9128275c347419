"""What `make bench` measures, in groups of tables: what is done, who is 1.00, and who does it.

The sizes stand in the arguments, so that a test can run every group with tiny ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial

import torch
from peers import D2L, Ours, models
from recurrent_peers import recurrent_models
from sizes import RECURRENT_SIZES, SIZES, RecurrentSize, Size
from torch import Tensor, nn
from torch.nn import functional as F

from chapters.complexity.layers import windowed_attention
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.data import PAD
from lib.decoding import store_by_columns
from lib.training import low_precision, token_loss

Work = dict[str, Callable[[], object]]
Table = Iterator[tuple[str, str, Work]]  # what is done, who is 1.00, and who does it


def batch(size: Size | RecurrentSize) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random tokens, padded on the right: source, lengths, target_in, target_out."""
    lengths = torch.randint(size.shortest, size.time + 1, (size.batch,))
    lengths[0] = size.time
    real = torch.arange(size.time) < lengths[:, None]
    tokens = torch.randint(4, size.vocab, (3, size.batch, size.time)).masked_fill(~real, 0)
    return tokens[0], lengths, tokens[1], tokens[2]


def trainer(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    fused: bool = False,
    bf16: bool = False,
    real_only: bool = False,
) -> Callable[[], None]:
    """Return a function that takes one step of Adam; `real_only` leaves padding out."""
    source, lengths, target_in, target_out = inputs
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=fused)

    def step() -> None:
        with low_precision(source.device, torch.bfloat16 if bf16 else None):
            if real_only:
                logits = model.real_logits(source, lengths, target_in, lengths)[None]
                target = target_out[target_out != PAD][None]
            else:
                logits, target = model(source, lengths, target_in), target_out
        loss = token_loss(logits.float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def quiet(function: Callable[[], object]) -> Callable[[], None]:
    """The same without gradients."""

    def run() -> None:
        with torch.inference_mode():
            function()

    return run


def recurrent(sizes: Sequence[RecurrentSize] = RECURRENT_SIZES) -> Table:
    """One training step of a GRU with additive attention, plain Adam."""
    for size in sizes:
        inputs = batch(size)
        work = {peer: trainer(model, inputs) for peer, model in recurrent_models(size).items()}
        yield f"GRU with attention, training step, hidden {size.d_hidden}", D2L, work


def training(sizes: Mapping[str, Size] = SIZES) -> Table:
    """One training step; every model with plain Adam, and ours as a reader would train it."""
    for name, size in sizes.items():
        inputs = batch(size)
        work: Work = {peer: trainer(model, inputs) for peer, model in models(size).items()}
        work["lib, no padding"] = trainer(Ours(size), inputs, real_only=True)
        options = {"fused": True, "real_only": True}
        for row, more in (("tied, fused Adam", {}), ("the same in bf16", {"bf16": True})):
            work[f"lib, no padding, {row}"] = trainer(
                Ours(size, tied=True), inputs, **options, **more
            )
        yield f"training step, {name}", "torch.nn", work


def forward(sizes: Mapping[str, Size] = SIZES) -> Table:
    """One pass in evaluation mode, teacher forcing."""
    for name, size in sizes.items():
        inputs = source, lengths, target_in = batch(size)[:3]
        work = {peer: quiet(partial(model.eval(), *inputs)) for peer, model in models(size).items()}
        real_logits = Ours(size).eval().real_logits
        work["lib, no padding"] = quiet(partial(real_logits, source, lengths, target_in, lengths))
        yield f"forward pass, {name}", "torch.nn", work


def attention(lengths: Sequence[int] = (256, 1024, 2048)) -> Table:
    """Self-attention of 8 heads, d_model 256: the whole layer, and its kernel alone."""
    d_model, n_heads = 256, 8
    ours = MultiHeadAttention(d_model, n_heads).eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True).eval()
    for n in lengths:
        x = torch.randn(1, n, d_model)
        work = {
            "lib": partial(ours, x),
            "lib, the weights alone": partial(ours.attention_weights, x),
            "nn.MultiheadAttention": partial(theirs, x, x, x, need_weights=False),
            "bare fused": partial(bare, ours, x),
        }
        yield f"self-attention, n = {n}", "bare fused", {k: quiet(f) for k, f in work.items()}


def bare(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The same layer as five bare calls into torch, without our checks."""
    q, k, v = (
        w(x).unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)
        for w in (layer.w_q, layer.w_k, layer.w_v)
    )
    return layer.w_o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def decoding(
    size: Size = SIZES["medium"],
    greedy: Sequence[int] = (16, 64, 128, 256),
    beam: Sequence[int] = (16, 64),
) -> Table:
    """Writing a fixed number of tokens, batch 1: greedily, and with a beam of 4."""
    source, lengths = torch.randint(4, size.vocab, (1, size.time)), torch.tensor([size.time])
    peers = {name: model.eval() for name, model in models(size).items()}
    for name in ("lib", "Hugging Face"):
        if name in peers:
            by_columns = store_by_columns(deepcopy(peers[name]))
            peers[f"{name}, weights by columns"] = by_columns
    for count in greedy:
        work = {
            name: quiet(partial(model.write, source, lengths, count))
            for name, model in peers.items()
            if hasattr(model, "write")
        }
        yield f"greedy, {count} tokens", "Hugging Face", work
    for count in beam:
        work = {
            name: quiet(partial(model.search, source, lengths, count, 4))
            for name, model in peers.items()
            if hasattr(model, "search")
        }
        yield f"beam 4, {count} tokens", "Hugging Face", work


def window(lengths: Sequence[int] = (512, 1024, 2048, 4096)) -> Table:
    """Attention to a window of 128 keys, beside full attention through the fused kernel."""
    for n in lengths:
        qkv = torch.randn(3, 1, 8, n, 32).unbind()
        work = {
            "full, fused": partial(scaled_dot_product_attention, *qkv),
            "windowed": partial(windowed_attention, *qkv, 64),
            "windowed, causal": partial(windowed_attention, *qkv, 64, causal=True),
        }
        yield f"window of 128, n = {n}", "full, fused", {k: quiet(f) for k, f in work.items()}


GROUPS: dict[str, Callable[..., Table]] = {
    "recurrent": recurrent,
    "training": training,
    "forward": forward,
    "attention": attention,
    "decoding": decoding,
    "window": window,
}
