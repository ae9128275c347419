"""The laboratory "Take a part out": a Transformer trains in the page without some of its parts.

The task and the settings of its training are in the engine (`parts` in `engine/tasks.js`).
"""

from typing import NamedTuple

from traitlets import Bool, Int

from engine.laboratory import HIGHEST_SEED, TrainsInPage
from widgets import domain
from widgets.base import static_paragraph, static_table


class Part(NamedTuple):
    """A part of the model: the name of its switch, how a text names it, and what is left then."""

    label: str
    words: str
    left: str


PARTS = {
    "cross_attention": Part(
        "cross-attention", "cross-attention", "the decoder never reads the source"
    ),
    "causal_mask": Part(
        "causal mask", "the causal mask", "in training each word sees all that come after it"
    ),
    "residual": Part(
        "residual path", "the residual path", "LayerNorm(Sublayer(x)) in place of the sum"
    ),
    "positions": Part("positions", "positions", "a set of digits, and a set of words"),
    "encoder_self_attention": Part(
        "encoder's self-attention",
        "the encoder's self-attention",
        "no digit knows which digits stand beside it",
    ),
    "decoder_self_attention": Part(
        "decoder's self-attention",
        "the decoder's self-attention",
        "each word sees the word before it alone",
    ),
    "feed_forward": Part(
        "feed-forward networks", "the feed-forward networks", "attention and norms alone"
    ),
    "heads": Part("more than one head", "all heads but one", "one head of the whole d_model"),
    "root": Part(
        "division by √d_k", "the division by √d_k", "the softmax takes the scores as they are"
    ),
    "norms": Part("norms", "the norms", "the sum goes on as it is"),
    "relu": Part("ReLU", "the ReLU", "two matrices one behind the other"),
}
LEAD = (
    "A Transformer of one encoder and one decoder layer learns to write numbers in English words. "
    "Take a part out and train: the model without it stands beside the whole one, which has the "
    "same seed and the same examples."
)


class TakeOut(TrainsInPage):
    """Train a Transformer without some of its parts in the page, beside the whole one.

    Args: without, names of `PARTS` that are out at the start; seed, a whole number from 0 to 9999.
    Errors: ValueError for a part that there is not, and for another seed.
    """

    _module = "take_out"
    lead = domain.Fixed(LEAD)
    parts = domain.Fixed()
    cross_attention = Bool(True)
    causal_mask = Bool(True)
    residual = Bool(True)
    positions = Bool(True)
    encoder_self_attention = Bool(True)
    decoder_self_attention = Bool(True)
    feed_forward = Bool(True)
    heads = Bool(True)
    root = Bool(True)
    norms = Bool(True)
    relu = Bool(True)
    seed = Int(0, min=0, max=HIGHEST_SEED)

    def __init__(self, *without: str, seed: int = 0):
        for part in without:
            if part not in PARTS:
                domain.refuse("without", f"names out of {', '.join(PARTS)}", repr(part))
        parts = [[name, part.label, part.words] for name, part in PARTS.items()]
        super().__init__(lead=LEAD, parts=parts, seed=seed, **dict.fromkeys(without, False))

    def summary(self) -> str:
        taken = [part.words for name, part in PARTS.items() if not getattr(self, name)]
        return f"TakeOut: without {', '.join(taken) or 'nothing'}, seed {self.seed}"

    def static_html(self) -> str:
        """The parts that a reader can take out, and what is left without each."""
        caption = "What the page can train this model without"
        rows = [(part.words, part.left) for part in PARTS.values()]
        return static_paragraph(LEAD) + static_table(caption, ("without", "what is left"), rows)
