"""What a run must keep to go on as if nothing had happened, and a trained model to keep.

`save_checkpoint` keeps all of the state: weights, optimiser, number of updates (so the schedule),
random generators, and place in the data. `save_model` keeps what translating needs: weights in the
safetensors format, sizes and vocabularies beside them in the same file.

Both write a new file and then give it the name of the old one, which is one act: whenever the
process is killed, the name stands for a complete file, the old or the new. Neither file can make
the reader's computer run code."""

import hashlib
import json
import os
import pickle
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import nn

from lib.data import BatchStream, Vocabulary
from lib.subword import vocabulary_from_json, vocabulary_to_json
from lib.transformer import Config, Transformer

FORMAT = 1  # raised when a file of the old kind can no longer be read
PUBLISHED = Path(__file__).resolve().parent.parent / "checkpoints" / "translation.safetensors"
SPECIAL = 4  # PAD, BOS, EOS and UNK, which every vocabulary begins with
REMEDY = "fetch the book's files again, or make them: python scripts/make_checkpoint.py"


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
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 (the state of the global generator)
    state = {
        "format": FORMAT,
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "position": tuple(stream.position) if stream else None,
        "generators": {
            "python": random.getstate(),
            "numpy": (name, keys.tolist(), *rest),
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
    """Write a trained Transformer to one safetensors file: weights, sizes and vocabularies.

    A matrix that is used twice is kept once. `about` may hold more, as in `save_checkpoint`.
    """
    card = {
        "format": FORMAT,
        "config": asdict(model.config),
        "source_vocab": vocabulary_to_json(source_vocab),
        "target_vocab": vocabulary_to_json(target_vocab),
        "about": _plain(about or {}),
    }
    metadata = {"card": json.dumps(card)}
    write_whole(path, lambda part: safetensors.save_model(model, str(part), metadata))


def load_model(
    path: str | Path, device: torch.device | str = "cpu"
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Build the Transformer that `save_model` kept: ready to translate, in evaluation mode.

    Returns: the model, the source's vocabulary and the target's.
    Errors: ValueError for a file that `save_model` did not write; FileNotFoundError.
    """
    try:
        with safe_open(str(path), "pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another one: {error}"
        ) from error
    if card.get("format") != FORMAT:
        raise ValueError(f"{path}: expected a model that save_model has written, got other weights")
    model = Transformer(Config(**card["config"]))
    safetensors.load_model(model, str(path))
    vocabularies = [vocabulary_from_json(card[side]) for side in ("source_vocab", "target_vocab")]
    return model.to(device).eval(), *vocabularies


def load_published(
    device: torch.device | str = "cpu", *, path: Path | str = PUBLISHED
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Load the book's trained English to French model, ready for use (in evaluation mode).

    Args: device, where the model shall stand; path, of another model of this kind, whose JSON file
        has the same name and the ending .json.
    Returns: the model, its source vocabulary and its target vocabulary.
    Errors: ValueError for a file that is missing or damaged.
    """
    from safetensors.torch import load  # a chapter that loads nothing needs no safetensors

    path = Path(path)
    facts = published_facts(path)
    weights = _read_bytes(path)
    found = hashlib.sha256(weights).hexdigest()
    if found != facts["sha256"]:
        raise ValueError(
            f"expected {path.name} with the checksum {facts['sha256'][:12]}..., "
            f"got {found[:12]}... ({len(weights):,} bytes): it is damaged or from another run; "
            f"{REMEDY}"
        )
    model = Transformer(Config(**facts["config"]))
    model.load_state_dict(load(weights))
    vocabularies = (Vocabulary(facts[side]) for side in ("source_words", "target_words"))
    return model.to(device).eval(), *vocabularies


def published_facts(path: Path | str = PUBLISHED) -> dict[str, Any]:
    """Read what is known of a stored model: its configuration, words, training and test figures.

    Errors: ValueError for a JSON file that is missing or damaged.
    """
    path = Path(path).with_suffix(".json")
    text = _read_bytes(path)
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected JSON in {path.name}, got {error}; {REMEDY}") from error
    missing = {"config", "source_words", "target_words", "sha256"} - set(facts)
    if missing:
        raise ValueError(f"expected {', '.join(sorted(missing))} in {path.name}; {REMEDY}")
    return facts


def save_published(
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    path: Path | str = PUBLISHED,
    **facts: Any,
) -> None:
    """Store a model and its vocabularies as `load_published` reads them.

    Args: facts, whatever else the JSON file shall say, e.g. the command and the figures.
    Errors: ValueError for a tied model: it has one matrix under two names.
    """
    from safetensors.torch import save

    if model.config.tied:
        raise ValueError("expected a model with tied=False, got tied=True: train it untied")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = save(_plain_tensors(model))
    path.write_bytes(weights)
    facts |= {
        "config": vars(model.config),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "source_words": source_vocab.tokens[SPECIAL:],
        "target_words": target_vocab.tokens[SPECIAL:],
    }
    text = json.dumps(facts, ensure_ascii=False, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def _plain_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"expected a file {path}, got {error.strerror}; {REMEDY}") from error
