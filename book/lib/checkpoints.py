"""What a run must keep to go on as if nothing had happened, and a trained model to keep.

`save_checkpoint` keeps all of the state: parameters, optimiser, number of updates (so the
schedule), random generators, and position in the data. `save_model` keeps what translating needs:
parameters in the safetensors format, sizes and vocabularies beside them in the same file.

Both write a new file and then give it the name of the old one, which is one act: whenever the
process is killed, the name stands for a complete file, the old or the new. Neither file can make
the reader's computer run code."""

import hashlib
import json
import os
import pickle
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor, nn

from lib.data import BatchStream, Vocabulary
from lib.subword import vocabulary_from_json, vocabulary_to_json
from lib.transformer import Config, Transformer

FORMAT = 1  # raised when a file of the old kind can no longer be read
REAL = ("F16", "BF16", "F32", "F64")  # what safetensors calls the types of real numbers
PUBLISHED = Path(__file__).resolve().parent.parent / "checkpoints" / "translation.safetensors"


def write_whole(path: str | Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it that name in one act.

    The bytes are on the disk before the name changes, so even a power cut leaves a whole file.
    Source: POSIX rename.
    """
    path = Path(path)
    part = path.with_name(path.name + ".part")
    write(part)
    with part.open("rb+") as stream:
        os.fsync(stream.fileno())
    os.replace(part, path)


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    step: int,
    stream: BatchStream | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write the complete state of a training run to one file, atomically.

    Args: `step`, the updates made so far; `stream`, the batches, whose position is kept; `extra`,
    whatever else the run wants back: numbers, strings, lists and dictionaries of them.
    Errors: ValueError for an `extra` that could not be read back safely.
    """
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 (the global generator)
    state = {
        "format": FORMAT,
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "position": tuple(stream.position) if stream else None,
        "generators": {
            "python": random.getstate(),
            "numpy": (name, np.asarray(keys).tolist(), *rest),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        },
        "extra": json.dumps(_plain(extra or {})),
    }
    write_whole(path, lambda part: torch.save(state, part))


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    stream: BatchStream | None = None,
) -> tuple[int, dict[str, Any]]:
    """Put a run back into the state that `save_checkpoint` kept; all are changed in place.

    Returns: the updates made so far, and `extra`.
    Errors: ValueError for a file that is no checkpoint, or one of another model; FileNotFoundError.
    """
    state = _read(path)
    try:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected the state of this model and optimiser, got another one's; build the "
            f"model with the sizes it was saved with ({error})"
        ) from error
    if stream and state["position"]:
        stream.position = state["position"]
    generators = state["generators"]
    random.setstate(generators["python"])
    np.random.set_state(generators["numpy"])  # noqa: NPY002
    torch.set_rng_state(generators["torch"])
    if generators["cuda"] and torch.cuda.device_count() == len(generators["cuda"]):
        torch.cuda.set_rng_state_all(generators["cuda"])
    return state["step"], json.loads(state["extra"])


def peek(path: str | Path) -> dict[str, Any]:
    """Read only what a run had put into `extra`, before anything is built.

    Errors: as load_checkpoint.
    """
    return json.loads(_read(path)["extra"])


def _read(path: str | Path) -> dict[str, Any]:
    try:
        # weights_only: tensors, numbers and containers are read; anything that is code is refused.
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"{path}: expected a checkpoint, got a file that is none: {reason}"
        ) from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(
            f"{path}: expected a checkpoint of format {FORMAT}, got something else; "
            "it was not written by this version of save_checkpoint"
        )
    return state


def _plain(extra: dict[str, Any]) -> dict[str, Any]:
    """`extra` as it will come back; an error for what JSON does not keep."""
    try:
        return json.loads(json.dumps(extra, allow_nan=True))
    except TypeError as error:
        raise ValueError(
            f"expected numbers, strings, lists and dictionaries in extra, got more: {error}"
        ) from error


def save_model(
    path: str | Path,
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    about: dict[str, Any] | None = None,
) -> None:
    """Write a trained Transformer to one safetensors file: parameters, sizes and vocabularies.

    The file's metadata hold a card: configuration, both vocabularies, `about` (whatever else is to
    be known, as `extra` in `save_checkpoint`) and a checksum of all this and the parameters. A
    matrix that is used twice is kept once.

    Errors: ValueError, and nothing is written, for vocabularies of another size than the model's,
    parameters that are not finite, or an `about` that is not plain.
    """
    state = model.state_dict()
    _require_whole("the model", model.config, (source_vocab, target_vocab), state)
    card = {
        "format": FORMAT,
        "config": asdict(model.config),
        "source_vocab": vocabulary_to_json(source_vocab),
        "target_vocab": vocabulary_to_json(target_vocab),
        "about": _plain(about or {}),
    }
    card["sha256"] = _checksum(state.values(), card)
    metadata = {"card": json.dumps(card, ensure_ascii=False)}
    write_whole(path, lambda part: safetensors.save_model(model, str(part), metadata))


