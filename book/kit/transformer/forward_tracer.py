"""A tracer through a whole forward pass: every layer, every head, every position."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.shared import domain
from kit.shared.widget import BookWidget, static_table
from kit.transformer.packing import PackedModel, pack_model
from kit.transformer.tracing import stages_of, trace_sentence
from lib.data import Pair, Vocabulary, tokenise
from lib.transformer import Transformer

SIZES = ("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab", "pre_norm")
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
    sizes = domain.Fixed()
    stages = domain.Fixed()
    sentences = domain.Fixed()
    engine = domain.Fixed()
    own = domain.State("", lambda self, *new: self._known(*new))
    sentence = domain.Whole()
    stage = domain.Whole()
    head = domain.Whole()
    position = domain.Whole()

    def __init__(
        self,
        sizes: Mapping[str, Any],
        sentences: Sequence[Mapping[str, Any]],
        *,
        packed: PackedModel | None = None,
        ready: Sequence[str] = (),
        **start: Any,
    ):
        sizes = _sizes(sizes, "sizes")
        if sizes["d_model"] % sizes["n_heads"]:
            got = f"{sizes['d_model']} and {sizes['n_heads']}"
            domain.refuse("sizes", "a d_model that n_heads divides", got)
        stages = stages_of(sizes["n_layers"], sizes["pre_norm"])
        super().__init__(
            sizes=sizes,
            stages=stages,
            sentences=domain.items(
                sentences, "sentences", lambda one, where: _sentence(one, where, stages, sizes)
            ),
            engine=_engine(packed, ready),
            **start,
        )
        self._packed = packed
        self.on_msg(self._answer)

    def _known(self, value: Any, name: str) -> str:
        """The reader's own sentence: words of the model, which there must be, or nothing."""
        found = tokenise(domain.text(value, name))
        if value and not self.engine:
            domain.refuse(name, "no sentence without a model to translate it", repr(value))
        if value and not 1 <= len(found) <= self.engine["longest"]:
            domain.refuse(name, f"1 to {self.engine['longest']} words", len(found))
        if unknown := [token for token in found if token not in self.engine["words"]]:
            domain.refuse(name, "words of the model", unknown)
        return value

    def limits(self) -> Iterator[tuple[str, int]]:
        count = len(self.sentences)  # the reader's own sentence has the next number
        yield "sentence", count if self.engine else count - 1
        yield "stage", len(self.stages) - 1
        yield "head", self.sizes["n_heads"] - 1
        if self.sentence == count:
            yield "position", self.engine["max_length"] - 1
        else:
            read = "source" if self.stages[self.stage]["side"] == "source" else "read"
            yield "position", len(self.sentences[self.sentence][read]) - 1

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
        stored = self.sentence < len(self.sentences)  # else the page alone has traced it
        one = self.sentences[self.sentence if stored else 0]
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
            domain.refuse("ready", "none without a model to translate", repr(ready))
        return {}
    words = packed.header["source_words"]
    for i, offered in enumerate(ready):
        unknown = [token for token in tokenise(offered) if token not in words]
        if unknown or not offered.strip():
            domain.refuse(f"ready[{i}]", "words of the model", unknown or "an empty sentence")
    about = {"id": packed.id, "bytes": len(packed.data), "words": words, "ready": list(ready)}
    return about | LONGEST


_sizes = domain.record(**dict.fromkeys(SIZES[:-1], domain.whole), pre_norm=domain.flag)
# What depends on the sizes is looked at in `_sentence`.
_fields = domain.record(
    source=domain.tokens,
    read=domain.tokens,
    said=domain.tokens,
    **dict.fromkeys(("maps", "lengths", "changes", "guesses"), domain.anything),
)


def _sentence(
    one: Any, where: str, stages: Sequence[Mapping[str, str]], sizes: Mapping[str, Any]
) -> dict[str, Any]:
    """One sentence, checked; weights and probabilities become whole thousandths."""
    found = _fields(one, where)
    times = {"source": len(found["source"]), "target": len(found["read"])}

    def sized(value: Any, where: str, size: int, what: str, check=domain.anything) -> list:
        return domain.items(value, where, check, size, what)

    sized(found["said"], f"{where}.said", times["target"], "tokens")
    attention = {stage["name"]: stage for stage in stages if stage["kind"] in ("self", "cross")}
    maps = domain.record(**dict.fromkeys(attention, domain.anything))(one["maps"], f"{where}.maps")
    for name, stage in attention.items():
        queries = times[stage["side"]]
        keys = times["source"] if stage["kind"] == "cross" else queries
        at = f"{where}.maps[{name!r}]"
        heads = sized(maps[name], at, sizes["n_heads"], "heads")
        maps[name] = [_thousandths(domain.matrix(head, at, queries, keys)) for head in heads]
    found["maps"] = maps
    for name in ("lengths", "changes"):
        found[name] = domain.quantise(one[name], 2)
        sized(found[name], f"{where}.{name}", len(stages), "stages")
        for stage, row in zip(stages, found[name], strict=True):
            if row or name == "lengths":
                sized(row, f"{where}.{name}", times[stage["side"]], "positions")

    def guessed(rows: Any, where: str) -> list[list]:
        said = sized(rows, where, times["target"], "positions", domain.guesses)
        return [[[token, _thousandths(p)] for token, p in row] for row in said]

    decoder = sum(stage["side"] == "target" for stage in stages)
    at = f"{where}.guesses"
    found["guesses"] = sized(one["guesses"], at, decoder, "stages of the decoder", guessed)
    return found


def _thousandths(value: Any) -> Any:
    return [_thousandths(v) for v in value] if isinstance(value, list) else round(WHOLE * value)
