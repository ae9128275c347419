"""A model of a laboratory as a file: out of the page into a notebook, and back into the page.

    model, card = load_model("order-run-1-step-150.safetensors")
    save_model("mine.safetensors", model, card)

The page's side is `engine/safetensors.js`. Both write the safetensors format: the parameters under
torch's names, and as metadata a card, which says what the model is made of and how it was trained.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor, nn

from engine.replay import CONFIGURED, TWO_SIDED, inputs_of, make_model
from lib.data import BOS, EOS
from lib.layers import in_mode

METADATA = "laboratory"
VERSION = 1  # raised when a file of the old kind can no longer be read
END = "<eos>"  # as a laboratory's vocabulary has it
WRITING = "writing"  # the task of the language model, whose text is among its settings
LINE_END = 0  # its token behind a line, and before the first one
BEYOND = 4  # tokens that a copy may be longer than its list, BOS among them


@dataclass(frozen=True)
class Card:
    """What a file says of its model.

    task      the laboratory's, as `engine/tasks.js` names it
    settings  as its panel has them, the seed among them
    step      after which step of training the model was taken
    design    what it is made of: `engine.replay.make_model(card.design)` is a new one, untrained
    tokens    the vocabulary that it reads and, where that is another one, the one that it writes
    """

    task: str
    settings: dict[str, Any]
    step: int
    design: dict[str, Any]
    tokens: list[list[str]]


def load_model(path: str | Path) -> tuple[nn.Module, Card]:
    """Load a model that a laboratory has trained, with its card.

    It is a model of `lib.transformer` or `lib.seq2seq`, without the parts that its design leaves
    out; the laboratory on neighbours has `engine.replay.Reader`. Given the same tokens it has the
    page's logits.
    Errors: ValueError for a file that is none, or damaged, or of another model than it says;
        FileNotFoundError.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"expected a file at {path}, got none; look where it was saved")
    try:
        with safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}
            numbers = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another one or a part of one: {error}; "
            "download it once more"
        ) from error
    card = _card(path, metadata)
    try:
        _require_sizes(card.design, numbers)
        with torch.device("meta"):  # no memory for a model that the file does not have
            _require_parameters(make_model(card.design), numbers)
        model = make_model(card.design)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{path}: expected the model of its card, got another: {error}") from error
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(numbers[name])
    return model.eval(), card


def save_model(path: str | Path, model: nn.Module, card: Card, *, step: int | None = None) -> None:
    """Write a model for the laboratory that its card names, which opens the file.

    Args: card, that of a file of this laboratory with the same settings, see `load_model`; step,
        how many steps the model has been trained, if not as many as the card says.
    Errors: ValueError for a model of another design, and for numbers that are not finite.
    """
    numbers = {
        name: parameter.detach().cpu().float().contiguous()
        for name, parameter in model.named_parameters()
    }
    _require_parameters(make_model(card.design), numbers)
    config = getattr(model, "config", None)
    for name in CONFIGURED & card.design.keys():
        wanted = card.design[name]
        got = getattr(config, name, wanted)
        if got != wanted:
            raise ValueError(
                f"expected a model with {name} {wanted!r}, as its card has it, got {got!r}; make "
                "one with engine.replay.make_model(card.design)"
            )
    if odd := [name for name, tensor in numbers.items() if not tensor.isfinite().all()]:
        raise ValueError(f"expected finite numbers, got others in {odd[0]}; lower the rate")
    card = card if step is None else replace(card, step=step)
    text = json.dumps({"version": VERSION, **asdict(card)}, ensure_ascii=False)
    Path(path).write_bytes(safetensors.save(numbers, {METADATA: text}))


def answer(model: nn.Module, card: Card, text: str) -> list[str]:
    """What a loaded model makes of a text, as the laboratory's panel shows it.

    A model that writes has the words that it writes by itself, the likeliest each time. So has the
    language model of chapter 14: the pieces with which it continues the text, to the end of the
    line or of its window, as the panel writes with top-k 1. Any other model has the likeliest
    answer at each position: for a language model, the next token.

    Args: text, words or signs of the model's vocabulary, with or without blanks between signs; for
        the model of chapter 14 any text of its characters, which may be empty.
    Errors: ValueError for what the model does not know.
    """
    known = card.tokens[0]
    pieces = _byte_pairs(text, known) if card.task == WRITING else _pieces(text, known)
    ids = [known.index(piece) for piece in pieces]
    with torch.no_grad(), in_mode(model, training=False):
        if card.task == WRITING:
            return _continued(model, card, ids)
        if card.design["kind"] in TWO_SIDED:
            return _written(model, card, [*ids, known.index(END)])
        # Where each word is alone, as one setting of the first laboratory has it, a row is a word.
        rows = len(ids) if card.settings.get("attention") == "itself" else 1
        logits = model(*inputs_of(card.design, {"tokens": ids, "rows": rows}))
    best = logits.argmax(-1).reshape(len(ids), -1)
    return [" ".join(card.tokens[-1][i] for i in position) for position in best.tolist()]