def _read_card(path: str | Path) -> dict[str, Any]:
    """Read what `save_model` wrote beside the parameters, before any of them is read.

    Errors: ValueError for a file that `save_model` did not write; FileNotFoundError.
    """
    if Path(path).exists() and not Path(path).is_file():  # a pipe would be waited for
        raise ValueError(f"{path}: expected a file, got a folder, a pipe or a device")
    try:
        with safe_open(str(path), "pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
    except (SafetensorError, RecursionError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another one or a part of one: {error}"
        ) from error
    known = isinstance(card, dict) and card.get("format") == FORMAT
    if not known or not isinstance(card.get("about"), dict):
        raise ValueError(
            f"{path}: expected a model that save_model has written, got another file; an older "
            "model of the book, with its words in a JSON file beside it, is made again by "
            "python scripts/make_checkpoint.py"
        )
    return card


def load_model(
    path: str | Path, device: torch.device | str = "cpu"
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Build the Transformer that `save_model` kept: ready to translate, in evaluation mode.

    Returns: the model, the source's vocabulary and the target's; nothing is built before all fits.
    Errors: ValueError for a file that `save_model` did not write, or one that has changed since;
    FileNotFoundError.
    """
    card = _read_card(path)
    try:
        config = Config(**card["config"])
        source_vocab = vocabulary_from_json(card["source_vocab"])
        target_vocab = vocabulary_from_json(card["target_vocab"])
    except (KeyError, TypeError, ValueError) as error:
        wanted = "a card with a configuration and two vocabularies"
        raise ValueError(f"{path}: expected {wanted}, got another: {error}") from error
    state = _read_parameters(path, config)
    wanted = card.pop("sha256", None)  # files of early versions have none, or the parameters' alone
    found = _checksum(state.values(), card)
    if wanted not in (None, found) and wanted != _checksum(state.values(), {}):
        raise ValueError(
            f"{path}: expected contents with the checksum {str(wanted)[:12]}..., got {found[:12]}"
            "...: the file is damaged; fetch or make it again"
        )
    _require_whole(str(path), config, (source_vocab, target_vocab), state)
    model = Transformer(config)
    model.load_state_dict(state)
    return model.to(device).eval(), source_vocab, target_vocab


def _read_parameters(path: str | Path, config: Config) -> dict[str, Tensor]:
    """The parameters of a model of this configuration, by name; one that is used twice has two."""
    with safe_open(str(path), "pt") as file:
        stored = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, no mapping
        if config.n_layers > len(stored):  # before so many layers are built
            got = f"{len(stored)} tensors"
            raise ValueError(f"{path}: expected {config.n_layers:,} layers, got {got}")
        try:
            with torch.device("meta"):  # names and sizes, without memory
                own = dict(Transformer(config).named_parameters(remove_duplicate=False))
        except (ArithmeticError, RuntimeError, TypeError) as error:  # too many entries to count
            raise ValueError(f"{path}: expected smaller sizes, got {config}") from error
        found = {name: (tuple(s.get_shape()), s.get_dtype() in REAL) for name, s in stored.items()}
        faults = [n for n in found if n not in own or found[n] != (tuple(own[n].shape), True)]
        faults += [n for n, p in own.items() if sum(own.get(m) is p for m in found) != 1]
        if faults:
            got = f"{path}: expected each parameter of {config} once, got another or none as "
            raise ValueError(f"{got}{', '.join(faults[:3])} ({len(faults)} in all)")
        read = {own[name]: file.get_tensor(name) for name in stored}
    return {name: read[parameter] for name, parameter in own.items()}


def _require_whole(
    place: str, config: Config, vocabs: tuple[Vocabulary, Vocabulary], state: dict[str, Tensor]
) -> None:
    wanted = (config.source_vocab, config.target_vocab or config.source_vocab)
    if (got := tuple(map(len, vocabs))) != wanted:
        raise ValueError(f"{place}: expected vocabularies of {wanted} tokens, got {got}")
    if odd := [name for name, tensor in state.items() if not tensor.isfinite().all()]:
        raise ValueError(f"{place}: expected finite numbers, got NaN or infinity in {odd[0]}")


def load_published(
    device: torch.device | str = "cpu",
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Load the book's trained English to French model, as `load_model` does.

    Chapters, widgets and tests that look at a trained Transformer load this one instead of training
    their own. `python scripts/make_checkpoint.py` (or `make checkpoint`) makes it again.

    Returns: the model, its source vocabulary and its target vocabulary.
    """
    return load_model(PUBLISHED, device)


def published_facts() -> dict[str, Any]:
    """What is known of the book's model: how it was trained, and the figures of its test."""
    return _read_card(PUBLISHED)["about"]


def _checksum(tensors: Iterable[Tensor], card: dict[str, Any]) -> str:
    """A SHA-256 of all tensors, in whatever order, and of the card, if it says anything.

    A tensor that is kept under two names counts once.
    """
    digests = set()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        digests.add(hashlib.sha256(data).hexdigest())
    told = json.dumps(card, sort_keys=True) if card else ""
    return hashlib.sha256("".join((*sorted(digests), told)).encode()).hexdigest()
