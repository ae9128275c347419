"""What is shown of a finished run: its losses, its sentences in numbers, and its translations.

The translations are greedy, as those of the page are, once with the parameters as they are and once
with those of the page, which have 8 bits: so the page can say what that costs.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from lib.data import UNK, Pair, Vocabulary
from lib.metrics import bleu
from lib.transformer import Transformer
from train.corpus import Corpus, read_corpus
from train.folder import LOSSES, STATE, SUMMARY
from train.options import DEFAULTS
from train.run import Progress, read_state
from train.translator import Translator, read_run
from widgets.rounding import rounded

SCORE = re.compile(r"^(\S.*?) {2,}BLEU ([\d.]+) on ([\d,]+) sentences, (.+)$", re.MULTILINE)
Curve = list[tuple[int, float]]


class Losses(NamedTuple):
    """Losses by update: those of training, and those of validation."""

    training: Curve
    validation: Curve


@dataclass(frozen=True)
class Finished:
    """A run that has come to its end, as its folder has it.

    scores  what the run's own summary says: of each test, its name, BLEU, how many sentences, how
    """

    name: str
    model: Transformer
    vocabs: tuple[Vocabulary, Vocabulary]
    options: argparse.Namespace
    progress: Progress
    reasons: list[str]
    corpus: Corpus
    losses: Losses
    summary: str

    @property
    def parameters(self) -> int:
        """A matrix that is used twice counts once."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def scores(self) -> list[tuple[str, ...]]:
        return SCORE.findall(self.summary)

    @property
    def test(self) -> tuple[str, list[Pair]]:
        """The test that is shown, which is the first: its name, and its pairs."""
        return next(iter(self.corpus.tests.items()))


class Translated(NamedTuple):
    """A test sentence, its reference, the model's translation, and how near that comes.

    `score` is chrF, from 0 to 100: of the letter n-grams of both, how many are the same.
    """

    source: tuple[str, ...]
    reference: tuple[str, ...]
    words: list[str]
    score: float


@dataclass(frozen=True)
class Measured:
    """A run's greedy translations of its test, with all bits and with those of the page.

    Where the page has no model, both are the same. `of` is how many sentences the test has, and
    `translated` has those that were translated, with the page's parameters.
    """

    of: int
    exact_bleu: float
    bleu: float
    alike: int
    translated: list[Translated]


def read(folder: Path, device: torch.device | str = "cpu") -> Finished:
    """Read a finished run, and the sentences that it was trained and scored on.

    Nothing in the folder is changed.
    Errors: ValueError for a folder that `read_run` refuses, for losses or sentences that are not
    those of the run; OSError.
    """
    (model, *vocabs), options = read_run(folder, device)
    kept = read_state(folder / STATE)
    given = argparse.Namespace(**DEFAULTS | options)
    corpus = read_corpus(given)
    before, now = kept.get("data", {}), corpus.fingerprints()
    if changed := [use for use in before if before[use] != now.get(use)]:
        raise ValueError(
            f"expected the {' and '.join(changed)} sentences that {folder} was trained and scored "
            "on, got others; put the old files back"
        )
    return Finished(
        str(folder),
        model,
        (vocabs[0], vocabs[1]),
        given,
        Progress(**kept["progress"]),
        kept.get("reasons", []),
        corpus,
        read_losses(folder / LOSSES, kept.get("losses")),
        (folder / SUMMARY).read_text(encoding="utf-8"),
    )


def read_losses(path: Path, told: dict[str, Any] | None) -> Losses:
    """The losses that a run wrote.

    Args: told, what the run's checkpoint says of the file.
    Errors: ValueError for a file that is not there, or that is not the run's own.
    """
    if not path.is_file():
        raise ValueError(f"expected the losses of the run in {path}, there are none")
    content = path.read_bytes()
    if told and hashlib.sha256(content).hexdigest() != told["sha256"]:
        raise ValueError(
            f"{path}: expected the losses that this run wrote, got others; put its own file back"
        )
    losses = Losses([], [])
    try:
        for line in content.splitlines():
            entry = json.loads(line)
            for key, curve in (("loss", losses.training), ("validation_loss", losses.validation)):
                if key in entry:
                    curve.append((int(entry["step"]), float(entry[key])))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a JSON object in each line, got another: {error}; put the run's own "
            "file back"
        ) from error
    if not losses.validation:
        raise ValueError(f"{path}: expected the losses of the run, got none of its validation")
    return losses


