"""The book's tracer with a reader's own model in it, if a page can hold that."""

import json
from collections.abc import Mapping
from typing import Any

import torch

from chapters.transformer.forward_tracer import ForwardTracer, sizes_of
from chapters.transformer.tracing import Traced, stages_of, trace_sentence
from lib.transformer import Transformer
from show.measured import Finished
from train.run import EXTRA_LENGTH
from train.subword import labels
from train.translator import ROUND
from widgets.packing import expect_computable
from widgets.rounding import pack_rounded, rounded, size_of

MOST_PARAMETERS = 30_000_000
MOST_BYTES = 40_000_000  # of the file with the model
TRACED = 3  # sentences that are stored with all their maps; the page traces any other
SHORT = range(3, 10)  # words of a sentence that is stored
OFFERED = range(8, 16)  # words of a sentence to try
TEXT = 5 / 4  # letters for each byte of the parameters


def why_not(run: Finished, bits: int) -> str:
    """Why a page cannot have the run's model in it; nothing if it can."""
    if run.parameters > MOST_PARAMETERS:
        return (
            f"The model has {run.parameters:,} parameters, and the page takes at most "
            f"{MOST_PARAMETERS:,}: a browser would compute too long at each word."
        )
    try:
        expect_computable(vars(run.model.config))
    except ValueError as error:
        return f"The page does not compute this design: {error}."
    size = size_of(run.model, bits) * TEXT + len(json.dumps([v.tokens for v in run.vocabs]))
    if size > MOST_BYTES:
        return (
            f"With {bits} bits a parameter the model takes {size / 1e6:.0f} MB, and the page takes "
            f"at most {MOST_BYTES // 10**6} MB: fewer bits take less."
        )
    return ""


def make_tracer(run: Finished, bits: int) -> ForwardTracer:
    """The tracer with the run's model, which begins with short sentences of its test.

    Where their maps are more than a widget may hold, as many sentences are left out as it takes;
    of the last one the translation is cut, which in a model that has learned little has no end.
    Errors: ValueError if the maps of a single token are too many.
    """
    packed = pack_rounded(run.model.cpu(), *run.vocabs, bits, run.options.lower_case)
    model = rounded(run.model, bits)
    sources = list(dict.fromkeys(pair.source for pair in run.test[1]))
    short = _of_length(sources, SHORT)
    traced = [_traced(model, words, run) for words in short]
    ready = [" ".join(words) for words in _of_length(sources, OFFERED)]
    sizes = sizes_of(run.model, *run.vocabs)
    kinds = [stage["kind"] for stage in stages_of(sizes["n_layers"], sizes["pre_norm"])]
    last = len(kinds) - 1 - kinds[::-1].index("cross")  # what the words are read from
    while True:
        try:
            return ForwardTracer(sizes, traced, packed=packed, ready=ready, stage=last)
        except ValueError:
            if len(traced) > 1:
                traced.pop()
            elif (said := len(traced[0]["said"])) > 1:
                traced = [_traced(model, short[0], run, said // 2)]
            else:
                raise


def _of_length(sentences: list[tuple[str, ...]], wanted: range) -> list[tuple[str, ...]]:
    """The first few sentences of these lengths, else those that are nearest to them."""
    away = {one: max(wanted.start - len(one), len(one) - wanted.stop + 1, 0) for one in sentences}
    return sorted(sentences, key=away.__getitem__)[:TRACED]


def _traced(
    model: Transformer, words: tuple[str, ...], run: Finished, longest: int | None = None
) -> Traced:
    """A sentence on its way through the model; sub-words as a reader sees them.

    Args: longest, tokens of its translation; None for as many as a translator writes.
    """
    if longest is None:
        count = len(run.vocabs[0].encode(words))
        longest = -(-count // ROUND) * ROUND + EXTRA_LENGTH
    with torch.no_grad():
        one = trace_sentence(model, words, *run.vocabs, max_length=longest)
    shown = [dict(zip(v.tokens, labels(v), strict=True)) for v in run.vocabs]
    return _renamed(one, *shown)


def _renamed(one: Traced, source: Mapping[str, str], target: Mapping[str, str]) -> Traced:
    guesses: list[Any] = [
        [[(target[token], chance) for token, chance in guessed] for guessed in stage]
        for stage in one["guesses"]
    ]
    return {
        **one,
        "source": [source[token] for token in one["source"]],
        "read": [target[token] for token in one["read"]],
        "said": [target[token] for token in one["said"]],
        "guesses": guesses,
    }
