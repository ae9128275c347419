"""Translate with a model that you have trained: `python -m train.translate RUN`, in `book`.

RUN is the folder of a finished run. Each line that is typed is translated at once; with `--in FILE`
all lines of a file are, those of about one length together. Translations go to standard output, or
whole into the file `--out`; all that is said about them goes to standard error. `--help` lists the
options.
"""

import argparse
import gzip
import shutil
import sys
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch
from tqdm import tqdm

from lib.data import EOS, Vocabulary, tokenise
from lib.metrics import bleu
from train.bits import EightBitTransformer, expect_8_bits
from train.checkpoints import write_whole
from train.folder import FILES
from train.machine import device, use_threads
from train.options import number
from train.subword import labels
from train.translator import Hypothesis, Translator, read_run

NAMED = 10  # unknown words that are listed
BARS = " ▁▂▃▄▅▆▇█"  # from nothing to all
NARROWEST = 5  # columns of a token in a map: a bar, a number and a space


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line. Errors: SystemExit with a message for what it does not know."""
    parser = argparse.ArgumentParser(
        prog="python -m train.translate",
        description="Translate with a model that python -m train has trained: line by line as you "
        "type, or a whole file.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  python -m train.translate runs/de\n"
        "  python -m train.translate runs/de --best 3 --show-attention\n"
        "  python -m train.translate runs/de --in news.de --out news.en\n"
        "  python -m train.translate runs/de --bits 8 --in test.de --reference test.en",
    )
    count = number(int, 1)
    add = parser.add_argument
    add("run", metavar="RUN", help="folder of a finished run")
    add("--in", dest="source", metavar="FILE", help="a sentence a line, plain or .gz")
    add("--out", metavar="FILE", help="where the translations of FILE go, all or none")
    add("--beam", type=count, metavar="N", help="1 is greedy (default: that of the run)")
    alpha = number(float, 0.0, 100)
    add("--alpha", type=alpha, metavar="N", help="length penalty (default: that of the run)")
    add("--best", type=count, metavar="N", help="N translations of each sentence, with scores")
    add("--min-length", type=number(int, 0), default=0, metavar="N", help="tokens before the end")
    add("--bits", type=int, choices=(8, 32), default=32, help="of a parameter (default 32)")
    what = "translations of FILE that are right, a line each: BLEU, and what --bits changes"
    add("--reference", metavar="FILE", help=what)
    add("--show-attention", action="store_true", help="what each token was read from, as text")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default auto)")
    add("--threads", type=count, metavar="N", help="of the processor; default: what torch chooses")
    given = parser.parse_args(arguments)
    if given.out and not given.source:
        parser.error("expected --in FILE together with --out")
    if given.reference and not given.source:
        parser.error("expected --in FILE together with --reference")
    if given.show_attention and given.source:
        parser.error("--show-attention is for sentences that you type; leave out --in")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    given = parse(arguments)
    try:
        if given.source:
            return _translate_file(given)
        translator, lowercase = _load(given)
        return _translate_typed(_in_bits(translator, given.bits), lowercase, given)
    except KeyboardInterrupt:
        message = "\nStopped; nothing is written." if given.out else ""
        print(message, file=sys.stderr)
        return 130
    except (MemoryError, torch.OutOfMemoryError):
        message = "the memory is too small; lower --beam, or split long lines"
    except (ValueError, OSError, ModuleNotFoundError) as error:
        message = str(error)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # so torch says it of the processor's memory
            raise
        message = "the memory is too small; lower --beam, or split long lines"
    print(f"error: {message}", file=sys.stderr)
    return 1


def _load(given: argparse.Namespace) -> tuple[Translator, bool]:
    """The translator that the command line asks for, and whether it reads lower case."""
    if given.threads:
        use_threads(given.threads)
    where = device(given.device)
    if given.bits == 8:
        where = torch.device("cpu") if given.device == "auto" else where
        expect_8_bits(where)
    (model, source_vocab, target_vocab), of_run = read_run(Path(given.run), where)
    beam = given.beam or of_run["beam"]
    alpha = of_run["alpha"] if given.alpha is None else given.alpha
    if beam > len(target_vocab):
        raise ValueError(
            f"expected --beam of at most {len(target_vocab):,}, the target's vocabulary, got "
            f"{beam:,}"
        )
    if given.best and given.best > beam:
        raise ValueError(
            f"expected --best of at most {beam:,}, the beam, got {given.best:,}; widen it with "
            f"--beam {given.best}"
        )
    shorter = f", at least {given.min_length} tokens" if given.min_length else ""
    bits = f", parameters in {given.bits} bits" if given.bits == 8 else ""
    how = f"beam {beam}, alpha {alpha}{shorter}{bits}"
    print(f"Translating with {given.run}: {how}.", file=sys.stderr)
    translator = Translator(model, source_vocab, target_vocab, beam, alpha, given.min_length)
    return translator, of_run["lower_case"]


def _in_bits(translator: Translator, bits: int) -> Translator:
    if bits == 8:
        return replace(translator, model=EightBitTransformer(translator.model))
    return translator


# --- line by line -----------------------------------------------------------------------------


def _translate_typed(translator: Translator, lowercase: bool, given: argparse.Namespace) -> int:
    """Translate each line of standard input before the next one is read."""
    print("One sentence a line; Ctrl-D ends.", file=sys.stderr)
    failed = False
    for line in _typed():
        words = tokenise(line, lowercase=lowercase)
        found: list[Hypothesis] = []
        try:
            if words:
                (found,) = translator.translate([words], given.best or 1)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
        if given.best:
            lines = [f"{one.score:8.3f}  {' '.join(one.words)}" for one in found]
        else:
            lines = [" ".join(one.words) for one in found]
        print("\n".join(lines), flush=True)
        if unknown := translator.unknown(words):
            print(f"  unknown: {', '.join(map(_printable, unknown))}", file=sys.stderr)
        if given.show_attention and found:
            print(_map_of(translator, words, found[0]), flush=True)
    return int(failed)


def _typed() -> Iterator[str]:
    """The lines of standard input; from a terminal behind a prompt, with what readline offers."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(ImportError):  # a system without it; where it is there, input() uses it
        import_module("readline")
    with suppress(EOFError):
        while True:
            yield input("> ")
    print()


