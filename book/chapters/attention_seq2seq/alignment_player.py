"""A player that steps through a translation and shows where the decoder looks for each token."""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import torch

from lib.data import EOS, Pair, Vocabulary
from lib.decoding import decode
from widgets import domain
from widgets.base import BookWidget, static_table
from widgets.domain import quantise


class Sentence(TypedDict):
    """A translation: what each output token looked at, and what else it might have been."""

    source: list[str]  # tokens that the keys stand for (columns of the attention map), the end too
    output: list[str]  # tokens that the decoder wrote (its rows)
    reference: list[str]  # tokens of the right answer
    weights: list[list[float]]  # output x source; each row sums to 1
    candidates: list[list[tuple[str, float]]]  # for each output token, the likeliest first


class AlignmentPlayer(BookWidget):
    """Step through the tokens a decoder writes; see its weights and its choice at each of them.

    Args: sentences; sentence, step, where the player starts, counted from 0.
    Errors: ValueError for a start that the controls cannot reach.
    Source: figure 3 of Bahdanau et al. 2015, made to move.
    """

    _module = "alignment_player"
    sentences = domain.Fixed()
    sentence = domain.Place()
    step = domain.Place()

    def __init__(self, sentences: Sequence[Sentence], *, sentence: int = 0, step: int = 0):
        super().__init__(sentences=list(sentences), sentence=sentence, step=step)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "sentence", len(self.sentences) - 1
        yield "step", len(self.sentences[self.sentence]["output"]) - 1

    @classmethod
    @torch.no_grad()
    def from_model(
        cls,
        model: Any,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        max_length: int = 60,
        k: int = 4,
    ) -> "AlignmentPlayer":
        """Translate `pairs` greedily with a model that has attention, and show what it did.

        Args: a model with `start` and `step`, in which `step` returns weights over the source;
        k, how many candidates to keep for each token.
        Errors: ValueError for a model without weights.
        """
        device = next(model.parameters()).device
        sentences: list[Sentence] = []
        candidates: list[list[tuple[str, float]]] = []

        def likeliest(logits: torch.Tensor) -> torch.Tensor:
            best = logits[0].softmax(dim=-1).topk(k)
            words = [target_vocab.tokens[i] for i in best.indices.tolist()]
            candidates.append(list(zip(words, quantise(best.values), strict=True)))
            return best.indices[:1]

        for pair in pairs:
            source = torch.tensor([[*source_vocab.encode(pair.source), EOS]], device=device)
            length = torch.tensor([source.shape[1]], device=device)
            candidates.clear()
            _, maps = decode(model, source, length, max_length, likeliest)
            if maps is None:
                raise ValueError(
                    "expected a model whose steps return weights over the source, got None; "
                    "use one with attention"
                )
            sentences.append(
                {
                    "source": [*pair.source, target_vocab.tokens[EOS]],
                    "output": [words[0][0] for words in candidates],
                    "reference": [*pair.target, target_vocab.tokens[EOS]],
                    "weights": quantise(maps[0]),
                    "candidates": list(candidates),
                }
            )
        return cls(sentences)

    def summary(self) -> str:
        number = len(self.sentences)
        return f"AlignmentPlayer: {number} sentence{'s' if number > 1 else ''}, token by token"

    def static_html(self) -> str:
        one = self.sentences[self.sentence]
        rows = []
        for word, weights in zip(one["output"], one["weights"], strict=True):
            best = max(range(len(weights)), key=weights.__getitem__)
            rows.append((word, one["source"][best], f"{100 * weights[best]:.0f} %"))
        caption = f"Where the decoder looks most, for: {' '.join(one['source'])}"
        return static_table(caption, ("output token", "source token", "weight"), rows)
