"""The first page's trainer: one press trains a Transformer from digits to English words.

The task is `parts` of `engine/tasks.js` with all its parts. The page knows what the untrained model
writes from the record of `benchmarks/train_now.py`.
"""

import re
from collections.abc import Mapping
from typing import Any

import traitlets
from traitlets import Int, Unicode

from engine.laboratory import HIGHEST_SEED, TrainsInPage
from engine.without import LEFT_OUT, SETTINGS
from measure.records import read_results
from widgets import domain
from widgets.base import static_paragraph, static_table

LEAD = "It learns to write numbers in words."
NEXT = (
    ("Take a part out in chapter 10", "10_transformer.html#take-a-part-out"),
    ("or begin with chapter 1", "01_seq2seq.html"),
)


class TrainNow(TrainsInPage):
    """Train a Transformer in the page by one press, and watch it learn to write a number.

    Args: number, of one to five digits; seed, a whole number from 0 to 9999; record, what
        `benchmarks/train_now.py` has measured, unless another is given.
    Errors: ValueError for another number or seed.
    """

    _module = "train_now"
    lead = domain.Fixed(LEAD)
    settings = domain.Fixed()
    before = domain.Fixed()
    next = domain.Fixed()
    number = Unicode(help="a whole number of one to five digits, as text")
    seed = Int(0, min=0, max=HIGHEST_SEED)

    def __init__(
        self,
        number: str | None = None,
        *,
        seed: int = 0,
        record: Mapping[str, Any] | None = None,
    ):
        self._measured = record or read_results("train_now")
        first = self._measured["first"]
        super().__init__(
            lead=LEAD,
            settings=dict.fromkeys([*LEFT_OUT, *SETTINGS], True),
            before={
                "number": self._measured["number"],
                "words": first["writes"].split(),
                "weights": first["weights"],
            },
            next=[list(one) for one in NEXT],
            number=self._measured["number"] if number is None else number,
            seed=seed,
        )

    @traitlets.validate("number")
    def _is_number(self, proposal: Any) -> str:
        if not re.fullmatch(r"0|[1-9]\d{0,4}", proposal.value, re.ASCII):
            domain.refuse("number", "a whole number of one to five digits", repr(proposal.value))
        return proposal.value

    def summary(self) -> str:
        return f"TrainNow: {self.number}, seed {self.seed}"

    def static_html(self) -> str:
        """What the recorded run wrote for its number after some of its steps."""
        number, history = self._measured["number"], self._measured["history"]
        caption = f"A run of it: what the model writes for {number}, and the new numbers right"
        rows = [
            (f"after step {one['step']}", one["writes"], f"{one['accuracy']:.0%}")
            for one in history
        ]
        text = (
            "Here the page trains a Transformer that learns to write numbers in English words, in "
            "a few seconds. That needs scripts; the table shows a run that was recorded."
        )
        header = ("", f"{number} becomes", "right")
        return static_paragraph(text) + static_table(caption, header, rows)
