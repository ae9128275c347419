"""What the forward tracer shows of a sentence: every step of a model's forward pass, in numbers."""

from functools import partial
from typing import Any, TypedDict

import torch
from torch import Tensor

from lib.attention import attention_maps
from lib.data import BOS, EOS, Vocabulary
from lib.decoding import greedy
from lib.layers import Residual
from lib.transformer import Transformer

KINDS = {
    "self": ("self_attention", "self-attention"),
    "cross": ("cross_attention", "cross-attention"),
    "feed": ("feed_forward", "feed-forward network"),
}


class Traced(TypedDict):
    """A sentence on its way through a model; a stage is one of `stages_of`."""

    source: list[str]
    read: list[str]  # tokens of target_in
    said: list[str]  # the prediction after each
    maps: dict[str, list]  # by the name of an attention layer: (heads, query, key) weights
    lengths: list[list[float]]  # by stage, the length of each position's vector after it
    changes: list[list[float]]  # of what the stage adds; empty where it adds nothing
    guesses: list[list]  # by stage of the decoder, for each position pairs of token and probability


def stages_of(n_layers: int, pre_norm: bool) -> list[dict[str, Any]]:
    """The steps of a forward pass, in order: name of the module, side, kind and title."""
    stages = []
    for side, stack, kinds in (
        ("source", "encoder", ("self", "feed")),
        ("target", "decoder", ("self", "cross", "feed")),
    ):
        word = stack.capitalize()
        stages.append((f"{stack}.embedding", side, "embed", f"{word}: embedding"))
        for n in range(n_layers):
            for kind in kinds:
                name, title = KINDS[kind]
                title = f"{word} layer {n + 1}: {title}"
                stages.append((f"{stack}.layers.{n}.{name}", side, kind, title))
        if pre_norm:
            stages.append((f"{stack}.norm", side, "norm", f"{word}: last norm"))
    stages.append(("projection", "target", "project", "Projection to the vocabulary"))
    return [dict(zip(("name", "side", "kind", "title"), stage, strict=True)) for stage in stages]


def trace_sentence(
    model: Transformer,
    tokens: tuple[str, ...],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    max_length: int,
    k: int = 5,
) -> Traced:
    """Translate a source greedily, and return what `ForwardTracer` takes as one sentence.

    `tracing.js` does the same in the page.
    Args: k, how many guesses to keep at the projection (at most 3 before it).
    """
    stages = stages_of(model.config.n_layers, model.config.norm == "pre")
    source = torch.tensor([[*source_vocab.encode(tokens), EOS]])
    lengths = torch.tensor([source.shape[1]])
    said = greedy(model, source, lengths, max_length)[0]
    read = torch.cat([said.new_full((1, 1), BOS), said[:, :-1]], dim=1)
    passed = _passed(model, (source, lengths, read), stages)
    maps = attention_maps(model, source, lengths, read)
    return {
        "source": [source_vocab.tokens[i] for i in source[0]],
        "read": [target_vocab.tokens[i] for i in read[0]],
        "said": [target_vocab.tokens[i] for i in said[0]],
        "maps": {name: weights[0].tolist() for name, weights in maps.items()},
        "lengths": [after.norm(dim=-1).tolist() for _, after in passed],
        "changes": [
            [] if before is None else (after - before).norm(dim=-1).tolist()
            for before, after in passed
        ],
        "guesses": _guesses(model, passed, stages, target_vocab, k),
    }


@torch.no_grad()
def _passed(
    model: Transformer, inputs: tuple[Tensor, ...], stages: list[dict[str, Any]]
) -> list[tuple[Tensor | None, Tensor]]:
    """For each stage the residual stream before it, or None where it adds nothing, and after it."""
    found: dict[str, tuple[Tensor | None, Tensor]] = {}
    hooks = []

    def keep(name: str, module: torch.nn.Module, args: tuple, output: Tensor) -> None:
        before = args[0][0] if isinstance(module, Residual) else None
        found[name] = before, output[0]
        if name.endswith(".layers.0.self_attention"):  # what the first layer reads
            found[f"{name.split('.')[0]}.embedding"] = None, args[0][0]

    for stage in stages:
        if stage["kind"] != "embed":
            module = model.get_submodule(stage["name"])
            hooks.append(module.register_forward_hook(partial(keep, stage["name"])))
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return [found[stage["name"]] for stage in stages]


@torch.no_grad()
def _guesses(
    model: Transformer, passed: list, stages: list[dict[str, Any]], vocab: Vocabulary, k: int
) -> list[list]:
    """What the projection would make of the decoder's residual stream after each stage."""
    guesses = []
    for stage, (_, after) in zip(stages, passed, strict=True):
        if stage["side"] == "source":
            continue
        if stage["kind"] != "project":
            after = after if stage["kind"] == "norm" else model.decoder.norm(after)
            after = model.projection(after)
        best = after.softmax(dim=-1).topk(k if stage["kind"] == "project" else min(k, 3))
        guesses.append(
            [
                [(vocab.tokens[i], p) for i, p in zip(row, chances, strict=True)]
                for row, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        )
    return guesses