def _pieces(text: str, known: Sequence[str]) -> list[str]:
    """Words, or signs if the vocabulary has none of the words."""
    words = text.split()
    pieces = words if set(words) <= set(known) and " " not in known else list(text)
    if " " not in known:
        pieces = [piece for piece in pieces if not piece.isspace()]
    if strange := [piece for piece in pieces if piece not in known]:
        raise ValueError(
            f"expected words or signs out of {' '.join(known)}, got {strange[0]!r} in {text!r}"
        )
    if not pieces:
        raise ValueError("expected at least one word or sign, got none")
    return pieces


def _byte_pairs(text: str, known: Sequence[str]) -> list[str]:
    """A text in pieces: of all neighbours those are merged that make the earliest piece, again and
    again. So the vocabulary alone says how a text is split."""
    numbers = {piece: i for i, piece in enumerate(known)}
    pieces = list(text)
    if strange := [sign for sign in pieces if sign not in numbers]:
        raise ValueError(f"expected characters of its text, got {strange[0]!r} in {text!r}")
    while len(pieces) > 1:
        made = [numbers.get(a + b, len(known)) for a, b in pairwise(pieces)]
        place = made.index(min(made))
        if made[place] == len(known):
            break
        pieces[place : place + 2] = [known[made[place]]]
    return pieces


def _continued(model: nn.Module, card: Card, ids: Sequence[int]) -> list[str]:
    """The likeliest token again and again, to the end of the line or of the window."""
    row = [LINE_END, *ids]
    found: list[int] = []
    while len(row) < card.design["max_length"] and LINE_END not in found:
        inputs = inputs_of(card.design, {"tokens": row, "rows": 1})
        found.append(int(model(*inputs)[0, -1].argmax()))
        row.append(found[-1])
    return [card.tokens[0][i] for i in found if i != LINE_END]


def _written(model: nn.Module, card: Card, source: list[int]) -> list[str]:
    """The likeliest token again and again. Each pass is whole, for not every design is causal."""
    longest = card.design.get("max_length", len(source) - 1 + BEYOND)
    target = [BOS]
    while len(target) < longest and target[-1] != EOS:
        batch = {"rows": 1, "source": source, "source_lengths": [len(source)], "target_in": target}
        target.append(int(model(*inputs_of(card.design, batch))[0, -1].argmax()))
    return [card.tokens[-1][i] for i in target[1:] if i != EOS]


def _card(path: str | Path, metadata: dict[str, str]) -> Card:
    """The card of a file, with the fields that it must have."""
    try:
        found = json.loads(metadata[METADATA])
        version = found.pop("version")
        card = Card(**found)
        fits = all(isinstance(x, dict) for x in (card.settings, card.design))
        fits = fits and isinstance(card.tokens, list)
    except (AttributeError, KeyError, TypeError, ValueError):
        fits, version, card = False, VERSION, None
    if not fits or card is None:
        raise ValueError(
            f"{path}: expected a model of a laboratory, got a file without its card; download one "
            "under a laboratory in the book"
        )
    if version != VERSION:
        raise ValueError(
            f"{path}: expected version {VERSION} of these files, got {version}; use the notebooks "
            "of the same version of the book as the page"
        )
    return card


def _require_sizes(design: dict[str, Any], numbers: dict[str, Tensor]) -> None:
    """A model with more layers than tensors, or larger than all numbers together, is not built."""
    for name, tensor in numbers.items():
        if not (tensor.is_floating_point() and tensor.isfinite().all()):
            raise ValueError(f"expected real, finite numbers, got others in {name}")
    most = sum(tensor.numel() for tensor in numbers.values())
    for name, size in design.items():
        limit = len(numbers) if name == "n_layers" else most
        if isinstance(size, int | float) and not size <= limit:
            raise ValueError(f"expected {name} to be at most {limit}, got {size}")


def _require_parameters(model: nn.Module, numbers: dict[str, Tensor]) -> None:
    own = {name: tuple(p.shape) for name, p in model.named_parameters()}
    got = {name: tuple(tensor.shape) for name, tensor in numbers.items()}
    if odd := sorted(own.keys() ^ got.keys()):
        where = "without" if odd[0] in own else "with"
        raise ValueError(f"expected the parameters of its design, got a model {where} {odd[0]}")
    for name, shape in own.items():
        if got[name] != shape:
            raise ValueError(f"expected {name} of shape {shape}, got {got[name]}")
