"""Properties of a Transformer put together by hand: all of it, the shift, a layer, its size."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from checks.framework import (
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    normals,
    require,
    require_close,
    require_gradients,
    stir,
)
from lib.data import BOS, EOS, PAD
from lib.masks import causal_mask
from lib.transformer import Config, DecoderLayer, Transformer

SIZES: dict[str, Any] = {"d_model": 12, "n_heads": 2, "d_ff": 17, "n_layers": 3, "dropout": 0.0}
LONGEST = 16  # positions of `Parts`
COUNTED = (  # sizes that no two terms of a formula share
    Config(37_000),
    Config(37_000, d_model=1024, n_heads=16, d_ff=4096),
    Config(101, d_model=24, n_heads=4, d_ff=37, n_layers=5, norm="pre"),
    Config(101, d_model=24, n_heads=4, d_ff=37, n_layers=5, tied=False),
    Config(101, 53, d_model=24, n_heads=4, d_ff=37, n_layers=1),
    Config(101, 53, d_model=24, n_heads=4, d_ff=37, n_layers=2, tied=False, norm="pre"),
)


@dataclass(frozen=True)
class LayerParts:
    """What a layer consists of: its attention, its network and a norm for each sub-layer.

    A decoder layer has a cross-attention too, and a third norm.
    """

    attention: nn.Module
    network: nn.Module
    norms: tuple[nn.Module, ...]
    cross_attention: nn.Module | None = None


@dataclass(frozen=True)
class Parts:
    """What a Transformer consists of, before anybody connects it.

    source, target  the embedding matrices (vocab, d_model)
    positions       the sines and cosines (longest, d_model)
    encoder, decoder  their layers, from the first to the last
    """

    source: Tensor
    target: Tensor
    positions: Tensor
    encoder: list[LayerParts]
    decoder: list[LayerParts]


def parts_of(model: Transformer) -> Parts:
    """Take a post-norm model of the library apart."""

    def layer_parts(layer: nn.Module) -> LayerParts:
        names = [name for name, _ in layer.named_children()]  # cross_attention in a decoder alone
        norms = tuple(layer.get_submodule(f"{name}.norm") for name in names)
        bare = {name: layer.get_submodule(f"{name}.sublayer") for name in names}
        attention, network = bare["self_attention"], bare["feed_forward"]
        return LayerParts(attention, network, norms, bare.get("cross_attention"))

    source, target = model.source_embedding.weight, model.target_embedding.weight
    table = model.encoder.positions.add(source.new_zeros(1, LONGEST, source.shape[1]))
    encoder, decoder = (
        [layer_parts(layer) for layer in stack.layers] for stack in (model.encoder, model.decoder)
    )
    return Parts(source, target, table[0], encoder, decoder)


def _connected(
    parts: Parts,
    source: Tensor,
    target_in: Tensor,
    *,
    scale: bool = True,
    source_positions: bool = True,
    target_positions: bool = True,
    padding: bool = True,
    cross_padding: bool = True,
    causal: bool = True,
    causal_encoder: bool = False,
    causal_memory: bool = False,
    residual: bool = True,
    normed: bool = True,
    pre: bool = False,
    memory: str = "last",
    cross_first: bool = False,
    network: bool = True,
) -> Tensor:
    """The forward pass, or with another choice what a usual mistake makes of it."""
    times = source.shape[1], target_in.shape[1]
    real = (source != PAD)[:, None] if padding else None
    read = (source != PAD)[:, None] if cross_padding else None
    own = causal_mask(times[1]) if causal else None
    if causal_encoder:
        later = causal_mask(times[0])
        real = later if real is None else real & later
    if causal_memory:
        read = causal_mask(times[1], times[0]) & (source != PAD)[:, None]

    def around(x: Tensor, run: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        if pre:
            return x + run(norm(x))
        x = run(x) + (x if residual else 0)
        return norm(x) if normed else x

    factor = math.sqrt(parts.source.shape[1]) if scale else 1
    x = parts.source[source] * factor
    y = parts.target[target_in] * factor
    x = x + parts.positions[: times[0]] if source_positions else x
    y = y + parts.positions[: times[1]] if target_positions else y

    def to_itself(layer: LayerParts, mask: Tensor | None) -> Callable[[Tensor], Tensor]:
        return lambda x: layer.attention(x, x, mask=mask)

    def to_memory(layer: LayerParts, memory: Tensor) -> Callable[[Tensor], Tensor]:
        assert layer.cross_attention is not None, "a decoder layer"
        return partial(layer.cross_attention, x_key=memory, mask=read)

    outputs = [x]
    for layer in parts.encoder:
        x = around(x, to_itself(layer, real), layer.norms[0])
        x = around(x, layer.network, layer.norms[1]) if network else x
        outputs.append(x)
    for number, layer in enumerate(parts.decoder):
        of = {"last": x, "embedded": outputs[0], "level": outputs[number + 1]}[memory]
        steps = [(to_itself(layer, own), layer.norms[0]), (to_memory(layer, of), layer.norms[1])]
        for run, norm in steps[::-1] if cross_first else steps:
            y = around(y, run, norm)
        y = around(y, layer.network, layer.norms[2]) if network else y
    return y @ parts.target.T


MISTAKES: dict[str, dict[str, Any]] = {
    "the embeddings are not multiplied by the root of d_model": {"scale": False},
    "the source has no positions": {"source_positions": False},
    "the target has no positions": {"target_positions": False},
    "neither side has positions": {"source_positions": False, "target_positions": False},
    "padding of the source is read in the encoder": {"padding": False},
    "padding of the memory is read in the cross-attention": {"cross_padding": False},
    "padding is read: both the encoder and the cross-attention need its mask": {
        "padding": False,
        "cross_padding": False,
    },
    "a position of the target attends to later ones: the causal mask is missing": {"causal": False},
    "the encoder has a causal mask: it may read the whole source": {"causal_encoder": True},
    "the memory is read under a causal mask; any position may read all of it": {
        "causal_memory": True
    },
    "nothing is added: the output of a sub-layer takes the place of its input": {"residual": False},
    "no norm is applied": {"normed": False},
    "the norms stand before the sub-layers (pre-norm); the paper has them after each sum": {
        "pre": True
    },
    "the memory is the embedded source: no encoder layer reaches the decoder": {
        "memory": "embedded"
    },
    "each decoder layer reads the encoder layer beside it; all read the last one": {
        "memory": "level"
    },
    "cross-attention comes after self-attention": {"cross_first": True},
    "the feed-forward networks are missing": {"network": False},
}


@check("the Transformer")
def check_transformer(forward: Callable[[Parts, Tensor, Tensor], Tensor]) -> Steps:
    """Check forward(parts, source, target_in) -> logits: the paper's model, from its `Parts`.

    Shapes: source (batch, source_time), filled with PAD; target_in (batch, time); logits
        (batch, time, target_vocab).
    """
    draw = torch.Generator().manual_seed(0)
    model = Transformer(Config(29, 23, **SIZES)).double()
    with torch.no_grad():
        stir(model)
    parts = parts_of(model)
    lengths = torch.tensor([7, 4, 2])
    source = torch.randint(4, 29, (3, 7), generator=draw)
    source = source.masked_fill(torch.arange(7) >= lengths[:, None], PAD)
    target = torch.randint(4, 23, (3, 5), generator=draw)

    got = forward(parts, source, target)
    expect_tensor(
        got, (3, 5, 23), "a tensor", "; it is (batch, time, target_vocab)", like=parts.source
    )
    want = model(source, lengths, target)
    wrong = {says: _connected(parts, source, target, **how) for says, how in MISTAKES.items()}
    wrong |= {
        "these are probabilities: the logits are wanted, without a softmax": want.softmax(-1),
        "target_in is shifted already": _connected(parts, source, target.roll(1, 1)),
    }
    otherwise = (
        "expected the logits of the library's model with the same parameters, got others; go "
        "through it layer by layer: what is each sub-layer given, what is added to what, and "
        "which norm follows"
    )
    require_close(got, want, otherwise, wrong)
    yield "equal to the library's model with the same parameters"

    later = target.clone()
    later[:, 3] = 4 + (target[:, 3] - 3) % 19
    changed = forward(parts, source, later)
    yield {
        "a token of target_in changes earlier logits": not close(changed[:, :3], got[:, :3]),
    }
    alone = forward(parts, source[1:2, :4], target[1:2])
    yield {
        "the padding of a sentence, or its batch, changes its logits": not close(alone[0], got[1]),
    }
    yield "no logit depends on a later token, nor on padding"

    require_gradients(
        lambda source_matrix, target_matrix: forward(
            replace(parts, source=source_matrix, target=target_matrix), source, target
        ),
        lambda source_matrix, target_matrix: _connected(
            replace(parts, source=source_matrix, target=target_matrix), source, target
        ),
        source_matrix=parts.source.detach(),
        target_matrix=parts.target.detach(),
    )
    yield "gradients reach both embedding matrices"


@check("shift right")
def check_shift_right(shift: Callable[[Tensor], Tensor]) -> Steps:
    """Check shift(target_out) -> target_in: BOS, then the targets, one step late.

    Shapes: target_out (batch, time), each row ends with EOS and is filled with PAD; target_in the
        same. What stands where target_out is PAD is not looked at: nobody reads the output there.
    """
    rows = [[7, 5, 9, 4, EOS], [8, EOS, PAD, PAD, PAD], [6, 6, 6, EOS, PAD]]
    hint = "; it is that of target_out, whose last token is never read: it makes room for BOS"
    for out in (torch.tensor(rows), torch.tensor([[EOS]]), torch.tensor(rows[:1])):
        target_in = expect_tensor(shift(out), out.shape, "a tensor of tokens", hint, like=out)
        for given, said in zip(target_in.tolist(), out.tolist(), strict=True):
            length = len(said) - said.count(PAD)
            right = [BOS, *said[: length - 1]]
            require(
                given[:length] == right,
                f"to predict {said} the decoder must read {right}, got {given[:length]}: BOS "
                f"= {BOS}, then at position t the target of t - 1",
            )
    yield from ("BOS comes first", "position t reads the target of t - 1")


@check("decoder layer")
def check_decoder_layer(layer: Callable[..., Tensor]) -> Steps:
    """Check layer(x, memory, memory_mask, self_attention, cross_attention, feed_forward).

    The last three are sub-layers in their `Residual`, which adds and normalises.
    Shapes: x (batch, time, d_model), memory (batch, source_time, d_model), memory_mask
        (batch, 1, source_time). Returns the shape of x.
    """
    x, memory = normals((3, 5, 12), (3, 7, 12))
    own = causal_mask(5)
    mask = torch.arange(7) < torch.tensor([7, 4, 2])[:, None, None]  # (batch, 1, source_time)
    for norm in ("post", "pre"):
        parts = DecoderLayer(Config(29, norm=norm, **SIZES)).double()
        attend, cross, feed = parts.children()
        got = layer(x, memory, mask, attend, cross, feed)
        expect_tensor(got, x.shape, "a tensor", "; it is the shape of x", like=x)

        def run(own: Tensor | None = own, mask: Tensor | None = mask, parts: Any = parts) -> Tensor:
            return parts(x, memory, mask=own, memory_mask=mask)

        alone = attend(x, mask=own)
        swapped = attend(cross(x, memory, mask=mask), mask=own)
        added = x + alone
        added = added + cross(added, memory, mask=mask)
        both = mask & causal_mask(5, 7)
        mistakes = {
            "a position attends to later ones: where is the causal mask of self-attention?": run(
                None
            ),
            "the causal mask is the wrong way round: rows are queries": run(own.T),
            "the padding of the memory is read: pass memory_mask to cross_attention": run(
                mask=None
            ),
            "memory_mask is inverted: True = may be read": run(mask=~mask),
            "the memory is never read": feed(alone),
            "cross-attention reads x: give it the memory": feed(cross(alone, mask=own)),
            "the memory is read under a causal mask; any position may read all of it": run(
                mask=both
            ),
            "the sub-layers add by themselves: x + ... adds twice": added + feed(added),
            "self_attention(x, x) hands over keys without their norm: give x once": feed(
                cross(attend(x, x, mask=own), memory, mask=mask)
            ),
            "there is no feed-forward network at the end": cross(alone, memory, mask=mask),
            "cross-attention comes after self-attention": feed(swapped),
        }
        order = (
            f"with {norm}-norm: expected self-attention under a causal mask, then cross-attention "
            "from x to the memory under memory_mask, then feed-forward, got another output"
        )
        require_close(got, run(), order, mistakes)
    yield "no position depends on a later one"
    yield "the memory is read, its padding is not"
    yield "equal to the library's layer with the same parameters, post-norm and pre-norm"


@check("forward pass")
def check_forward(forward: Callable[..., Tensor]) -> Steps:
    """Check forward(model, source, source_lengths, target_in) -> logits, from the model's layers.

    The models have sinusoidal positions, post-norm or pre-norm, and no dropout.
    Shapes: source (batch, source_time), target_in (batch, time), logits (batch, time, vocab).
    """
    seeded = torch.Generator().manual_seed(0)
    source = torch.randint(4, 29, (3, 7), generator=seeded)
    target = torch.randint(4, 23, (3, 5), generator=seeded)
    lengths = torch.tensor([7, 4, 1])
    later = target.clone()
    later[:, 3] = 4 + (target[:, 3] - 3) % 19
    padded = torch.where(torch.arange(7) < lengths[:, None], source, PAD)
    why = {
        "post": "other logits than with positions on both sides, an encoder under the padding "
        "mask alone, its last output as the memory of every decoder layer, and the projection; "
        "target_in as it is (shifted already), each side's own embedding as it is (scaled already)"
        ", logits without a softmax",
        "pre": "other logits; with post-norm they were right, so a norm at the end of a stack "
        "is missing, or is not that stack's own",
    }
    for norm, hint in why.items():
        model = Transformer(Config(29, 23, norm=norm, **SIZES)).double()
        stir(model)

        def run(source: Tensor, target: Tensor, model: nn.Module = model) -> Tensor:
            logits = forward(model, source, lengths, target)
            return expect_tensor(logits, (3, 5, 23), "a tensor", "; it is (batch, time, vocab)")

        got, want = run(source, target), model(source, lengths, target)
        read = not close(run(padded, target), got)
        yield {
            "a token of target_in changes earlier logits: "
            "the decoder has no causal mask": not close(run(source, later)[:, :3], got[:, :3]),
            "padding of the source is read: both stacks need the padding mask": read,
            "no gradient: the logits are detached from the model": not got.requires_grad,
        }
        require_close(got, want, f"with {norm}-norm: {hint}")
    yield from ("no logit depends on a later token", "padding is not read")
    yield "the library's logits, post and pre"


@check("parameter count")
def check_count(count: Callable[[Config], int]) -> Steps:
    """Check count(config): the number of parameters of a Transformer, without building one.

    The configurations differ in sizes, norm, tying and vocabularies; all have ReLU and sinusoids.
    """

    def refuse(*_: Any) -> None:
        require(False, "a model is built here: count without one")

    for config in COUNTED:
        with torch.device("meta"):  # shapes without numbers
            model = Transformer(config)
        building = register_module_parameter_registration_hook(refuse)
        try:
            got = expect(count(config), int, "a whole number")
        finally:
            building.remove()
        sizes = {name: p.numel() for name, p in model.named_parameters()}

        wanted, norms, last, cross, biases = (
            sum(size for name, size in sizes.items() if re.search(pattern, name))
            for pattern in ("", "norm", "^[^.]*.norm", "cross", "w_.*bias")
        )
        ends = config.source_vocab * config.d_model, model.target_embedding.weight.numel()
        why = {
            -biases: "the biases are missing",
            -norms: "the layer norms are missing",
            -norms - biases: "biases and layer norms are missing",
            -cross: "a decoder layer has two attentions",
            -last: "pre-norm has a last norm at the end of each stack",
            **{sum(ends[i:]): "a matrix that is shared counts once" for i in (0, 1)},
        }.get(got - wanted, "count each kind of layer by itself, and print them")
        require(
            got == wanted,
            f"{_brief(config)}: expected {wanted:,}, got {got:,} ({got - wanted:+,}); {why}",
        )
    yield from ("base and big", "pre-norm", "untied", "two vocabularies")


def _brief(config: Config) -> str:
    """What differs from the base model."""
    base = vars(Config(37_000))
    changed = [f"{name}={value!r}" for name, value in vars(config).items() if value != base[name]]
    return f"Config({', '.join(changed)})" if changed else "the base model, Config(37_000)"
