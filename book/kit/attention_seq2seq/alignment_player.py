"""A player that steps through a translation and shows where the decoder looks for each token."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import nn

from kit.shared import validate
from kit.shared.widget import BookWidget, quantise, static_table
from lib.data import BOS, EOS, Pair, Vocabulary

ROW_TOLERANCE = 0.05  # rounding to three digits moves the sum of a row by far less


class AlignmentPlayer(BookWidget):
    """Step through the tokens a decoder writes; see its weights and its choice at each of them.

    Args: sentences, a list of mappings, one for each sentence:
        source      tokens that the keys stand for (columns of the map), the end token included
        output      tokens that the decoder wrote (rows of the map)
        reference   tokens of the right answer
        weights     (output x source) numbers; each row sums to 1
        candidates  for each output token a list of (token, probability), the likeliest first
        sentence, step: where the player starts, counted from 0.
    Errors: ValueError naming the sentence and the field, what was expected and what came.
    Source: figure 3 of Bahdanau et al. 2015, made to move.
    """

    _module = "alignment_player"
    sentences = traitlets.List().tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, sentences: Sequence[Mapping[str, Any]], *, sentence: int = 0, step: int = 0):
        found = validate.items(sentences, "sentences")
        checked = [_sentence(one, f"sentences[{i}]") for i, one in enumerate(found)]
        sentence = validate.index(sentence, len(checked), "sentence")
        step = validate.index(step, len(checked[sentence]["output"]), "step")
        super().__init__(sentences=checked, sentence=sentence, step=step)

    @classmethod
    @torch.no_grad()
    def from_model(
        cls,
        model: nn.Module,
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
        was_training = model.training
        model.eval()
        device = next(model.parameters()).device
        sentences = []
        for pair in pairs:
            source = torch.tensor([[*source_vocab.encode(pair.source), EOS]], device=device)
            state = model.start(source, torch.tensor([source.shape[1]], device=device))
            token = source.new_full((1,), BOS)
            output, rows, candidates = [], [], []
            while len(output) < max_length and token.item() != EOS:
                logits, weights, state = model.step(token, state)
                if weights is None:
                    raise ValueError(
                        "expected a model whose steps return weights over the source, got None; "
                        "use one with attention"
                    )
                best = logits[0].softmax(dim=-1).topk(k)
                token = best.indices[:1]
                words = [target_vocab.tokens[i] for i in best.indices.tolist()]
                output.append(words[0])
                rows.append(weights[0].tolist())
                candidates.append(list(zip(words, best.values.tolist(), strict=True)))
            sentences.append(
                {
                    "source": [*pair.source, target_vocab.tokens[EOS]],
                    "output": output,
                    "reference": [*pair.target, target_vocab.tokens[EOS]],
                    "weights": rows,
                    "candidates": candidates,
                }
            )
        model.train(was_training)
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


def _sentence(one: Any, where: str) -> dict[str, Any]:
    """One sentence, checked and rounded."""
    names = ("source", "output", "reference", "weights", "candidates")
    one = validate.fields(one, names, where)
    source = validate.tokens(one["source"], f"{where}.source")
    output = validate.tokens(one["output"], f"{where}.output")
    reference = validate.tokens(one["reference"], f"{where}.reference")
    weights = validate.matrix(one["weights"], len(output), len(source), f"{where}.weights")
    for i, row in enumerate(weights):
        if min(row) < 0 or abs(sum(row) - 1) > ROW_TOLERANCE:
            raise ValueError(
                f"{where}.weights[{i}]: expected numbers of at least 0 that sum to 1, got the sum "
                f"{sum(row):.3f}; queries (output tokens) are rows, keys (source tokens) columns"
            )
    steps = validate.items(one["candidates"], f"{where}.candidates")
    if len(steps) != len(output):
        raise ValueError(
            f"{where}.candidates: expected one list for each of {len(output)} output tokens, "
            f"got {len(steps)}"
        )
    candidates = [_candidates(step, f"{where}.candidates[{i}]") for i, step in enumerate(steps)]
    return {
        "source": source,
        "output": output,
        "reference": reference,
        "weights": weights,
        "candidates": candidates,
    }


def _candidates(step: Any, where: str) -> list[list]:
    found = []
    for pair in validate.items(step, where):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"{where}: expected (token, probability), got {pair!r}")
        token, probability = pair
        [token] = validate.tokens([token], where)
        found.append([token, validate.share(probability, where)])
    chances = [quantise(chance) for _, chance in found]
    if chances != sorted(chances, reverse=True):
        raise ValueError(f"{where}: expected the likeliest candidate first, got {chances}")
    return found
