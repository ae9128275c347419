"""The laboratory "Bottleneck": a recurrent model copies lists of digits, from one vector or more.

The task and the settings of its training are in the engine (`engine/copying.js`).
"""

from traitlets import Enum, Int

from engine.laboratory import HIGHEST_SEED, TrainsInPage
from widgets import domain
from widgets.base import static_paragraph, static_table

STATES = (8, 16, 32)
LONGEST = (4, 8, 12)
COUNTS = {"lists": "whole lists", "digits": "digits"}
TITLES = {
    False: "Train it here: how long a list fits into one vector?",
    True: "Train it here: one vector, or all states",
}
LEADS = {
    False: "A small encoder and decoder learn to copy lists of digits. All that the decoder gets "
    "is the encoder's last state. Choose its dimension and train: each run adds a curve.",
    True: "Two models learn to copy lists of digits. They have the same encoder and the same "
    "examples, but one decoder gets only the last state, and the other attends to all of them.",
}


class Bottleneck(TrainsInPage):
    """Train a recurrent model in the page to copy lists of digits; see where it fails by length.

    Args: attention, whether a model with attention trains beside the one that has one vector;
        state, the dimension of both states; longest, the digits of the longest list; count, what
        the curve counts, a name of `COUNTS`; seed, a whole number from 0 to 9999.
    Errors: ValueError for a value that the panel does not offer.
    """

    _module = "bottleneck"
    _positional = 1
    attention = domain.Fixed(False)
    title = domain.Fixed()
    lead = domain.Fixed()
    counts = domain.Fixed(list(COUNTS.items()))
    state = Enum(STATES, 16)
    longest = Enum(LONGEST, 12)
    count = Enum(tuple(COUNTS), "lists")
    seed = Int(0, min=0, max=HIGHEST_SEED)

    def __init__(self, attention: bool = False, **start: object):
        super().__init__(
            attention=attention, title=TITLES[attention], lead=LEADS[attention], **start
        )

    def summary(self) -> str:
        models = "one vector and attention" if self.attention else "one vector"
        return (
            f"Bottleneck: {models}, state {self.state}, lists of 2 to {self.longest} digits, "
            f"seed {self.seed}"
        )

    def static_html(self) -> str:
        """What a reader can set, with the start and the options."""
        rows = [
            ("State dimension", str(self.state), ", ".join(map(str, STATES))),
            ("Longest list", f"{self.longest} digits", ", ".join(map(str, LONGEST))),
            ("Count", COUNTS[self.count], ", ".join(COUNTS.values())),
            ("Seed", str(self.seed), f"0 to {HIGHEST_SEED}"),
        ]
        caption = "What the page trains, and what a reader can set"
        return static_paragraph(self.lead) + static_table(caption, ("", "start", "options"), rows)
