"""Chapter 2 on several seeds: our encoder beside one that reads both ways, and what maps say.

    python experiments/attention_seeds.py [--only ...] [--seeds 0 1 2]

Trains the translator with attention as chapter 2 does, and beside it one whose encoder reads the
source in both directions, as that of Bahdanau et al. 2015: half of the state for each, so that the
keys have as many numbers. Each run is added to results/attention_seeds.json, and a run that is
already there is skipped. It measures, besides accuracy by length, what chapter 2 says of maps.
"""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_seq2seq.by_length import ABOUT, D_HIDDEN, SETTINGS, train_and_evaluate
from chapters.attention_seq2seq.interventions import WithFirstState, WithMask, WithStates
from lib.data import Pair, make_batch
from lib.decoding import greedy, translate
from lib.metrics import exact_match
from lib.seq2seq import AttentionSeq2Seq, AttentionState, Encoder, real_positions
from measure.experiments import command_line, grid
from tasks.lists import D_EMBED, Sets

STEPS = (150, 300, 750)
OF_MAPS = {
    "ago": "of held-out sentences with one ago, the share whose map for il is largest at ago",
    "adjective": "weight on the state at colombian when colombiens is written, mean over sentences",
    "noun": "the same on the state at pesos",
    "mexican": "share translated exactly with mexican in the place of colombian",
    "hidden": "share translated exactly with the state at colombian hidden from the decoder",
    "exchanged": "share in whose translation colombiens becomes mexicains, all else as it should "
    "be, when the decoder gets some states of the sentence with mexican: the one at the noun; s_0; "
    "all behind the adjective but the one at the noun, s_0 included",
    "unmasked": "share of the first 250 held-out sentences translated exactly without the mask: "
    "each alone; all in one batch; all in one batch with 20 more positions of padding",
}


