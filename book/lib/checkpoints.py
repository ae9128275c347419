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
    be known, as `extra` in `save_checkpoint`) and a checksum of the parameters. A matrix that is
    used twice is kept once.
    """
    card = {
        "format": FORMAT,
        "config": asdict(model.config),
        "source_vocab": vocabulary_to_json(source_vocab),
        "target_vocab": vocabulary_to_json(target_vocab),
        "about": _plain(about or {}),
        "sha256": _checksum(model.state_dict().values()),
    }
    metadata = {"card": json.dumps(card, ensure_ascii=False)}
    write_whole(path, lambda part: safetensors.save_model(model, str(part), metadata))


def _read_card(path: str | Path) -> dict[str, Any]:
    """Read what `save_model` wrote beside the parameters, before any of them is read.

    Errors: ValueError for a file that `save_model` did not write; FileNotFoundError.
    """
    try:
        with safe_open(str(path), "pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another one or a part of one: {error}"
        ) from error
    if card.get("format") != FORMAT:
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

    Returns: the model, the source's vocabulary and the target's.
    Errors: ValueError for a file that `save_model` did not write, or one whose parameters have
    changed since; FileNotFoundError.
    """
    card = _read_card(path)
    if "sha256" in card:  # files of earlier versions have none
        wanted, found = card["sha256"], _checksum(safetensors.load_file(path).values())
        if found != wanted:
            raise ValueError(
                f"{path}: expected parameters with the checksum {wanted[:12]}..., got {found[:12]}"
                "...: the file is damaged; fetch or make it again"
            )
    model = Transformer(Config(**card["config"]))
    safetensors.load_model(model, str(path))
    source_vocab = vocabulary_from_json(card["source_vocab"])
    target_vocab = vocabulary_from_json(card["target_vocab"])
    return model.to(device).eval(), source_vocab, target_vocab


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


def _checksum(tensors: Iterable[Tensor]) -> str:
    """A SHA-256 of all tensors, in whatever order; one that is kept under two names counts once."""
    digests = set()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        digests.add(hashlib.sha256(data).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
