"""Our layers beside torch's: the same tensors under our names."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from lib.attention import MultiHeadAttention


def copy_from_torch(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make a layer of ours with the sizes, the type and the parameters of torch's own.

    torch keeps W_Q, W_K and W_V on top of each other in one matrix where the input dimensions
    are equal, and apart where they are not.

    Errors: ValueError for bias_kv or zero attention, which the paper does not have.
    Source: torch's documentation.
    """
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise ValueError("expected no bias_kv and no zero attention, got a layer with them")
    d_model, bias = theirs.embed_dim, theirs.in_proj_bias is not None
    ours = MultiHeadAttention(
        d_model,
        theirs.num_heads,
        d_key_in=theirs.kdim,
        d_value_in=theirs.vdim,
        bias=bias,
        dropout=theirs.dropout,
    ).to(theirs.out_proj.weight)
    packed = theirs.in_proj_weight
    apart = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = apart if packed is None else packed.chunk(3)
    with torch.no_grad():
        for number, projection in enumerate((ours.w_q, ours.w_k, ours.w_v)):
            projection.weight.copy_(weights[number])
            if bias:
                projection.bias.copy_(theirs.in_proj_bias.chunk(3)[number])
        ours.w_o.load_state_dict(theirs.out_proj.state_dict())
    return ours


def named_as_ours(
    theirs: nn.Transformer, read: Callable[[nn.Parameter], Tensor] = lambda parameter: parameter
) -> dict[str, Tensor]:
    """Return the tensors of an nn.Transformer under the names that `lib.transformer` gives them.

    torch keeps W_Q, W_K and W_V of an attention layer on top of each other in one matrix; here
    they come apart, as views. To set our weights: `ours.load_state_dict(..., strict=False)`, where
    only embeddings, projection and learned positions are missing: torch's model has none.

    Args: read, what to take of each parameter; `lambda p: p.grad` gives the gradients.
    Source: torch's documentation.
    """
    found: dict[str, Tensor] = {}
    for name, stack in (("encoder", theirs.encoder), ("decoder", theirs.decoder)):
        for number, layer in enumerate(stack.layers):
            for part, tensor in _layer(layer, read):
                found[f"{name}.layers.{number}.{part}"] = tensor
        if stack.norm is not None:
            found |= {f"{name}.norm.{part}": tensor for part, tensor in _norm(stack.norm, read)}
    return found


def _layer(layer: nn.Module, read: Callable) -> Iterator[tuple[str, Tensor]]:
    sublayers = {"self_attention": layer.get_submodule("self_attn")}
    if isinstance(layer, nn.TransformerDecoderLayer):
        sublayers["cross_attention"] = layer.multihead_attn
    for name, attention in sublayers.items():
        for kind in ("weight", "bias"):
            packed = read(getattr(attention, f"in_proj_{kind}"))
            for letter, tensor in zip("qkv", packed.chunk(3), strict=True):
                yield f"{name}.sublayer.w_{letter}.{kind}", tensor
            yield f"{name}.sublayer.w_o.{kind}", read(attention.get_parameter(f"out_proj.{kind}"))
    for number, linear in enumerate((layer.linear1, layer.linear2), start=1):
        for kind in ("weight", "bias"):
            yield f"feed_forward.sublayer.w_{number}.{kind}", read(getattr(linear, kind))
    for number, name in enumerate((*sublayers, "feed_forward"), start=1):
        for part, tensor in _norm(getattr(layer, f"norm{number}"), read):
            yield f"{name}.norm.{part}", tensor


def _norm(norm: nn.LayerNorm, read: Callable) -> Iterator[tuple[str, Tensor]]:
    yield "gain", read(norm.weight)
    yield "bias", read(norm.bias)


def torch_masks(source_mask: Tensor, target_time: int) -> dict[str, Tensor]:
    """Turn the mask of our encoder into the keyword arguments of nn.Transformer: True = masked.

    Shapes: source_mask (batch, 1, source_time), True = may attend.
    Source: torch's documentation.
    """
    later = torch.ones(target_time, target_time, dtype=torch.bool, device=source_mask.device)
    padding = ~source_mask.squeeze(1)  # (batch, source_time)
    return {
        "tgt_mask": later.triu(1),
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
