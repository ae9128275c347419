"""Many recorded runs of a translator: accuracy by source length over state, training and rate."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traitlets import Enum

from chapters.seq2seq.edits import edits
from chapters.seq2seq.recorded_runs import recorded
from widgets import domain
from widgets.base import BookWidget, static_table

AXES = ("d_hidden", "steps", "lr")
MARKS = {"right": "", "wrong": "~", "missing": "^"}  # before a word that a model wrote, or left out


class BottleneckRuns(BookWidget):
    """Choose a run by its state dimension, its steps and its rate; see at what lengths it fails.

    The curve of the chosen run stands among those that differ from it in one setting. Below it
    the reader sees what this run wrote for a sentence of the chosen length, and whether it still
    knows the same items, amounts or dates, when more items follow them.

    Args: record, what `experiments/bottleneck.py` has recorded of one model; d_hidden, steps and
        lr, each one that is recorded; along, the setting in which the pale curves differ, one of
        `AXES`; length, the class of lengths, and example, the sentence of this class, both counted
        from 0.
    Errors: ValueError for a start that the controls cannot reach, or for a record of other form.
    Source: figure 2 of Bahdanau et al. 2015, over the settings that it left out.
    """

    _module = "bottleneck_runs"
    d_hidden = domain.OneOf(lambda widget: widget.dimensions, 128)
    steps = domain.OneOf(lambda widget: widget.counts, 1250)
    lr = domain.OneOf(lambda widget: widget.rates, 2e-3)
    along = Enum(AXES, "d_hidden")
    length = domain.Place()
    example = domain.Place()
    lengths = domain.Fixed()
    sentences = domain.Fixed()
    runs = domain.Fixed()
    items = domain.Fixed()
    dimensions = domain.Fixed()
    counts = domain.Fixed()
    rates = domain.Fixed()

    def __init__(self, record: Mapping[str, Any], **start: Any):
        try:
            sets = record["sets"]
            edges, trained = sets["edges"], sets["trained_bins"]
            shortest = [edges[0], *(edge + 1 for edge in edges[1:-1])]
            lengths = [
                {"label": f"{low} to {high}", "count": count, "trained": i < trained}
                for i, (low, high, count) in enumerate(
                    zip(shortest, edges[1:], sets["sentences_per_bin"], strict=True)
                )
            ]
            sentences = [
                [[side.split() for side in pair] for pair in pairs] for pairs in sets["sentences"]
            ]
            runs = list(_points(record["runs"], sentences))
            items = {"count": sets["probe_items"], "trained": sets["trained_items"]}
        except (KeyError, TypeError, IndexError) as error:
            expected = "what experiments/bottleneck.py writes"
            domain.refuse("record", expected, f"a record in which {error!r} is missing or other")
        known = [sorted({run[axis] for run in runs}) for axis in AXES]
        options = dict(zip(("dimensions", "counts", "rates"), known, strict=True))
        data = {"lengths": lengths, "sentences": sentences, "runs": runs, "items": items}
        super().__init__(**options, **data, **start)

    @classmethod
    def recorded(cls, **start: Any) -> "BottleneckRuns":
        """The widget over the runs that the book has recorded."""
        return cls(recorded(), **start)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "length", len(self.lengths) - 1
        yield "example", max(map(len, self.sentences)) - 1

    def shares(self, d_hidden: int, steps: int, lr: float) -> list[list[float]] | None:
        """For each seed, the fraction of sentences translated exactly in each class of lengths.

        None for a run that is not recorded.
        """
        for run in self.runs:
            if (run["d_hidden"], run["steps"], run["lr"]) == (d_hidden, steps, lr):
                counts = [one["count"] for one in self.lengths]
                return [
                    [right / count for right, count in zip(row, counts, strict=True)]
                    for row in run["right"]
                ]
        return None

    def summary(self) -> str:
        return (
            f"BottleneckRuns: {len(self.runs)} points of recorded runs, {len(self.lengths)} lengths"
        )

    def static_html(self) -> str:
        header = ("run", *(one["label"] for one in self.lengths))
        last: dict[tuple, dict[str, Any]] = {}
        for run in self.runs:
            last[run["d_hidden"], run["lr"]] = run  # the later steps come later
        rows = []
        for (d_hidden, lr), run in last.items():
            shares = self.shares(d_hidden, run["steps"], lr) or []
            means = [sum(column) / len(column) for column in zip(*shares, strict=True)]
            name = f"dimension {d_hidden}, {run['steps']:,} steps at {lr:g}"
            rows.append((name, *(f"{100 * mean:.0f} %" for mean in means)))
        caption = "Sentences translated exactly, by tokens in the source; mean over seeds"
        return static_table(caption, header, rows)


def _points(recorded: Sequence[Mapping[str, Any]], sentences: list) -> Iterator[dict[str, Any]]:
    """One entry for each dimension, number of steps and rate; its seeds side by side."""
    found: dict[tuple, dict[str, Any]] = {}
    for run in recorded:
        for point in run["checkpoints"]:
            key = (run["d_hidden"], point["step"], run["lr"])
            entry = found.setdefault(
                key, dict(zip(AXES, key, strict=True)) | {"right": [], "items": [], "written": []}
            )
            entry["right"].append([row[0] for row in point["bins"]])
            entry["items"].append([row[1] for row in point["probes"]])  # whole, standing first
            if not entry["written"] and "examples" in point:
                entry["written"] = [
                    [_marked(said.split(), pair[1]) for said, pair in zip(*both, strict=True)]
                    for both in zip(point["examples"], sentences, strict=True)
                ]
    for key in sorted(found):
        yield found[key]


def _marked(output: Sequence[str], reference: Sequence[str]) -> str:
    """A translation with a mark before each wrong and each missing word; "" if it is right."""
    if list(output) == list(reference):
        return ""
    return " ".join(MARKS[edit.kind] + edit.word for edit in edits(output, reference))
