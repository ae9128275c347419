"""A trained model as a translator: from the folder of a finished run, for sentences in any number.

The score at the end of a run and `python -m train.translate` both translate here, so a sentence
gets the same translation from both, whichever sentences stand beside it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lib.attention import attention_maps
from lib.data import EOS, UNK, Vocabulary, pad_batch
from lib.decoding import n_best
from lib.transformer import Transformer
from train.checkpoints import load_model
from train.folder import BEST, STATE, SUMMARY
from train.run import EXTRA_LENGTH, Progress, fault_of_best, read_state

ROWS = 1000  # hypotheses that are decoded together
ROUND = 8  # lengths are rounded up to a multiple of it


class Hypothesis(NamedTuple):
    """A translation: its words, its tokens with EOS, and its score with the length penalty."""

    words: list[str]
    tokens: list[int]
    score: float


@dataclass(frozen=True)
class Translator:
    """A Transformer, its vocabularies, and how it searches.

    Args: beam, alpha and min_length, those of `n_best`. A beam of 1 is greedy.
    """

    model: Transformer
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    beam: int
    alpha: float
    min_length: int = 0

    def translate(self, sentences: Sequence[Sequence[str]], n: int = 1) -> list[list[Hypothesis]]:
        """The n best translations of each sentence, in the order of the sentences.

        Sentences of about one length are decoded together. A translation stops after as many tokens
        as its source has, rounded up to a multiple of 8, and 50 more: that depends on the sentence
        alone.

        Args: sentences as tokens; n, at most the beam. Fewer come where fewer have ended.
        Errors: ValueError for a sentence that is too long, see `longest`, and those of `n_best`.
        Source: Attention Is All You Need, section 6.1, has the source's length and 50 more.
        """
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        for places, translated in self.in_batches(sentences, n):
            for place, hypotheses in zip(places, translated, strict=True):
                found[place] = hypotheses
        return found

    def in_batches(
        self, sentences: Sequence[Sequence[str]], n: int = 1
    ) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
        """As `translate`, batch by batch: the places of its sentences, and their translations."""
        numbered = [self.source_vocab.encode(sentence) for sentence in sentences]
        alike = defaultdict(list)
        for place, tokens in enumerate(numbered):
            if len(tokens) > self.longest:
                raise ValueError(
                    f"expected a sentence of at most {self.longest} tokens for learned positions, "
                    f"got one of {len(tokens)}; split it"
                )
            alike[-(-len(tokens) // ROUND) * ROUND].append(place)
        together = max(1, ROWS // self.beam)
        for length, places in sorted(alike.items(), reverse=True):  # the memory is needed at once
            limit = length + EXTRA_LENGTH
            if self.model.config.positions == "learned":
                limit = min(limit, self.model.config.max_length)
            for start in range(0, len(places), together):
                some = places[start : start + together]
                yield some, self._decode([numbered[place] for place in some], limit, n)

    def _decode(self, numbered: list[list[int]], limit: int, n: int) -> list[list[Hypothesis]]:
        batch = pad_batch(numbered, [[] for _ in numbered]).to(self._device)
        tokens, scores = n_best(
            self.model,
            batch.source,
            batch.source_lengths,
            limit,
            beam=self.beam,
            alpha=self.alpha,
            min_length=self.min_length,
            n=n,
        )
        return [
            [
                Hypothesis(self.target_vocab.decode(row), _ended(row), score)
                for row, score in zip(rows, their_scores, strict=True)
                if isfinite(score)
            ]
            for rows, their_scores in zip(tokens.tolist(), scores.tolist(), strict=True)
        ]

    @property
    def longest(self) -> int:
        """The tokens that a sentence may have: learned positions have an end, others none."""
        config = self.model.config
        return config.max_length - EXTRA_LENGTH if config.positions == "learned" else 2**63

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def unknown(self, sentence: Sequence[str]) -> list[str]:
        """The words of a sentence that the model reads as <unk>, each once."""
        return [word for word in dict.fromkeys(sentence) if UNK in self.source_vocab.encode([word])]

    def cross_attention(
        self, sentence: Sequence[str], tokens: Sequence[int]
    ) -> Float[Tensor, "target_time source_time"]:
        """How much each token of a translation attends to each of the source, EOS included.

        The mean over all heads of all layers of the decoder; a row sums to 1.
        """
        source = self.source_vocab.encode(sentence)
        batch = pad_batch([source], [list(tokens)[:-1]]).to(self._device)
        maps = attention_maps(self.model, batch.source, batch.source_lengths, batch.target_in)
        crossed = [heads for name, heads in maps.items() if name.endswith("cross_attention")]
        return torch.stack(crossed).mean(dim=(0, 1, 2)).cpu()


def _ended(row: list[int]) -> list[int]:
    """The tokens up to the first EOS, with it; all of them where there is none."""
    return row[: row.index(EOS) + 1] if EOS in row else row


def read_run(
    folder: Path, device: torch.device | str = "cpu"
) -> tuple[tuple[Transformer, Vocabulary, Vocabulary], dict[str, Any]]:
    """The best model of a finished run, as `load_model` gives it, and the run's options.

    Nothing in the folder is changed.
    Errors: ValueError for a folder without a run, a run that is not finished, and files that are
    damaged or of another run; OSError.
    """
    if not (folder / STATE).exists():
        raise ValueError(
            f"expected the folder of a finished run, got {folder}, where there is no {STATE}; "
            "name the folder that a run had after --out"
        )
    kept = read_state(folder / STATE)
    if not (folder / SUMMARY).exists():
        raise ValueError(
            f"expected a finished run in {folder}, got one that has not come to its end: there is "
            f"no {SUMMARY}; go on with it by --resume --out {folder}"
        )
    run, progress = kept.get("run", ""), Progress(**kept["progress"])
    told = (folder / SUMMARY).read_text(encoding="utf-8", errors="replace")
    if f"fingerprint {run}" not in told:
        raise ValueError(
            f"expected the summary of this run in {folder / SUMMARY}, with the fingerprint {run}, "
            "got another text; put the run's own file back, or score it again with --resume"
        )
    if fault := fault_of_best(folder / BEST, run, progress):
        raise ValueError(f"{fault}; put the run's own file back, or train in another folder")
    return load_model(folder / BEST, device), kept["options"]
