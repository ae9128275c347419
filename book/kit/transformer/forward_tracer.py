"""A tracer through a whole forward pass: every layer, every head, every position."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from kit.shared import validate
from kit.shared.widget import BookWidget, quantise, static_table
from kit.transformer.packing import PackedModel, pack_model
from kit.transformer.tracing import stages_of, trace_sentence
from lib.data import Pair, Vocabulary, tokenise
from lib.transformer import Transformer

SIZES = ("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab", "pre_norm")
FIELDS = ("source", "read", "said", "maps", "lengths", "changes", "guesses")
WHOLE = 1000  # weights and probabilities are stored as whole thousandths
LONGEST = {"longest": 48, "max_length": 60}  # tokens of a reader's source, and of its translation


class ForwardTracer(BookWidget):
    """Walk through a Transformer's forward pass: shapes, maps of every head, and what comes out.

    Args: sizes, a mapping with d_model, n_heads, d_ff, n_layers, source_vocab, target_vocab and
        pre_norm (True or False); sentences, a list of mappings, one for each sentence:
        source, read, said   tokens of the source, of target_in, and what the model says at each
        maps      by the name of an attention layer: (heads, query, key) weights
        lengths   for each stage of `stages_of`, the length of each position's vector after it
        changes   the same, the length of what the stage adds; empty where it adds nothing
        guesses   for each stage of the decoder, for each position, a list of (token, probability)
        packed, the model itself: the reader can then write sentences, and sees them traced
        ready, sentences that are offered to try
        sentence, stage, head, position: where the reader starts, counted from 0.
    Errors: ValueError naming the sentence and the field, what was expected and what came.
    """

    _module = "forward_tracer"
    sizes = traitlets.Dict().tag(sync=True)
    stages = traitlets.List().tag(sync=True)
    sentences = traitlets.List().tag(sync=True)
    engine = traitlets.Dict().tag(sync=True)
    own = traitlets.Unicode("").tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        sizes: Mapping[str, Any],
        sentences: Sequence[Mapping[str, Any]],
        *,
        packed: PackedModel | None = None,
        ready: Sequence[str] = (),
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
            head=head, position=position, engine=_engine(packed, ready),
        )  # fmt: skip
        self._packed = packed
        self.on_msg(self._answer)

    def _answer(self, _: Any, content: Any, buffers: Any) -> None:
        """Send the model to a notebook's front end that asks for it; it is not stored there."""
        if self._packed and content.get("wanted") == self._packed.id:
            message = {"model": self._packed.id, "header": self._packed.header}
            self.send(message, buffers=[self._packed.data])

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
        ready: Sequence[str] = (),
        **start: int,
    ) -> "ForwardTracer":
        """Translate the sources of `pairs` greedily, then trace each with what the model said.

        The model is offered to the reader's own sentences too, if `parts/transformer.js` can
        compute it.
        Args: k, how many guesses to keep at the projection (at most 3 before it); ready and
            start, as above.
        """
        config = model.config
        sizes = {name: getattr(config, name) for name in SIZES[:4]}
        sizes |= {"source_vocab": len(source_vocab), "target_vocab": len(target_vocab)}
        sizes["pre_norm"] = config.norm == "pre"
        vocabs = source_vocab, target_vocab
        sentences = [
            trace_sentence(model, pair.source, *vocabs, max_length=max_length, k=k)
            for pair in pairs
        ]
        try:
            packed = pack_model(model, *vocabs)
        except ValueError:  # a choice of the configuration that the page cannot compute
            packed = None
        return cls(sizes, sentences, packed=packed, ready=ready, **start)

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


def _engine(packed: PackedModel | None, ready: Sequence[str]) -> dict[str, Any]:
    """What the page must know of the model before it loads it; nothing without a model."""
    if packed is None:
        if ready:
            raise ValueError(f"ready: expected none without a model to translate, got {ready!r}")
        return {}
    words = packed.header["source_words"]
    for i, text in enumerate(ready):
        unknown = [token for token in tokenise(text) if token not in words]
        if unknown or not text.strip():
            raise ValueError(
                f"ready[{i}]: expected words of the model, got {unknown or 'an empty sentence'}"
            )
    about = {"id": packed.id, "bytes": len(packed.data), "words": words, "ready": list(ready)}
    return about | LONGEST


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
