"""How good translations are: the fraction that is exactly right, also by length, and BLEU."""

from collections.abc import Sequence
from itertools import pairwise
from math import nan
from typing import NamedTuple

from lib.data import Pair

TOKENISERS = ("none", "13a", "intl", "char")  # those of sacreBLEU that download nothing


class LengthBin(NamedTuple):
    """Sentences whose source has from `shortest` to `longest` tokens, both included.

    `accuracy` is the fraction translated exactly, from 0 to 1; nan if `count` is 0.
    """

    shortest: int
    longest: int
    count: int  # type: ignore[assignment]  # of sentences; a tuple's own method is not needed
    accuracy: float


class Bleu(NamedTuple):
    """A BLEU score from 0 to 100, and the signature that says how it was computed.

    Two scores may be compared only if their signatures are the same.
    """

    score: float
    signature: str


def exact_match(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return the fraction of predictions that equal their reference token by token, from 0 to 1.

    Args: sentences as tokens, in the same order.
    Errors: ValueError for unequal numbers of sentences, for none, or for text instead of tokens.
    """
    right = _right(predictions, references)
    return sum(right) / len(right)


def accuracy_by_length(
    predictions: Sequence[Sequence[str]], pairs: Sequence[Pair], edges: Sequence[int]
) -> list[LengthBin]:
    """Return exact match for short and long sources apart; length is in source tokens.

    Args: `edges` are the shortest length, then the longest of each bin: (1, 5, 10, 15) makes the
    bins 1 to 5, 6 to 10 and 11 to 15.
    Errors: ValueError for edges that do not rise, a source outside all bins, and as exact_match.
    """
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"expected at least two rising edges, got {tuple(edges)}")
    right = _right(predictions, [pair.target for pair in pairs])
    lengths = [len(pair.source) for pair in pairs]
    if min(lengths) < edges[0] or max(lengths) > edges[-1]:
        raise ValueError(
            f"expected sources of {edges[0]} to {edges[-1]} tokens, got lengths from "
            f"{min(lengths)} to {max(lengths)}; widen the edges"
        )
    bins = []
    starts = [edges[0], *(edge + 1 for edge in edges[1:-1])]
    for shortest, longest in zip(starts, edges[1:], strict=True):
        inside = [ok for ok, n in zip(right, lengths, strict=True) if shortest <= n <= longest]
        accuracy = sum(inside) / len(inside) if inside else nan
        bins.append(LengthBin(shortest, longest, len(inside), accuracy))
    return bins


def bleu(
    predictions: Sequence[Sequence[str] | str],
    references: Sequence[Sequence[str] | str],
    *,
    tokenize: str = "none",
) -> Bleu:
    """Return the BLEU of a whole test set, one reference for each prediction, by sacreBLEU.

    BLEU = 100 BP exp(1/4 sum over n = 1 .. 4 of log p_n), where p_n is the fraction of
    the predictions' n-grams that stand in their reference, and BP = min(1, exp(1 - r/c)) punishes
    predictions that are together shorter (c tokens) than the references (r). It is not symmetric:
    predictions come first.

    Args: sentences as tokens. tokenize, one of "none", "13a", "intl", "char": "none" counts the
    tokens as they are; the others join them with spaces and let sacreBLEU tokenise the text again,
    and take plain text too.
    Errors: ValueError for another tokenize, unequal numbers of sentences, none, or plain text
    where it is not tokenised again.
    Source: Papineni et al. 2002; Post 2018.
    """
    if tokenize not in TOKENISERS:
        raise ValueError(f"expected tokenize out of {', '.join(TOKENISERS)}, got {tokenize!r}")
    from sacrebleu.metrics import BLEU  # here: most chapters need neither it nor its start-up

    _require_pairs(predictions, references, tokens=tokenize == "none")
    hypotheses, truths = (
        [sentence if isinstance(sentence, str) else " ".join(sentence) for sentence in side]
        for side in (predictions, references)
    )
    metric = BLEU(tokenize=tokenize, force=True)  # force: no warning that the text is tokenised
    score = metric.corpus_score(hypotheses, [truths]).score
    return Bleu(score, str(metric.get_signature()))


def _right(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[bool]:
    _require_pairs(predictions, references, tokens=True)
    return [tuple(p) == tuple(r) for p, r in zip(predictions, references, strict=True)]


def _require_pairs(predictions: Sequence, references: Sequence, *, tokens: bool) -> None:
    if not predictions or len(predictions) != len(references):
        raise ValueError(
            "expected one prediction for each reference, at least one, got "
            f"{len(predictions)} predictions and {len(references)} references"
        )
    text = next((one for one in (*predictions, *references) if isinstance(one, str)), None)
    if tokens and text is not None:
        raise ValueError(f"expected tokens, got the text {text!r}; split it first")