class BothWays(AttentionSeq2Seq):
    """Keys are pairs of states, read from the left and from the right; s_0 from the latter.

    h_i = [forward state at i; backward state at i],  s_0 = tanh(W (backward state at 1))

    Source: Bahdanau et al. 2015, section 3.2 and appendix A.2.2; halves so that h_i keeps its size.
    """

    def __init__(
        self, source_vocab: int, target_vocab: int, d_embed: int = D_EMBED, d_hidden: int = D_HIDDEN
    ):
        super().__init__(source_vocab, target_vocab, d_embed, d_hidden)
        self.encoder = Encoder(source_vocab, d_embed, d_hidden // 2)
        self.backward_encoder = Encoder(source_vocab, d_embed, d_hidden // 2)
        self.backward_encoder.embedding = self.encoder.embedding  # a word is the same both ways
        self.first_state = nn.Linear(d_hidden // 2, d_hidden)

    def start(self, source: Tensor, source_lengths: Tensor) -> AttentionState:
        time_ = source.shape[1]
        mask = real_positions(source_lengths, time_)
        place = torch.arange(time_, device=source.device)
        mirrored = (source_lengths.unsqueeze(1) - 1 - place).where(mask, place)
        left = self.encoder(source, source_lengths)[0]
        right, first = self.backward_encoder(source.gather(1, mirrored), source_lengths)
        right = right.gather(1, mirrored.unsqueeze(-1).expand_as(right))
        keys = torch.cat([left, right], dim=-1)
        return self.decoder.start(keys, torch.tanh(self.first_state(first)), mask)


MODELS: dict[str, type[AttentionSeq2Seq]] = {"both ways": BothWays, "one way": AttentionSeq2Seq}


def share(model: Any, pairs: Sequence[Pair], sets: Sets) -> float:
    """The share of pairs that a model translates exactly, in batches of `translate`."""
    said = translate(model, pairs, *sets.vocabularies)
    return round(exact_match(said, [pair.target for pair in pairs]), 4)


def look_at(model: Any, pairs: Sequence[Pair], sets: Sets, word: str, column: str) -> Tensor:
    """For each pair, the map's row where `word` is first written, and where `column` stands."""
    batch = make_batch(pairs, *sets.vocabularies)
    tokens, maps = greedy(model, batch.source, batch.source_lengths, max_length=60)
    assert maps is not None
    wanted = sets.vocabularies[1].encode([word])[0]
    found = []
    for pair, row, weights in zip(pairs, tokens.tolist(), maps, strict=True):
        if wanted in row:
            line, at = weights[row.index(wanted)], pair.source.index(column)
            found.append([line[at].item(), float(line.argmax().item() == at)])
        else:
            found.append([0.0, 0.0])
    return torch.tensor(found)


def swapped(pair: Pair, words: dict[str, str]) -> Pair:
    """The pair with some words in the place of others."""
    return Pair(*(tuple(words.get(word, word) for word in side) for side in pair))


def exchanged(model: AttentionSeq2Seq, pairs: Sequence[Pair], sets: Sets) -> dict[str, float]:
    """For some of the decoder's states taken from the sentence with mexican: is it mexicains now?

    Args: pairs, sources with colombian and the translations of those with mexican.
    """
    adjective, another = sets.vocabularies[0].encode(["colombian", "mexican"])

    def other(source: Tensor) -> Tensor:
        return source.where(source != adjective, another)

    def noun(source: Tensor) -> Tensor:
        return (source == adjective).roll(1, dims=1)

    def others(source: Tensor) -> Tensor:
        read = (source == adjective).cumsum(1) > 0
        return read & (source != adjective) & ~noun(source)

    mixed = {
        "noun": WithStates(model, other, noun),
        "s_0": WithFirstState(model, other),
        "others": WithStates(model, other, others),
    }
    return {name: share(one, pairs, sets) for name, one in mixed.items()}


@torch.no_grad()
def maps_and_masks(model: AttentionSeq2Seq, sets: Sets) -> dict[str, Any]:
    """What chapter 2 says of maps, hidden states and forgotten masks."""
    times = [pair for pair in sets.test if pair.source.count("ago") == 1]
    pesos = [pair for pair in sets.test if "colombian" in pair.source]
    mexican = [swapped(p, {"colombian": "mexican", "colombiens": "mexicains"}) for p in pesos]
    adjective = sets.vocabularies[0].encode(["colombian"])[0]
    hidden = WithMask(model, lambda mask, source: mask & (source != adjective))
    as_mexican = [Pair(p.source, m.target) for p, m in zip(pesos, mexican, strict=True)]
    unmasked = WithMask(model, lambda mask, source: None)
    few = sets.test[:250]
    batch = make_batch(few, *sets.vocabularies)
    source = nn.functional.pad(batch.source, (0, 20))
    tokens, _ = greedy(unmasked, source, batch.source_lengths, max_length=60)
    padded = [sets.vocabularies[1].decode(row) for row in tokens.tolist()]
    found = {
        "ago": look_at(model, times, sets, "il", "ago")[:, 1].mean().item(),
        "adjective": look_at(model, pesos, sets, "colombiens", "colombian")[:, 0].mean().item(),
        "noun": look_at(model, pesos, sets, "colombiens", "pesos")[:, 0].mean().item(),
        "mexican": share(model, mexican, sets),
        "hidden": share(hidden, pesos, sets),
        "unmasked": [
            sum(share(unmasked, [pair], sets) for pair in few) / len(few),
            share(unmasked, few, sets),
            exact_match(padded, [pair.target for pair in few]),
        ],
    }
    counts = {"ago": len(times), "colombian": len(pesos), "unmasked": len(few)}
    rounded = {
        key: [round(v, 4) for v in value] if isinstance(value, list) else round(value, 4)
        for key, value in found.items()
    }
    return {"sentences": counts} | rounded | {"exchanged": exchanged(model, as_mexican, sets)}


@cache
def sets() -> Sets:
    return Sets()


def run(model: str, seed: int) -> dict[str, Any]:
    """Train one model; evaluate it at STEPS, and its maps at the last of them."""
    data = sets()
    net, _, found = train_and_evaluate(MODELS[model], seed, data, STEPS)
    return found | maps_and_masks(net, data)


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"model": MODELS, "seed": (0, 1, 2)}, arguments)
    about = {"about": ABOUT | OF_MAPS, "settings": SETTINGS}
    grid(run, given, lambda runs: {**about, "runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()
