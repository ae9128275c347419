"""The laboratory of chapter 14: a language model of characters or byte pairs, on a reader's text.

The task and the settings of its training are in the engine (`engine/writing.js`); the texts are in
`engine/texts`, and a page loads one when its reader presses Train.
"""

from typing import Any

import traitlets
from traitlets import Enum, Float, Int, Unicode

from engine.laboratory import HIGHEST_SEED, TrainsInPage
from engine.text import writing_text
from engine.texts import TEXTS, text_of
from widgets import domain
from widgets.base import static_paragraph, static_table

OWN = "own"
LONGEST = 30  # characters of a prefix
DROPOUTS = (0.0, 0.1, 0.3)
MERGES = (0, 50, 100, 200, 400)  # of byte pairs; 0: characters
TOP_K = (0, 1, 2, 3, 5, 10, 20)  # 0: all
TITLE = "Train a language model on your own text"
LEAD = (
    "A decoder-only Transformer with two layers learns to predict how a text goes on. "
    "A tenth of the text is kept back to test it. Then it continues what you type."
)


class Language(TrainsInPage):
    """Train a language model of characters or byte pairs in the page, and let it write.

    Args: text, a name of `TEXTS` or "own" for the reader's; merges, how many byte pairs it learns
        from the text, of `MERGES`, 0 for characters; dropout, a rate of `DROPOUTS`; prefix, what it
        continues; temperature; top_k, of `TOP_K`; top_p; seed, a whole number from 0 to 9999.
    Errors: ValueError for a value that the panel does not offer.
    """

    _module = "language"
    _positional = 1
    lead = domain.Fixed(LEAD)
    title = domain.Fixed(TITLE)
    texts = domain.Fixed()
    text = Enum((*TEXTS, OWN), "names")
    merges = Enum(MERGES, 0)
    dropout = Enum(DROPOUTS, 0.1)
    prefix = Unicode("", help=f"a text of at most {LONGEST} characters")
    temperature = Float(1.0, min=0.1, max=2.0)
    top_k = Enum(TOP_K, 0)
    top_p = Float(1.0, min=0.1, max=1.0)
    seed = Int(0, min=0, max=HIGHEST_SEED)

    def __init__(self, text: str = "names", **start: Any):
        texts = [[name, one.label, one.source] for name, one in TEXTS.items()]
        super().__init__(lead=LEAD, title=TITLE, texts=texts, text=text, **start)

    @traitlets.validate("prefix")
    def _is_short(self, proposal: Any) -> str:
        if len(proposal.value) > LONGEST:
            domain.refuse("prefix", f"a text of at most {LONGEST} characters", repr(proposal.value))
        return proposal.value

    def _answer(self, widget: Any, content: Any, buffers: Any) -> None:
        """Send a text of the book's or the task, or what every laboratory sends."""
        if content.get("wanted") in ("text", "writing"):
            name = content.get("name")
            text = text_of(name) if name in TEXTS else ""
            if content["wanted"] == "writing":
                text = writing_text()
            self.send({"id": content.get("id"), "text": text})
            return
        super()._answer(widget, content, buffers)

    def summary(self) -> str:
        pieces = _pieces(self.merges)
        return f"Language: {self.text}, {pieces}, dropout {self.dropout:g}, seed {self.seed}"

    def static_html(self) -> str:
        """What a reader can set, with the start and the options."""
        labels = {name: one.label for name, one in TEXTS.items()} | {OWN: "your own text"}
        rates = ", ".join(f"{rate:g}" for rate in DROPOUTS)
        rows = [
            ("Text", labels[self.text], ", ".join(labels.values())),
            ("Pieces", _pieces(self.merges), ", ".join(map(_pieces, MERGES))),
            ("Dropout", f"{self.dropout:g}", rates),
            ("Temperature", f"{self.temperature:g}", "0.1 to 2"),
            ("Top-k", str(self.top_k or "all"), ", ".join(str(k or "all") for k in TOP_K)),
            ("Top-p", f"{self.top_p:g}", "0.1 to 1"),
            ("Seed", str(self.seed), f"0 to {HIGHEST_SEED}"),
        ]
        caption = "What the page trains, and what a reader can set"
        return static_paragraph(LEAD) + static_table(caption, ("", "start", "options"), rows)


def _pieces(merges: int) -> str:
    return f"byte pairs, {merges} merges" if merges else "characters"
