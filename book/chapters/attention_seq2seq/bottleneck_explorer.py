"""Two models side by side over the length of the source: one fixed context, and attention."""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from lib.data import Pair
from lib.metrics import accuracy_by_length
from widgets import domain
from widgets.base import BookWidget, static_table

NAMES = ("last state only", "attention")


class Example(TypedDict):
    """A sentence, its reference, and what each of the two models wrote: tokens."""

    source: list[str]
    reference: list[str]
    outputs: list[list[str]]


class Bin(TypedDict):
    """The sources of some lengths."""

    label: str  # the lengths in source tokens, such as "6 to 10"
    count: int  # of held-out sentences
    accuracy: list[float]  # of each model, its fraction of exact translations
    examples: list[Example]


class BottleneckExplorer(BookWidget):
    """Slide the length of the source; see how often, and how, each of two models errs.

    Args: bins, from short sources to long ones; names, what the two models are called; bin, where
        the slider starts, counted from 0.
    Errors: ValueError for other than two names, or a start that the controls cannot reach.
    Source: figure 2 of Bahdanau et al. 2015, made to move.
    """

    _module = "bottleneck_explorer"
    bins = domain.Fixed()
    names = domain.Fixed()
    bin = domain.Place()
    example = domain.Place()  # past the last one of a bin, it begins again

    def __init__(self, bins: Sequence[Bin], *, names: Sequence[str] = NAMES, bin: int = 0):
        if len(names) != 2:
            domain.refuse("names", "2 names of models", len(names))
        super().__init__(bins=list(bins), names=list(names), bin=bin)

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
        bins: list[Bin] = []
        for one, other in zip(*both, strict=True):
            inside: list[Example] = [
                {
                    "source": list(pair.source),
                    "reference": list(pair.target),
                    "outputs": [list(output) for output in outputs],
                }
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
