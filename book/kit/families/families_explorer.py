"""Three families on one sentence: what each may see at a gap, what is asked there, what it says."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import nn

from kit.families.families import causal_prefix_mask, guess, joined
from kit.shared import validate
from kit.shared.widget import BookWidget, quantise, static_table
from lib.data import BOS, EOS, Pair, Vocabulary, make_batch
from lib.transformer import OneStack

FAMILIES = ("encoder-only", "decoder-only", "encoder-decoder")
FIRST_PREFIX = 2  # a prefix of one token is the causal mask
Guesses = list[tuple[str, float]]


class FamiliesExplorer(BookWidget):
    """Click a token of a row; see which others each family may see there, and its guesses.

    Args: sentences, a list of mappings, one for each row "BOS source EOS translation EOS":
        tokens           the row
        prefix           how many tokens stand before the translation
        encoder-only     for each token a list of (token, probability), the likeliest first; an
        decoder-only     empty list where the family is not asked
        encoder-decoder
        prefixed         the same of a prefix model: a list for each prefix from 2 up to `prefix`
        sentence, position, family: where the explorer starts; shown, how many tokens are in the
        prefix of the decoder-only family, 1 for none.
    Errors: ValueError naming the sentence and the field, what was expected and what came.
    Source: Raffel et al. 2020, figure 4, made to move.
    """

    _module = "families_explorer"
    sentences = traitlets.List().tag(sync=True)
    families = traitlets.List().tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    position = traitlets.Int(1).tag(sync=True)
    family = traitlets.Unicode().tag(sync=True)
    shown = traitlets.Int(1).tag(sync=True)

    def __init__(
        self,
        sentences: Sequence[Mapping[str, Any]],
        *,
        sentence: int = 0,
        position: int = 1,
        family: str = FAMILIES[0],
        shown: int = 1,
    ):
        found = validate.items(sentences, "sentences")
        checked = [_sentence(one, f"sentences[{i}]") for i, one in enumerate(found)]
        sentence = validate.index(sentence, len(checked), "sentence")
        one = checked[sentence]
        super().__init__(
            sentences=checked,
            families=list(FAMILIES),
            sentence=sentence,
            position=validate.whole(position, 1, len(one["tokens"]) - 1, "position"),
            family=validate.one_of(family, FAMILIES, "family"),
            shown=validate.whole(shown, 1, one["prefix"], "shown"),
        )

    @classmethod
    @torch.no_grad()
    def from_models(
        cls,
        models: Mapping[str, nn.Module],
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
        validate.fields(models, (*FAMILIES, "prefix"), "models")

        def best(chances: torch.Tensor) -> Guesses:
            top = chances.topk(k)
            words = [vocab.tokens[i] for i in top.indices.tolist()]
            return list(zip(words, top.values.tolist(), strict=True))

        sentences = []
        for pair in pairs:
            row = joined(make_batch([pair], vocab, vocab))
            prefix, time = len(pair.source) + 2, row.shape[1]
            places = range(1, time)
            one = {"tokens": [vocab.tokens[i] for i in row[0].tolist()], "prefix": prefix}
            for kind in FAMILIES[:2]:
                said = [[], *(best(guess(models[kind], kind, row, t)[0]) for t in places)]
                asked = kind == "decoder-only" or row[0] > EOS  # an end is never hidden
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
    """Guesses of a prefix model for the translation, while only `length` tokens see each other."""
    logits = model(row, causal_prefix_mask(torch.tensor([length]), row.shape[1]))[0]
    after = range(prefix, row.shape[1])
    return [[]] * prefix + [best(logits[t - 1].softmax(dim=-1)) for t in after]


def _sentence(one: Any, where: str) -> dict[str, Any]:
    one = validate.fields(one, ("tokens", "prefix", *FAMILIES, "prefixed"), where)
    tokens = validate.tokens(one["tokens"], f"{where}.tokens")
    prefix = validate.whole(one["prefix"], 2, len(tokens) - 1, f"{where}.prefix")
    checked = {"tokens": tokens, "prefix": prefix}
    for kind in FAMILIES:
        checked[kind] = _guesses(one[kind], len(tokens), f"{where}.{kind}")
    every = validate.items(one["prefixed"], f"{where}.prefixed")
    if len(every) != prefix - 1:
        raise ValueError(
            f"{where}.prefixed: expected a list for each prefix from {FIRST_PREFIX} to {prefix}, "
            f"got {len(every)}"
        )
    checked["prefixed"] = [
        _guesses(said, len(tokens), f"{where}.prefixed[{i}]") for i, said in enumerate(every)
    ]
    return checked


def _guesses(value: Any, time: int, where: str) -> list[list]:
    found = validate.items(value, where)
    if len(found) != time:
        raise ValueError(f"{where}: expected a list for each of {time} tokens, got {len(found)}")
    checked = []
    for t, said in enumerate(found):
        chances = []
        for pair in said:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise ValueError(f"{where}[{t}]: expected (token, probability), got {pair!r}")
            [token] = validate.tokens([pair[0]], f"{where}[{t}]")
            chances.append([token, validate.share(pair[1], f"{where}[{t}]")])
        rounded = [quantise(chance) for _, chance in chances]
        if rounded != sorted(rounded, reverse=True):
            raise ValueError(f"{where}[{t}]: expected the likeliest guess first, got {rounded}")
        checked.append(chances)
    return checked
