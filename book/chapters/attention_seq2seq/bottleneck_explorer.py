"""Two models side by side over the length of the source: one fixed context, and attention."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lib.data import Pair
from lib.metrics import accuracy_by_length
from widgets import domain
from widgets.base import BookWidget, static_table

NAMES = ("last state only", "attention")


class BottleneckExplorer(BookWidget):
    """Slide the length of the source; see how often, and how, each of two models errs.

    Args: bins, a list of mappings from short sources to long ones:
        label     the lengths in source tokens, such as "6 to 10"
        count     how many held-out sentences have such a length
        accuracy  two numbers from 0 to 1, one for each model: its fraction of exact translations
        examples  sentences of such a length, as mappings of `source`, `reference` (tokens) and
                  `outputs` (the tokens that each of the two models wrote)
        names: what the two models are called
        bin: where the slider starts, counted from 0.
    Errors: ValueError naming the bin and the field, what was expected and what came.
    Source: figure 2 of Bahdanau et al. 2015, made to move.
    """

    _module = "bottleneck_explorer"
    bins = domain.Fixed()
    names = domain.Fixed()
    bin = domain.Whole()
    example = domain.Whole()  # past the last one of a bin, it begins again

    def __init__(
        self, bins: Sequence[Mapping[str, Any]], *, names: Sequence[str] = NAMES, bin: int = 0
    ):
        names = domain.items(names, "names", domain.text, 2, "names of models")
        super().__init__(bins=domain.items(bins, "bins", _bin), names=names, bin=bin)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "bin", len(self.bins) - 1
        yield "example", max(len(one["examples"]) for one in self.bins) - 1

    @classmethod
    def from_predictions(
        cls,
        pairs: Sequence[Pair],
        context: Sequence[Sequence[str]],
        attention: Sequence[Sequence[str]],
        edges: Sequence[int],
        *,
        names: Sequence[str] = NAMES,
        examples: int = 4,
        digits: int = 2,
    ) -> "BottleneckExplorer":
        """Sort two models' translations of `pairs` into bins of length, as accuracy_by_length does.

        Args: the pairs, each model's output tokens in the same order, the edges of the bins;
        examples, how many to keep of each bin: the first ones, not the best or the worst.
        Errors: ValueError as accuracy_by_length, or for a bin without sentences.
        """
        both = [accuracy_by_length(outputs, pairs, edges) for outputs in (context, attention)]
        bins = []
        for one, other in zip(*both, strict=True):
            inside = [
                {"source": pair.source, "reference": pair.target, "outputs": outputs}
                for pair, *outputs in zip(pairs, context, attention, strict=True)
                if one.shortest <= len(pair.source) <= one.longest
            ]
            if not inside:
                lengths = f"{one.shortest} to {one.longest}"
                raise ValueError(
                    f"expected sentences of {lengths} tokens, got none; move the edges"
                )
            bins.append(
                {
                    "label": f"{one.shortest} to {one.longest}",
                    "count": one.count,
                    "accuracy": [round(one.accuracy, digits), round(other.accuracy, digits)],
                    "examples": inside[:examples],
                }
            )
        return cls(bins, names=names)

    def summary(self) -> str:
        return f"BottleneckExplorer: {self.names[0]} and {self.names[1]}, {len(self.bins)} lengths"

    def static_html(self) -> str:
        header = ("tokens in the source", *self.names)
        rows = [
            (one["label"], *(f"{100 * share:.0f} %" for share in one["accuracy"]))
            for one in self.bins
        ]
        return static_table("Held-out sentences translated exactly, by length", header, rows)


_example = domain.record(
    source=domain.tokens,
    reference=domain.tokens,
    outputs=domain.listed(  # a model may write nothing at all
        lambda output, where: domain.tokens(output, where, least=0),
        size=2,
        what="lists of tokens, one of each model",
    ),
)
_bin = domain.record(
    label=domain.text,
    count=domain.whole,
    accuracy=domain.listed(domain.number, size=2, what="shares, one for each model"),
    examples=domain.listed(_example),
)
