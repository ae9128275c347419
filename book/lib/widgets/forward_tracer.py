"""A tracer through a whole forward pass: every layer, every head, every position."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from lib.data import BOS, EOS, Pair, Vocabulary
from lib.decoding import greedy
from lib.layers import Residual
from lib.maps import attention_maps
from lib.transformer import Transformer
from lib.widgets import validate
from lib.widgets.base import BookWidget, quantise, static_table

SIZES = ("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab", "pre_norm")
FIELDS = ("source", "read", "said", "maps", "lengths", "changes", "guesses")
WHOLE = 1000  # weights and probabilities are stored as whole thousandths
KINDS = {
    "self": ("self_attention", "self-attention"),
    "cross": ("cross_attention", "cross-attention"),
    "feed": ("feed_forward", "feed-forward network"),
}


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


class ForwardTracer(BookWidget):
    """Walk through a Transformer's forward pass: shapes, maps of every head, and what comes out.

    Args: sizes, a mapping with d_model, n_heads, d_ff, n_layers, source_vocab, target_vocab and
        pre_norm (True or False); sentences, a list of mappings, one for each sentence:
        source, read, said   tokens of the source, of target_in, and what the model says at each
        maps      by the name of an attention layer: (heads, query, key) weights
        lengths   for each stage of `stages_of`, the length of each position's vector after it
        changes   the same, the length of what the stage adds; empty where it adds nothing
        guesses   for each stage of the decoder, for each position, a list of (token, probability)
        sentence, stage, head, position: where the reader starts, counted from 0.
    Errors: ValueError naming the sentence and the field, what was expected and what came.
    Source: ours. Chapter: 10 (The Transformer).
    """

    _module = "forward_tracer"
    sizes = traitlets.Dict().tag(sync=True)
    stages = traitlets.List().tag(sync=True)
    sentences = traitlets.List().tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        sizes: Mapping[str, Any],
        sentences: Sequence[Mapping[str, Any]],
        *,
        sentence: int = 0,
        stage: int = 0,
        head: int = 0,
        position: int = 0,
    ):
        sizes = dict(validate.fields(sizes, SIZES, "sizes"))
        stages = stages_of(sizes["n_layers"], sizes["pre_norm"])
        found = validate.items(sentences, "sentences")
        checked = [_sentence(s, stages, sizes, f"sentences[{i}]") for i, s in enumerate(found)]
        one = checked[validate.index(sentence, len(checked), "sentence")]
        side = stages[validate.index(stage, len(stages), "stage")]["side"]
        validate.index(head, sizes["n_heads"], "head")
        validate.index(position, len(one["source" if side == "source" else "read"]), "position")
        super().__init__(
            sizes=sizes, stages=stages, sentences=checked, sentence=sentence, stage=stage,
            head=head, position=position,
        )  # fmt: skip

    @classmethod
    def from_model(
        cls,
        model: Transformer,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        max_length: int = 40,
        k: int = 5,
        **start: int,
    ) -> "ForwardTracer":
        """Translate the sources of `pairs` greedily, then trace each with what the model said.

        Args: k, how many guesses to keep at the projection (3 before it); start, as above.
        """
        config = model.config
        sizes = {name: getattr(config, name) for name in SIZES[:4]}
        sizes |= {"source_vocab": len(source_vocab), "target_vocab": len(target_vocab)}
        sizes["pre_norm"] = config.norm == "pre"
        stages = stages_of(config.n_layers, sizes["pre_norm"])
        sentences = []
        for pair in pairs:
            source = torch.tensor([[*source_vocab.encode(pair.source), EOS]])
            lengths = torch.tensor([source.shape[1]])
            said = greedy(model, source, lengths, max_length)[0]
            read = torch.cat([said.new_full((1, 1), BOS), said[:, :-1]], dim=1)
            passed = _passed(model, (source, lengths, read), stages)
            maps = attention_maps(model, source, lengths, read)
            sentences.append(
                {
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
            )
        return cls(sizes, sentences, **start)

    def summary(self) -> str:
        number = len(self.sentences)
        sentences = f"{number} sentence{'s' if number > 1 else ''}"
        return f"ForwardTracer: {sentences} through {len(self.stages)} steps of a Transformer"

    def static_html(self) -> str:
        one = self.sentences[self.sentence]
        rows = [
            (read, said, f"{guesses[0][1] / 10:.0f} %")
            for read, said, guesses in zip(
                one["read"], one["said"], one["guesses"][-1], strict=True
            )
        ]
        caption = f"What the decoder says after each token, for: {' '.join(one['source'])}"
        return static_table(caption, ("it reads", "it says", "probability"), rows)


@torch.no_grad()
def _passed(
    model: Transformer, inputs: tuple[Tensor, ...], stages: list[dict[str, Any]]
) -> list[tuple[Tensor | None, Tensor]]:
    """For each stage the stream before it, or None where it adds nothing, and after it."""
    found: dict[str, tuple[Tensor | None, Tensor]] = {}
    hooks = []

    def keep(name: str, module: torch.nn.Module, args: tuple, output: Tensor) -> None:
        before = args[0][0] if isinstance(module, Residual) else None
        found[name] = before, output[0]
        if name.endswith(".layers.0.self_attention"):  # what the first layer reads
            found[f"{name.split('.')[0]}.embedding"] = None, before

    for stage in stages:
        if stage["kind"] != "embed":
            module = model.get_submodule(stage["name"])
            hook = (lambda name: lambda *call: keep(name, *call))(stage["name"])
            hooks.append(module.register_forward_hook(hook))
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
    """What the projection would say of the decoder's stream after each of its stages."""
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