def _printable(word: str) -> str:
    """A word as the terminal may show it: no control character moves its cursor."""
    return word if word.isprintable() else ascii(word)


def _map_of(translator: Translator, words: Sequence[str], best: Hypothesis) -> str:
    """The attention behind a translation, as text that fits the terminal."""
    weights = translator.cross_attention(words, best.tokens).tolist()
    rows = _labels(best.tokens, translator.target_vocab)
    read = [*translator.source_vocab.encode(words), EOS]
    columns = _labels(read, translator.source_vocab)
    return map_as_text(weights, rows, columns, shutil.get_terminal_size().columns)


def _labels(tokens: Sequence[int], vocabulary: Vocabulary) -> list[str]:
    """What a map calls its tokens."""
    shown = labels(vocabulary)
    return [_printable(shown[token]) for token in tokens]


def map_as_text(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], width: int
) -> str:
    """A map in per cent: a row for each query, a column for each key, each weight as a bar too.

    Args: what stands before the rows and above the columns; `width`, the letters that a line may
    have: further columns follow below.
    """
    left = max(map(_width, rows))
    wide = [max(_width(column) + 1, NARROWEST) for column in columns]
    blocks, start = [], 0
    while start < len(columns):
        end, used = start + 1, left + wide[start]
        while end < len(columns) and used + wide[end] <= width:
            used += wide[end]
            end += 1
        some = range(start, end)
        lines = [" " * left + "".join(_right(columns[i], wide[i]) for i in some)]
        for label, row in zip(rows, weights, strict=True):
            cells = (f"{_bar(row[i])}{100 * row[i]:3.0f}" for i in some)
            cut = (_right(cell, wide[i]) for cell, i in zip(cells, some, strict=True))
            lines.append(_right(label, left) + "".join(cut))
        blocks.append("\n".join(lines))
        start = end
    return "\n\n".join(blocks)


def _bar(weight: float) -> str:
    return BARS[round(weight * (len(BARS) - 1))]


