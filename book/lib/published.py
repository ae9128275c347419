"""The model that comes with the book: trained once on its translation task, and stored.

Chapters, widgets and tests that look at a trained Transformer load this one instead of training
their own. `python scripts/make_checkpoint.py` (or `make checkpoint`) makes it again.

The weights are a safetensors file: plain numbers, which nothing can run as code. Beside it stands
a JSON file with the configuration, both vocabularies, and how the model was trained and tested.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lib.config import Config
from lib.data import Vocabulary
from lib.transformer import Transformer

PUBLISHED = Path(__file__).resolve().parent.parent / "checkpoints" / "translation.safetensors"
SPECIAL = 4  # PAD, BOS, EOS and UNK, which every vocabulary begins with
REMEDY = "fetch the book's files again, or make them: python scripts/make_checkpoint.py"


def load_published(
    device: torch.device | str = "cpu", *, path: Path | str = PUBLISHED
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Load the book's trained English to French model, ready for use (in evaluation mode).

    Args: device, where the model shall stand; path, of another model of this kind, whose JSON file
        has the same name and the ending .json.
    Returns: the model, its source vocabulary and its target vocabulary.
    Errors: ValueError for a file that is missing or damaged.
    Source: ours. Chapter: 10 (The Transformer).
    """
    from safetensors.torch import load  # a chapter that loads nothing needs no safetensors

    path = Path(path)
    facts = published_facts(path)
    weights = _read(path)
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
    Source: ours. Chapter: 10 (The Transformer).
    """
    path = Path(path).with_suffix(".json")
    text = _read(path)
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
    Source: ours. Chapter: 10 (The Transformer).
    """
    from safetensors.torch import save

    if model.config.tied:
        raise ValueError("expected a model with tied=False, got tied=True: train it untied")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = save(_plain(model))
    path.write_bytes(weights)
    facts |= {
        "config": vars(model.config),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "source_words": source_vocab.tokens[SPECIAL:],
        "target_words": target_vocab.tokens[SPECIAL:],
    }
    text = json.dumps(facts, ensure_ascii=False, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def _plain(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"expected a file {path}, got {error.strerror}; {REMEDY}") from error