def _sentence(one: Any, stages: list[dict], sizes: dict[str, Any], where: str) -> dict[str, Any]:
    """One sentence, checked; weights and probabilities become whole thousandths."""
    one = validate.fields(one, FIELDS, where)
    tokens = {name: validate.tokens(one[name], f"{where}.{name}") for name in FIELDS[:3]}
    times = {"source": len(tokens["source"]), "target": len(tokens["read"])}
    _require(len(tokens["said"]), times["target"], f"{where}.said", "tokens")
    wanted = [s for s in stages if s["kind"] in ("self", "cross")]
    maps = validate.fields(one["maps"], [s["name"] for s in wanted], f"{where}.maps")
    checked = {}
    for stage in wanted:
        name, queries = stage["name"], times[stage["side"]]
        keys = times["source"] if stage["kind"] == "cross" else queries
        _require(len(maps[name]), sizes["n_heads"], f"{where}.maps[{name!r}]", "heads")
        checked[name] = [
            _thousandths(validate.matrix(head, queries, keys, f"{where}.maps[{name!r}]"))
            for head in maps[name]
        ]
    tables = {}
    for name in ("lengths", "changes"):
        _require(len(one[name]), len(stages), f"{where}.{name}", "stages")
        tables[name] = quantise(one[name], 2)
        for stage, row in zip(stages, tables[name], strict=True):
            if row or name == "lengths":
                _require(len(row), times[stage["side"]], f"{where}.{name}", "positions")
    decoder = [s for s in stages if s["side"] == "target"]
    _require(len(one["guesses"]), len(decoder), f"{where}.guesses", "stages of the decoder")
    guesses = []
    for rows in one["guesses"]:
        _require(len(rows), times["target"], f"{where}.guesses", "positions")
        guesses.append(
            [[[t, _thousandths(validate.share(p, where))] for t, p in row] for row in rows]
        )
    return {**tokens, "maps": checked, **tables, "guesses": guesses}


def _thousandths(value: Any) -> Any:
    return [_thousandths(v) for v in value] if isinstance(value, list) else round(WHOLE * value)


def _require(got: int, wanted: int, where: str, what: str) -> None:
    if got != wanted:
        raise ValueError(f"{where}: expected {wanted} {what}, got {got}")