def measure(run: Finished, bits: int | None, most: int) -> Measured:
    """Translate the run's test, of which at most so many sentences, spread over all of it.

    Args: bits, of the page's parameters; None where the page has no model.
    """
    pairs = run.test[1]
    count = min(len(pairs), most)
    some = [pairs[i * len(pairs) // count] for i in range(count)]
    exact = greedy(run.model, run.vocabs, [pair.source for pair in some])
    said = exact
    if bits is not None and bits < 32:
        said = greedy(rounded(run.model, bits), run.vocabs, [pair.source for pair in some])
    truths = [pair.target for pair in some]
    return Measured(
        len(pairs),
        bleu(exact, truths).score,
        bleu(said, truths).score,
        sum(a == b for a, b in zip(exact, said, strict=True)),
        [Translated(*x, words, near(words, x.target)) for x, words in zip(some, said, strict=True)],
    )


def greedy(
    model: Transformer, vocabs: tuple[Vocabulary, Vocabulary], sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The likeliest word at each step, as the page chooses."""
    found = Translator(model, *vocabs, beam=1, alpha=0.0).translate(sentences)
    return [best[0].words for best in found]


def near(words: Sequence[str], reference: Sequence[str]) -> float:
    """How near a translation comes to its reference, from 0 to 100: chrF, by sacreBLEU.

    BLEU is made for whole test sets: most single sentences lack a run of four words in common.
    Source: Popović 2015.
    """
    from sacrebleu.metrics import CHRF  # as lib.metrics does: it takes long to load

    return CHRF().sentence_score(" ".join(words), [" ".join(reference)]).score


def extremes(translated: Sequence[Translated], n: int) -> dict[str, list[Translated]]:
    """Of some translations the n best, the n about the median and the n worst, none twice.

    Among equally good ones the longest count as the best.
    """
    ranked = sorted(translated, key=lambda one: (-one.score, -len(one.source)))
    n = min(n, len(ranked) // 3) or 1
    middle = (len(ranked) - n) // 2
    return {
        "best": ranked[:n],
        "median": ranked[middle : middle + n],
        "worst": ranked[len(ranked) - n :][::-1],
    }


def in_numbers(run: Finished) -> list[tuple[str, str, str]]:
    """The run's sentences in numbers: what is counted, in the sources and in the targets."""
    corpus, (name, test) = run.corpus, run.test
    sides = list(zip(*corpus.train, strict=True))
    held = list(zip(*test, strict=True))
    rows = [
        ("words of training", *(f"{sum(map(len, side)):,}" for side in sides)),
        ("different words", *(f"{len(set(_words(side))):,}" for side in sides)),
        ("words a sentence, on average", *(f"{_mean(map(len, side)):.1f}" for side in sides)),
        ("words of the longest sentence", *(f"{max(map(len, side)):,}" for side in sides)),
        ("tokens of the model", *(f"{len(vocab):,}" for vocab in run.vocabs)),
    ]
    unknown = []
    for vocab, side in zip(run.vocabs, held, strict=True):
        words = list(_words(side))
        lost = sum(UNK in vocab.encode([word]) for word in words)
        unknown.append(f"{100 * lost / len(words):.1f} %")
    return [(a, b, c) for a, b, c in (*rows, (f"words of {name} that are unknown", *unknown))]


def _words(sentences: Iterable[Sequence[str]]) -> Iterable[str]:
    return (word for sentence in sentences for word in sentence)


def _mean(numbers: Iterable[int]) -> float:
    found = list(numbers)
    return sum(found) / len(found)