def _width(text: str) -> int:
    """The columns of a terminal that a text takes: two for a wide letter, none for an accent."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _right(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text


# --- a file -----------------------------------------------------------------------------------


def _translate_file(given: argparse.Namespace) -> int:
    """Translate all lines of a file; line n of the output belongs to line n, empty ones too."""
    source, out = Path(given.source), Path(given.out).resolve() if given.out else None
    if out:
        _expect_place(out, source, Path(given.run))
    lines = read_lines(source)
    references = _references(Path(given.reference), len(lines)) if given.reference else None
    plain, lowercase = _load(given)
    translator = _in_bits(plain, given.bits)
    sentences = [tokenise(line, lowercase=lowercase) for line in lines]
    places = [place for place, words in enumerate(sentences) if words]
    filled = [sentences[place] for place in places]
    for place, words in zip(places, filled, strict=True):
        if (length := len(translator.source_vocab.encode(words))) > translator.longest:
            raise ValueError(
                f"{source}, line {place + 1}: expected at most {translator.longest} tokens for "
                f"learned positions, got {length}; split it"
            )
    found: list[list[Hypothesis]] = [[] for _ in lines]
    start = time.perf_counter()
    with tqdm(total=len(filled), unit=" sentences", disable=None, leave=False) as bar:
        for some, translated in translator.in_batches(filled, given.best or 1):
            for at, hypotheses in zip(some, translated, strict=True):
                found[places[at]] = hypotheses
            bar.update(len(some))
    seconds = max(time.perf_counter() - start, 1e-9)
    text = "".join(_written(n, best, given.best) for n, best in enumerate(found, 1))
    if out:
        write_whole(out, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    else:
        print(text, end="", flush=True)
    _tell_unknown(translator, sentences)
    if references:
        truths = [tokenise(references[place], lowercase=lowercase) for place in places]
        _tell_score([found[place][0] for place in places], truths, plain, filled, given.bits)
    tokens = sum(len(best[0].tokens) for best in found if best)
    print(
        f"{len(filled):,} sentences, {tokens:,} tokens in {seconds:.1f} s: "
        f"{len(filled) / seconds:,.0f} sentences and {tokens / seconds:,.0f} tokens a second",
        file=sys.stderr,
    )
    return 0


def _references(path: Path, n: int) -> list[str]:
    lines = read_lines(path)
    if len(lines) != n:
        raise ValueError(
            f"expected {n:,} lines in {path}, one for each line to translate, got {len(lines):,}"
        )
    return lines


def _tell_score(
    said: Sequence[Hypothesis],
    truths: Sequence[Sequence[str]],
    plain: Translator,
    sentences: Sequence[Sequence[str]],
    bits: int,
) -> None:
    """BLEU of the translations; with fewer bits, beside that of the model as it was trained."""
    result = bleu([one.words for one in said], truths)
    line = f"BLEU {result.score:.2f} on {len(said):,} sentences"
    if bits < 32:
        others = [best[0] for best in plain.translate(sentences)]
        same = sum(a.tokens == b.tokens for a, b in zip(said, others, strict=True))
        before = bleu([one.words for one in others], truths).score
        line += (
            f" with {bits} bits, {before:.2f} with 32: {result.score - before:+.2f}; "
            f"{same:,} translations are the same"
        )
    print(f"{line}\nsignature {result.signature}", file=sys.stderr)


def _written(line: int, hypotheses: Sequence[Hypothesis], best: int | None) -> str:
    """A translation as a line; of several, each with the number of its line and its score."""
    if not best:
        return " ".join(hypotheses[0].words) + "\n" if hypotheses else "\n"
    if not hypotheses:
        return f"{line}\t\t\n"
    return "".join(f"{line}\t{one.score:.4f}\t{' '.join(one.words)}\n" for one in hypotheses)


def _tell_unknown(translator: Translator, sentences: Sequence[Sequence[str]]) -> None:
    """Name the words of a file that the model does not know, the most frequent first."""
    unknown = [translator.unknown(words) for words in sentences]
    counts = Counter(word for words in unknown for word in words)
    if counts:
        named = ", ".join(_printable(word) for word, _ in counts.most_common(NAMED))
        more = f" and {len(counts) - NAMED:,} more" if len(counts) > NAMED else ""
        print(f"unknown in {sum(map(bool, unknown)):,} lines: {named}{more}", file=sys.stderr)


def read_lines(path: Path) -> list[str]:
    """The lines of a text in UTF-8, plain or .gz; each ends as on any system.

    Errors: ValueError for a folder, a pipe or a device, for a damaged archive, and for what is not
    UTF-8, with its line; OSError for a file that is not there or may not be read.
    """
    if path.exists() and not path.is_file():  # it may have no end
        raise ValueError(f"{path}: expected a file, got a folder, a pipe or a device")
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}: expected a whole gzip archive, got {error}; fetch the file again"
            ) from error
    lines = []
    for place, raw in enumerate(content.splitlines(), 1):
        try:
            lines.append(raw.decode("utf-8-sig" if place == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {place}: expected UTF-8, got {error}; save the file as UTF-8"
            ) from error
    return lines


def _expect_place(out: Path, source: Path, run: Path) -> None:
    """Check, before anything is translated, that the translations may stand there."""
    if out.exists() and not out.is_file():
        raise ValueError(f"expected the name of a file after --out, got {out}, which is none")
    if not out.parent.is_dir():
        raise ValueError(f"expected a folder that is there for --out, got {out.parent}")
    if out == source.resolve():
        raise ValueError(f"expected another file after --out than after --in, got {out} twice")
    if out.parent == run.resolve() and out.name in FILES:
        raise ValueError(
            f"expected --out to leave the files of the run alone, got {out}; give it another name"
        )


if __name__ == "__main__":
    sys.exit(main())
