"""A tracer through a whole forward pass: every layer, every head, every position."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chapters.transformer.tracing import Traced, stages_of, trace_sentence
from lib.data import Pair, Vocabulary
from lib.transformer import Transformer
from widgets import domain
from widgets.base import static_table
from widgets.model_widget import ModelWidget
from widgets.packing import PackedModel, pack_model

SIZES = (
    *("d_model", "n_heads", "d_ff", "n_layers", "source_vocab", "target_vocab", "pre_norm"),
    *("positions", "tied"),
)
WHOLE = 1000  # weights and probabilities are stored as whole thousandths


class ForwardTracer(ModelWidget):
    """Walk through a forward pass: shapes, attention maps of all heads, and what comes out.

    Args: sizes, `SIZES` by name; sentences, what `trace_sentence` returns; packed, the model
        itself: the reader can then write sentences, and sees them traced; ready, sentences that are
        offered to try; sentence, stage, head, position, where the reader starts, counted from 0.
    Errors: ValueError for a start that the controls cannot reach, and for words in `ready` that the
        model does not have.
    """

    _module = "forward_tracer"
    sizes = domain.Fixed()
    stages = domain.Fixed()
    sentences = domain.Fixed()
    sentence = domain.Place()
    stage = domain.Place()
    head = domain.Place()
    position = domain.Place()

    def __init__(
        self,
        sizes: Mapping[str, Any],
        sentences: Sequence[Traced],
        *,
        packed: PackedModel | None = None,
        ready: Sequence[str] = (),
        **start: Any,
    ):
        super().__init__(
            packed,
            ready,
            sizes=dict(sizes),
            stages=stages_of(sizes["n_layers"], sizes["pre_norm"]),
            sentences=[_small(one) for one in sentences],
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
        vocabs = source_vocab, target_vocab
        sentences = [
            trace_sentence(model, pair.source, *vocabs, max_length=max_length, k=k)
            for pair in pairs
        ]
        try:
            packed = pack_model(model, *vocabs)
        except ValueError:  # a choice of the configuration that the page cannot compute
            packed = None
        return cls(sizes_of(model, *vocabs), sentences, packed=packed, ready=ready, **start)

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


def sizes_of(
    model: Transformer, source_vocab: Vocabulary, target_vocab: Vocabulary
) -> dict[str, Any]:
    """`SIZES` by name, for a model."""
    config = model.config
    sizes = {name: getattr(config, name) for name in SIZES[:4]}
    sizes |= {"source_vocab": len(source_vocab), "target_vocab": len(target_vocab)}
    sizes |= {"pre_norm": config.norm == "pre", "tied": config.tied}
    sizes["positions"] = config.positions
    return sizes


def _small(one: Traced) -> dict[str, Any]:
    """A sentence as the page gets it: weights and probabilities are whole thousandths."""
    return {
        "source": one["source"],
        "read": one["read"],
        "said": one["said"],
        "maps": {name: _thousandths(weights) for name, weights in one["maps"].items()},
        "lengths": domain.quantise(one["lengths"], 2),
        "changes": domain.quantise(one["changes"], 2),
        "guesses": [
            [[[token, _thousandths(p)] for token, p in guesses] for guesses in stage]
            for stage in one["guesses"]
        ],
    }


def _thousandths(value: Any) -> Any:
    if isinstance(value, list):
        return [_thousandths(v) for v in value]
    return round(WHOLE * domain.quantise(value))
