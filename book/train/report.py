"""What `python -m train` tells: a line for each loss in a file, and one summary at the end."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lib.checkpoints import load_model, write_whole
from lib.data import Pair
from lib.decoding import translate
from lib.metrics import bleu, exact_match

EXAMPLES = 3
EXTRA_LENGTH = 50  # the paper stops a translation at the source's length + 50


class LossLog:
    """The losses of a run in a file, one JSON object a line; a resumed run goes on writing it.

    Args: `keep`, the updates that the run has behind it; lines of later ones are dropped, and so
    is a last line that a killed process left half written.
    """

    def __init__(self, path: Path, keep: int = 0):
        self._path = path
        self._waiting: list[dict[str, Any]] = []
        lines = path.read_text(encoding="utf-8").splitlines() if keep and path.exists() else []
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= keep]
        text = "".join(line + "\n" for line in kept)
        write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))

    def add(self, step: int, **values: float | Tensor) -> None:
        """Remember some values; a tensor is not read yet."""
        self._waiting.append({"step": step, **values})

    def flush(self) -> None:
        """Write what is remembered: only here the processor waits for the GPU's numbers.

        Errors: FloatingPointError for a loss that is not finite.
        """
        lines = []
        for entry in self._waiting:
            values = {k: v.item() if isinstance(v, Tensor) else v for k, v in entry.items()}
            loss = values.get("loss", 0.0)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"expected a finite loss, got {loss} in update {entry['step']}: "
                    "lower --lr, or warm up longer"
                )
            lines.append(json.dumps(values) + "\n")
        self._waiting = []
        with self._path.open("a", encoding="utf-8") as stream:
            stream.writelines(lines)


def number(count: int | float) -> str:
    """12345 -> "12,345"."""
    return f"{count:,.0f}"


def duration(seconds: int | float) -> str:
    """3723 -> "1 h 2 min"; at most two units."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def perplexity(loss: float) -> str:
    """Say exp(loss): how many equally likely tokens leave as much doubt."""
    return f"perplexity {math.exp(min(loss, 99.0)):.2f}"


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns of text, the first as wide as its longest entry."""
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)


def scores(
    weights: Path,
    tests: dict[str, list[Pair]],
    options: argparse.Namespace,
    device: torch.device,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Translate the test sentences with the kept weights, and score them.

    Returns: the rows of the summary, and a few translations of the first test set.
    """
    model, source_vocab, target_vocab = load_model(weights, device)
    how = f"beam {options.beam}, alpha {options.alpha}" if options.beam > 1 else "greedy"
    rows, examples = [], []
    for name, pairs in tests.items():
        longest = max(len(source_vocab.encode(pair.source)) for pair in pairs) + EXTRA_LENGTH
        said = translate(
            model,
            pairs,
            source_vocab,
            target_vocab,
            max_length=longest,
            beam=options.beam if options.beam > 1 else None,
            alpha=options.alpha,
        )
        truths = [pair.target for pair in pairs]
        result = bleu(said, truths)
        rows += [
            (name, f"BLEU {result.score:.2f} on {number(len(pairs))} sentences, {how}"),
            ("", f"{100 * exact_match(said, truths):.1f} % of them exactly as the reference"),
            ("", f"signature {result.signature}"),
        ]
        for pair, words in list(zip(pairs, said, strict=True))[: EXAMPLES if not examples else 0]:
            examples += ["  " + " ".join(pair.source), "  -> " + " ".join(words), ""]
    return rows, examples
