"""Three families on one sentence: what each reads at a masked token, its target, its guesses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

import torch
from traitlets import Enum

from chapters.families.families import causal_prefix_mask, guess, joined
from lib.data import BOS, EOS, Pair, Vocabulary, make_batch
from lib.transformer import OneStack
from widgets import domain
from widgets.base import BookWidget, static_table
from widgets.domain import quantise

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder")
FIRST_PREFIX = 2  # a prefix of one token is the causal mask
Guesses = list[list]  # (token, probability), the likeliest first
# A row "BOS source EOS translation EOS". The name of a family leads to its guesses for each token:
# an empty list where the family is not asked.
Row = TypedDict(
    "Row",
    {
        "tokens": list[str],
        "prefix": int,  # how many tokens stand before the translation
        "encoder-only": list[Guesses],
        "decoder-only": list[Guesses],
        "encoder-decoder": list[Guesses],
        "prefixed": list[list[Guesses]],  # of a prefix model, for each prefix from 2 up to `prefix`
    },
)


class FamiliesExplorer(BookWidget):
    """Click a token of a row; see which others each family may see there, and its guesses.

    Args: sentences, a row for each; sentence, position, family, where the explorer starts; shown,
        how many tokens are in the prefix of the decoder-only family, 1 for none.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Raffel et al. 2020, figure 4, made to move.
    """

    _module = "families_explorer"
    sentences = domain.Fixed()
    sentence = domain.Place()
    position = domain.Place(1, least=1)
    family = Enum(FAMILIES, FAMILIES[0])
    shown = domain.Place(1, least=1)

    def __init__(self, sentences: Sequence[Row], **start: Any):
        super().__init__(sentences=list(sentences), **start)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "sentence", len(self.sentences) - 1
        one = self.sentences[self.sentence]
        yield "position", len(one["tokens"]) - 1
        yield "shown", one["prefix"]

    @classmethod
    @torch.no_grad()
    def from_models(
        cls,
        models: Mapping[str, Any],
        pairs: Sequence[Pair],
        vocab: Vocabulary,
        *,
        k: int = 4,
        **start: Any,
    ) -> "FamiliesExplorer":
        """Ask trained models for every token of some pairs.

        Args: models, the three families and the "prefix" model, by name; k, how many guesses to
        keep for each token; start, where the explorer starts.
        Errors: ValueError for other names than these.
        """
        if set(models) != {*FAMILIES, "prefix"}:
            domain.refuse("models", f"a mapping with {[*FAMILIES, 'prefix']}", sorted(models))

        def best(chances: torch.Tensor) -> Guesses:
            top = chances.topk(k)
            words = [vocab.tokens[i] for i in top.indices.tolist()]
            return [list(one) for one in zip(words, quantise(top.values), strict=True)]

        sentences = []
        for pair in pairs:
            row = joined(make_batch([pair], vocab, vocab))
            prefix, places = len(pair.source) + 2, range(1, row.shape[1])
            one: Any = {"tokens": [vocab.tokens[i] for i in row[0].tolist()], "prefix": prefix}
            for kind in FAMILIES[:2]:
                said = [[], *(best(guess(models[kind], kind, row, t)[0]) for t in places)]
                asked = row[0] > EOS  # an end is never hidden
                one[kind] = [
                    g if kind == "decoder-only" or asked[t] else [] for t, g in enumerate(said)
                ]
            logits = models["encoder-decoder"](
                row[:, 1:prefix], torch.tensor([prefix - 1]), _shifted(row, prefix)
            )[0]
            one["encoder-decoder"] = [[]] * prefix + [best(x.softmax(dim=-1)) for x in logits]
            one["prefixed"] = [
                _prefixed(models["prefix"], row, prefix, length, best)
                for length in range(FIRST_PREFIX, prefix + 1)
            ]
            sentences.append(one)
        return cls(sentences, **start)

    def summary(self) -> str:
        number = len(self.sentences)
        return f"FamiliesExplorer: three families on {number} sentence{'s' if number > 1 else ''}"

    def static_html(self) -> str:
        one = self.sentences[self.sentence]
        rows = []
        for t, token in enumerate(one["tokens"][1:], 1):
            best = [one[kind][t][0] if one[kind][t] else None for kind in FAMILIES]
            rows.append((token, *(f"{g[0]} ({100 * g[1]:.0f} %)" if g else "–" for g in best)))
        caption = f"Each family's likeliest guess for each token of: {' '.join(one['tokens'])}"
        return static_table(caption, ("token", *FAMILIES), rows)


def _shifted(row: torch.Tensor, prefix: int) -> torch.Tensor:
    """What a decoder with an encoder beside it reads: BOS, then the translation but its end."""
    return torch.cat([row.new_full((1, 1), BOS), row[:, prefix:-1]], dim=1)


def _prefixed(model: OneStack, row: torch.Tensor, prefix: int, length: int, best: Any) -> list:
    """Guesses of a prefix model for the translation, with a prefix of `length` tokens."""
    logits = model(row, causal_prefix_mask(torch.tensor([length]), row.shape[1]))[0]
    after = range(prefix, row.shape[1])
    return [[]] * prefix + [best(logits[t - 1].softmax(dim=-1)) for t in after]
