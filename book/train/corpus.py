"""The sentences of a run of `python -m train`: the book's task, or the reader's own files."""

import argparse
import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.data import Pair, Vocabulary, read_parallel
from tasks.translation import translation_pairs
from train.subword import SubwordVocabulary

HELD_OUT = 1000  # pairs kept for validation where no file is, at most one in twenty
VALIDATION = ("val", "valid", "dev")  # names that a validation file may have


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs for training, validation and the final score.

    `tests` has a list of pairs for each name; `left_out` are training pairs that were too long.
    """

    train: list[Pair]
    valid: list[Pair]
    tests: dict[str, list[Pair]]
    left_out: list[Pair]

    def fingerprints(self) -> dict[str, str]:
        """For each use, a short text that changes when one of its sentences does."""
        named = [pair for name, pairs in self.tests.items() for pair in ((name,), *pairs)]
        uses: dict[str, Sequence[tuple[Any, ...]]] = {
            "training": self.train,
            "left-out": self.left_out,
            "validation": self.valid,
            "test": named,
        }
        return {use: _fingerprint(map(tuple, pairs)) for use, pairs in uses.items()}


def read_corpus(options: argparse.Namespace) -> Corpus:
    """Read the sentences that the options name.

    Errors: ValueError for files that are missing or that `read_parallel` refuses, with what is
        wrong in all of them; OSError.
    """
    faults: list[str] = []

    def read(paths: list[str] | list[Path]) -> list[Pair]:
        try:
            return read_parallel(*paths, lowercase=options.lower_case)
        except ValueError as error:
            faults.append(str(error))
            return []

    valid: list[Pair] | None = None
    tests: dict[str, list[Pair]] = {}
    if options.train:
        train = read(options.train)
        valid = read(options.valid) if options.valid else None
        if options.test:
            tests[Path(options.test[0]).name] = read(options.test)
    elif options.data:
        found = _find(Path(options.data), options.source, options.target)
        train = read(found["train"])
        valid = next((read(found[name]) for name in VALIDATION if name in found), None)
        tests = {name: read(paths) for name, paths in found.items() if name.startswith("test")}
    else:
        train, tests["test"] = translation_pairs()
    if faults:
        raise ValueError("\n".join(faults))
    if valid is None:
        train, valid = _hold_out(train)
    sides: tuple[list[Pair], list[Pair]] = [], []  # that are too long, and that fit
    for pair in train:
        sides[max(map(len, pair)) <= options.max_length].append(pair)
    left_out, fitting = sides
    if not fitting:
        raise ValueError(
            f"expected training sentences of at most {options.max_length} tokens, all are longer; "
            "raise --max-length"
        )
    return Corpus(fitting, valid, tests or {"validation": valid}, left_out)


def make_vocabularies(
    train: list[Pair], options: argparse.Namespace
) -> tuple[Vocabulary, Vocabulary]:
    """Collect the words or sub-words of both sides, or one vocabulary of both together.

    Errors: ValueError for more sub-words than letters, and as `SubwordVocabulary.from_sentences`.
    """
    sources, targets = ([pair[side] for pair in train] for side in (0, 1))
    sides = [sources + targets] if options.share else [sources, targets]
    if options.subword:
        letters = min(sum(len(word) for words in side for word in words) for side in sides)
        if options.subword > letters:  # the package asks for memory for as many, and aborts
            raise ValueError(
                f"expected --subword of at most {letters:,}, the letters of the training text, "
                f"got {options.subword:,}"
            )
        made: list[Vocabulary] = [
            SubwordVocabulary.from_sentences(side, options.subword) for side in sides
        ]
    else:
        made = [Vocabulary.from_sentences(side, options.min_count) for side in sides]
    return made[0], made[-1]


def _fingerprint(parts: Iterable[Any]) -> str:
    return hashlib.sha256("".join(map(repr, parts)).encode()).hexdigest()[:16]


def _find(folder: Path, source: str, target: str) -> dict[str, list[Path]]:
    """The files of a folder that stand there for both languages: name -> source, target."""
    if not folder.is_dir():
        raise ValueError(f"expected a folder after --data, got {folder}, which is none")
    sides: list[dict[str, Path]] = [{}, {}]
    for path in sorted(folder.iterdir()):
        for side, language in zip(sides, (source, target), strict=True):
            for ending in (f".{language}", f".{language}.gz"):
                if path.name.endswith(ending):
                    side.setdefault(path.name.removesuffix(ending), path)
    found = {name: [path, sides[1][name]] for name, path in sides[0].items() if name in sides[1]}
    if "train" not in found:
        there = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ValueError(
            f"expected train.{source} and train.{target}, or the same with .gz, in {folder}; "
            f"there is {there}"
        )
    return found


def _hold_out(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Take some pairs away for validation, the same ones in each run."""
    number = min(HELD_OUT, len(pairs) // 20)
    if not number:
        raise ValueError(
            f"expected at least 20 training pairs, of which one is held out, got {len(pairs)}; "
            "name files with --valid"
        )
    held = set(random.Random(0).sample(range(len(pairs)), number))
    rest = [pair for i, pair in enumerate(pairs) if i not in held]
    return rest, [pairs[i] for i in sorted(held)]
