"""The base of widgets whose page can load a model, and translate a sentence of the reader's own."""

from collections.abc import Sequence
from typing import Any

from traitlets import Bunch, Unicode, validate

from lib.data import tokenise
from widgets import domain
from widgets.base import BookWidget
from widgets.packing import PackedModel

LONGEST = {"longest": 48, "max_length": 60}  # tokens of a reader's source, and of its translation
# The same for a model that reads any word. It stops where `train.translator` does: after as many
# tokens as the source has, rounded up to a multiple of `round`, and `extra` more.
LONGEST_OF_ANY = {"longest": 100, "max_length": 154, "round": 8, "extra": 50}


class ModelWidget(BookWidget):
    """A widget with a packed model, which a page gets from a file and a notebook from the kernel.

    A subclass declares `sentence`, the number of the sentence that is shown: that of the reader's
    own one, `own`, comes after those that are stored.

    Args: packed, the model, or None; ready, sentences that are offered to try; state and data, the
        subclass's traits.
    Errors: ValueError for a sentence with words that the model does not have.
    """

    engine = domain.Fixed()
    own = Unicode()

    def __init__(self, packed: PackedModel | None, ready: Sequence[str], **traits: Any):
        super().__init__(engine=_engine(packed, ready), **traits)
        self._packed = packed
        self.on_msg(self._answer)

    @validate("own")
    def _known(self, proposal: Bunch) -> str:
        """The reader's own sentence: words of the model, which there must be, or nothing."""
        name, value = "own", proposal.value
        found = tokenise(value)
        if value and not self.engine:
            domain.refuse(name, "no sentence without a model to translate it", repr(value))
        if value and not 1 <= len(found) <= self.engine["longest"]:
            domain.refuse(name, f"1 to {self.engine['longest']} words", len(found))
        if unknown := _unknown(self.engine, found):
            domain.refuse(name, "words of the model", unknown)
        return value

    def _answer(self, _: Any, content: Any, buffers: Any) -> None:
        """Send the model to a notebook's front end that asks for it; it is not stored there."""
        if self._packed and content.get("wanted") == self._packed.id:
            message = {"model": self._packed.id, "header": self._packed.header}
            self.send(message, buffers=[self._packed.data])


def _unknown(engine: dict[str, Any], tokens: Sequence[str]) -> list[str]:
    """The words that the model refuses: none if it reads any."""
    return [token for token in tokens if token not in engine.get("words", tokens)]


def _engine(packed: PackedModel | None, ready: Sequence[str]) -> dict[str, Any]:
    """What the page must know of the model before it loads it; nothing without a model.

    A model of the book's has a list of words, which are all that it reads. A reader's own one may
    have more than a page should list, and reads any word: one that it does not know is <unk>.
    """
    if packed is None:
        if ready:
            domain.refuse("ready", "none without a model to translate", repr(ready))
        return {}
    about: dict[str, Any] = {"id": packed.id, "bytes": len(packed.data)}
    own = "lower" in packed.header
    if own:
        about["lower"] = packed.header["lower"]
    else:
        about["words"] = packed.header["source_words"]
    about |= {"ready": list(ready), **(LONGEST_OF_ANY if own else LONGEST)}
    for i, offered in enumerate(ready):
        unknown = _unknown(about, tokenise(offered))
        if unknown or not offered.strip():
            domain.refuse(f"ready[{i}]", "words of the model", unknown or "an empty sentence")
    return about
