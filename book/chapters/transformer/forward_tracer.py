"""A tracer through a whole forward pass: every layer, every head, every position."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chapters.transformer.tracing import stages_of, trace_sentence
from lib.data import Pair, Vocabulary
from lib.transformer import Transformer
from widgets import domain
from widgets.base import static_table
from widgets.model_widget import ModelWidget
from widgets.packing import PackedModel, pack_model

SIZES = ("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab", "pre_norm")
WHOLE = 1000  # weights and probabilities are stored as whole thousandths


class ForwardTracer(ModelWidget):
    """Walk through a forward pass: shapes, attention maps of all heads, and what comes out.

    Args: sizes, a mapping with d_model, n_heads, d_ff, n_layers, source_vocab, target_vocab and
        pre_norm (True or False); sentences, a list of mappings, one for each sentence:
        source, read, said   tokens of the source, of target_in, and the prediction after each
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
            packed,
            ready,
            sizes=sizes,
            stages=stages,
            sentences=domain.items(
                sentences, "sentences", lambda one, where: _sentence(one, where, stages, sizes)
            ),
            **start,
        )

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

        The model is offered to the reader's own sentences too, if `widgets/js/transformer.js` can
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
        caption = f"What the decoder predicts after each token, for: {' '.join(one['source'])}"
        return static_table(caption, ("it reads", "it says", "probability"), rows)


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
