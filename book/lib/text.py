"""Sentences as tokens: cutting text into tokens, and reading parallel text from files."""

import gzip
import re
import unicodedata
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(r"[^\W\d]+|\d|[^\w\s]")  # a run of letters, one digit, or one other mark


class Pair(NamedTuple):
    """A sentence and its translation, both as tokens. Chapter: 1 (Sequence to sequence)."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def tokenise(text: str, *, lowercase: bool = True) -> tuple[str, ...]:
    """Cut text into words, single digits and single punctuation marks; white space goes.

    "It's 42." becomes it ' s 4 2 . so only the white space and the case are lost. Accents are
    first brought into one form (Unicode NFC), so that equal words are equal tokens.

    Returns: the tokens in order; none for blank text.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    text = unicodedata.normalize("NFC", text.lower() if lowercase else text)
    return tuple(_TOKEN.findall(text))


def read_parallel(
    source_path: str | Path, target_path: str | Path | None = None, *, lowercase: bool = True
) -> list[Pair]:
    """Read sentence pairs from two files of equal length, or from one file of two columns.

    Each line is a sentence in UTF-8. With one path a line is "source<tab>target". A name that
    ends in .gz is unpacked. No line is skipped: what cannot be a pair is an error.

    Returns: one Pair for each line, in the order of the file.
    Errors: ValueError naming file and line for a broken encoding or archive, an empty sentence,
    files of different lengths, or a line without exactly one tab; OSError if a file is not there.
    Source: ours. Chapter: 11 (Training).
    """
    if target_path is None:
        sides = _columns(Path(source_path))
    else:
        sides = _both(Path(source_path), Path(target_path))
    pairs = []
    for place, source, target in sides:
        pair = Pair(*(tokenise(text, lowercase=lowercase) for text in (source, target)))
        for side, tokens in zip(Pair._fields, pair, strict=True):
            if not tokens:
                fix = "remove the line on both sides or fill it"
                raise ValueError(f"{place}: expected a sentence, got an empty {side}; {fix}")
        pairs.append(pair)
    if not pairs:
        raise ValueError(f"{source_path}: expected at least one sentence, got an empty file")
    return pairs


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file with their ends, cut at line feeds only, each decoded on its own."""
    number = 1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for raw in stream:
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")  # drops a leading mark
                number += 1
    except UnicodeDecodeError as error:
        fix = "save the file as UTF-8"
        raise ValueError(f"{path}, line {number}: expected UTF-8, got {error}; {fix}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        fix = "fetch the file again"
        message = f"{path}, line {number}: expected a whole gzip archive, got {error}; {fix}"
        raise ValueError(message) from error


def _columns(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(_lines(path), 1):
        place = f"{path}, line {number}"
        columns = line.split("\t")
        if len(columns) != 2:
            fix = "put one tab between source and target, or give two files"
            raise ValueError(f"{place}: expected exactly one tab, got {len(columns) - 1}; {fix}")
        yield place, *columns


def _both(source_path: Path, target_path: Path) -> Iterator[tuple[str, str, str]]:
    lines = zip_longest(_lines(source_path), _lines(target_path))
    for number, (source, target) in enumerate(lines, 1):
        if source is None or target is None:
            short, long = source_path, target_path
            if target is None:
                short, long = long, short
            message = f"{short}: expected a line {number} as in {long}, got only {number - 1} lines"
            raise ValueError(f"{message}; line n of one file must translate line n of the other")
        yield f"{source_path} and {target_path}, line {number}", source, target
