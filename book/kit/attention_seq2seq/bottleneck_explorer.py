"""Two models side by side over the length of the source: one fixed context, and attention."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from kit.shared import validate
from kit.shared.widget import BookWidget, static_table
from lib.data import Pair
from lib.metrics import accuracy_by_length

NAMES = ("last state only", "attention")


class BottleneckExplorer(BookWidget):
    """Slide the length of the source; see how often, and how, each of two models errs.

    Args: bins, a list of mappings from short sources to long ones:
        label     the lengths in source tokens, such as "6 to 10"
        count     how many held-out sentences have such a length
        accuracy  two shares from 0 to 1, one for each model: sentences that are exactly right
        examples  sentences of such a length, as mappings of `source`, `reference` (tokens) and
                  `outputs` (the tokens that each of the two models wrote)
        names: what the two models are called
        bin: where the slider starts, counted from 0.
    Errors: ValueError naming the bin and the field, what was expected and what came.
    Source: figure 2 of Bahdanau et al. 2015, made to move.
    """

    _module = "bottleneck_explorer"
    bins = traitlets.List().tag(sync=True)
    names = traitlets.List().tag(sync=True)
    bin = traitlets.Int(0).tag(sync=True)
    example = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        bins: Sequence[Mapping[str, Any]],
        *,
        names: Sequence[str] = NAMES,
        bin: int = 0,
    ):
        found = validate.items(bins, "bins")
        called = validate.tokens(names, "names")
        if len(called) != 2:
            raise ValueError(f"names: expected the names of two models, got {called}")
        super().__init__(
            bins=[_bin(one, f"bins[{i}]") for i, one in enumerate(found)],
            names=called,
            bin=validate.index(bin, len(found), "bin"),
        )

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


def _bin(one: Any, where: str) -> dict[str, Any]:
    """One bin, checked and rounded."""
    one = validate.fields(one, ("label", "count", "accuracy", "examples"), where)
    [label] = validate.tokens([one["label"]], f"{where}.label")
    if isinstance(one["count"], bool) or not isinstance(one["count"], int) or one["count"] < 1:
        raise ValueError(f"{where}.count: expected a whole number above 0, got {one['count']!r}")
    accuracy = validate.items(one["accuracy"], f"{where}.accuracy")
    if len(accuracy) != 2:
        raise ValueError(
            f"{where}.accuracy: expected one share for each of 2 models, got {accuracy}"
        )
    examples = validate.items(one["examples"], f"{where}.examples")
    return {
        "label": label,
        "count": one["count"],
        "accuracy": [validate.share(share, f"{where}.accuracy") for share in accuracy],
        "examples": [_example(e, f"{where}.examples[{i}]") for i, e in enumerate(examples)],
    }


def _example(one: Any, where: str) -> dict[str, Any]:
    one = validate.fields(one, ("source", "reference", "outputs"), where)
    outputs = validate.items(one["outputs"], f"{where}.outputs")
    if len(outputs) != 2:
        raise ValueError(f"{where}.outputs: expected the tokens of 2 models, got {len(outputs)}")
    return {
        "source": validate.tokens(one["source"], f"{where}.source"),
        "reference": validate.tokens(one["reference"], f"{where}.reference"),
        "outputs": [  # a model may write nothing at all
            validate.tokens(output, f"{where}.outputs[{i}]", may_be_empty=True)
            for i, output in enumerate(outputs)
        ],
    }
