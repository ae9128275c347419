"""What Transformers write that were trained on real text without one of their parts.

The models are those of `experiments/parts_real_text.py`; its record holds what each of them wrote.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from measure.records import read_results
from widgets import domain
from widgets.base import BookWidget, static_paragraph, static_table
from widgets.records import pack_record

RECORD = "parts_real_text"
WHOLE = "nothing"  # the part that the whole model lacks
# The chapter that builds each part, by its concept
CHAPTERS = {
    "cross_attention": "attention_seq2seq",
    "causal_mask": "masking",
    "residual": "feed_forward_norm",
    "positions": "positions",
    "encoder_self_attention": "self_attention",
    "feed_forward": "feed_forward_norm",
    "decoder_self_attention": "self_attention",
    "root": "attention_layer",
    "heads": "multi_head",
    "norms": "feed_forward_norm",
    "relu": "feed_forward_norm",
    "embedding_scale": "embeddings",
    "padding_mask": "masking",
    "w_o": "multi_head",
    "encoder": "transformer",
    "warm_up": "training",
}
LEAD = (
    "These Transformers learned to translate captions of pictures from German into English. One of "
    "them is whole. Each of the others was trained without one part, with the same sentences and "
    "settings. Choose the part."
)
BOOK = Path(__file__).parents[2]


class WrittenWithout(BookWidget):
    """Compare what the whole model writes with what one writes that never had a part.

    Args: part, a name of the record's parts, and seed, one of its seeds, the first of them unless
        given; sentence, the number of the one that is shown, from 1, or 0 for all; record, of the
        form that `experiments/parts_real_text.py` writes, which is the one taken unless given.
    Errors: ValueError for a part, a seed or a sentence that the record does not have, and for a
        record without the whole model or without any other.
    """

    _module = "written_without"
    lead = domain.Fixed(LEAD)
    pairs = domain.Fixed()  # the source and the right English of each sentence
    parts = domain.Fixed()  # of each model its name, its words, its BLEU by seed, and its chapter
    said = domain.Fixed()  # what two models write; the others come when a reader asks for them
    packed = domain.Fixed()  # what comes then
    part = domain.OneOf(lambda self: [one["name"] for one in self.parts[1:]])
    seed = domain.OneOf(lambda self: [int(seed) for seed in self.parts[0]["bleu"]])
    sentence = domain.Place()

    def __init__(
        self,
        part: str | None = None,
        *,
        seed: int | None = None,
        sentence: int = 0,
        record: Mapping[str, Any] | None = None,
    ):
        record = read_results(RECORD) if record is None else record
        packed = pack_record(record)
        parts = parts_of(record)
        names = [one["name"] for one in parts]
        if names[:1] != [WHOLE] or len(names) < 2:
            domain.refuse("record", "the whole model, and others of the same seeds", names)
        part = names[1] if part is None else part
        seed = int(next(iter(parts[0]["bleu"]))) if seed is None else seed
        began = str(seed)
        super().__init__(
            lead=LEAD,
            pairs=[[pair["source"], pair["wanted"]] for pair in shown_of(record)],
            parts=parts,
            said={
                name: {began: packed.texts[name][began]}
                for name in (WHOLE, part)
                if began in packed.texts.get(name, ())
            },
            packed={"id": packed.id, "bytes": packed.bytes},
            part=part,
            seed=seed,
            sentence=sentence,
        )
        self._record = packed
        self.on_msg(self._answer)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "sentence", len(self.pairs)

    def _answer(self, _: Any, content: Any, buffers: Any) -> None:
        """Send the texts to a notebook's front end that asks for them."""
        if content.get("wanted") == self.packed["id"]:
            self.send({"id": content.get("id"), "record": self._record.texts})

    def summary(self) -> str:
        number = f"sentence {self.sentence}" if self.sentence else f"{len(self.pairs)} sentences"
        return f"WrittenWithout: without {self._words()}, seed {self.seed}, {number}"

    def static_html(self) -> str:
        """All sentences, as the whole model and the other one write them."""
        caption = f"What a model writes that was trained without {self._words()}"
        header = ("German", "right English", "the whole model", "without the part")
        said = [self._record.texts[name].get(str(self.seed), ()) for name in (WHOLE, self.part)]
        rows = [
            (*pair, *texts) for pair, *texts in zip(self.pairs, *said, strict=False)
        ]  # none of a seed that the model does not have
        return static_paragraph(LEAD) + static_table(caption, header, rows)

    def _words(self) -> str:
        return next(one["words"] for one in self.parts if one["name"] == self.part)


def shown_of(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """The pairs that each model has translated; the record has one task."""
    [shown] = record["shown"].values()
    return shown


def parts_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The models of a record, the whole one first, as the page gets them.

    A part that has been left out on other seeds than the whole model has, has no model to stand
    beside, and is not among them.
    """
    bleu: dict[str, dict[str, float]] = {}
    for run in sorted(record["runs"], key=lambda one: one["seed"]):
        bleu.setdefault(run["part"], {})[str(run["seed"])] = run["bleu"]
    seeds = bleu.get(WHOLE, {})
    found = [
        {
            "name": name,
            "words": words,
            "bleu": {seed: bleu[name][seed] for seed in seeds if seed in bleu[name]},
            "chapter": chapter_of(name),
        }
        for name, words in record["parts"].items()
        if name in bleu
    ]
    return [one for one in found if one["bleu"]]


def chapter_of(part: str) -> list[Any]:
    """The number and the page of the chapter that builds a part; nothing for the whole model."""
    if part not in CHAPTERS:
        return []
    [path] = BOOK.glob(f"[0-9]*_{CHAPTERS[part]}.ipynb")
    return [int(path.stem.partition("_")[0]), path.stem]
