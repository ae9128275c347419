"""The numbers of "The Transformer in ten pictures" are those of the stored translator."""

import math
from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest
import torch

from build.directives.schematics import drawn
from chapters.transformer.parts import TransformerWithout
from chapters.transformer.pictures import (
    ACROSS,
    D_MODEL,
    FOUR_HEADS,
    FRENCH,
    HALF,
    ONE_HEAD,
    PAIRS,
    READ,
    SAID,
    across,
    added_not_replaced,
    every_word_asks,
    four_heads,
    stacked,
    strongest,
    turn,
    words_and_places,
)
from chapters.transformer.schematics import KEYS, QUERY, SOURCE, STEPS, WRITTEN
from chapters.transformer.tracing import trace_sentence
from lib.data import BOS, EOS
from lib.positions import sinusoidal_table
from lib.transformer import Config
from measure.records import read_results
from tasks.translation import translation_pairs
from tests.paths import BOOK
from train.checkpoints import load_published

PAGE = (BOOK / "ten_pictures.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model():
    return load_published()


@pytest.fixture(scope="module")
def traced(model):
    return trace_sentence(model[0], SOURCE, *model[1:], max_length=40)


def shown(weights) -> list[list[float]]:
    return [[round(w, 2) for w in row] for row in weights.tolist()]


def test_the_weights_are_those_of_the_translator(traced):
    assert traced["source"] == [*READ]
    assert traced["said"] == [*SAID, "<eos>"]
    heads = torch.tensor(traced["maps"]["encoder.layers.0.self_attention"])
    assert shown(heads[1]) == [[*row] for row in ONE_HEAD]
    assert shown(heads[:, READ.index("colombian")]) == [[*row] for row in FOUR_HEADS]
    cross = torch.tensor(traced["maps"]["decoder.layers.1.cross_attention"]).mean(dim=0)
    assert shown(cross[: len(SAID)]) == [[*row] for row in ACROSS]


def test_the_sizes_on_the_page_are_those_of_the_translator(model):
    config = model[0].config
    assert config.d_model == D_MODEL == 64
    assert (config.n_layers, config.n_heads, config.d_model // config.n_heads) == (2, 4, 16)
    assert config.d_ff == 128 == 2 * config.d_model
    assert "128 numbers" in added_not_replaced().alt
    assert len(translation_pairs()[0]) == 20_000


def test_the_hands_are_the_sinusoids_of_the_library():
    table = sinusoidal_table(len(SOURCE), D_MODEL)
    for position in range(len(SOURCE)):
        for pair in PAIRS:
            sine, cosine = table[position, 2 * pair : 2 * pair + 2].tolist()
            assert math.sin(turn(position, pair)) == pytest.approx(sine, abs=1e-5)
            assert math.cos(turn(position, pair)) == pytest.approx(cosine, abs=1e-5)
    alt = words_and_places().alt
    for pair in PAIRS:
        assert f"{math.degrees(turn(1, pair)):.0f}" in alt


@pytest.mark.parametrize(
    ("draw", "weights", "above", "below"),
    [(every_word_asks, ONE_HEAD, READ, READ), (across, ACROSS, READ, SAID)],
)
def test_a_line_leads_to_each_word_with_more_than_half_of_the_weight(draw, weights, above, below):
    svg, alt = draw().svg(), draw().alt
    found = strongest(weights)
    assert svg.count('class="head"') == sum(place is not None for place in found)
    for word, row, place in zip(below, weights, found, strict=True):
        assert (place is None) == (max(row) <= HALF)
        if place is not None:
            to = "itself" if draw is every_word_asks and above[place] == word else above[place]
            assert f"{word} to {to} {row[place]:.2f}" in alt


def test_what_follows_sept_in_training_is_spread_as_the_page_says():
    after = Counter(
        following
        for pair in translation_pairs()[0]
        for word, following in pairwise(pair.target)
        if word == "sept"
    )
    counts = [after[word] for word in ("dollars", "mètres", "mois")]
    assert counts == [count for _, count in after.most_common(3)]
    assert after["couronnes"] > 100
    assert len(after) == 44
    assert max(counts) / after.total() == pytest.approx(1 / 18.7, rel=0.01)
    assert STEPS[0].guess == ("mètres", 0.59)
    assert STEPS[1].guess[0] == "couronnes"
    assert "and with 0.59 it is much too sure" in PAGE


def test_the_sizes_of_the_scores_are_those_of_the_pencil():
    sizes = [
        round(math.exp(sum(q * k for q, k in zip(QUERY, key, strict=True)) / math.sqrt(len(QUERY))))
        for key in KEYS
    ]
    assert sizes == [1, 1, 1, 70]
    assert "1, 1, 1 and 70, and 70 of 73 is 0.96" in PAGE
    assert f"{sizes[3] / sum(sizes):.2f}" == "0.96"


@torch.no_grad()
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_the_residual_path_all_words_of_a_fresh_model_are_one_vector(seed):
    """With it they are not; the models are alike in all else."""
    words = torch.arange(6, 11)[None]
    lengths = torch.tensor([words.shape[1]])
    alike = {}
    for without in ((), ("residual",)):
        torch.manual_seed(seed)
        config = Config(FRENCH, FRENCH, D_MODEL, n_heads=4, d_ff=128, n_layers=2, dropout=0.0)
        model = TransformerWithout(config, without)
        memory, mask = model.encode(words, lengths)
        for name, vectors in (("memory", memory), ("out", model.decode(words, memory, mask))):
            unit = torch.nn.functional.normalize(vectors[0], dim=-1)
            alike[name, *without] = (unit @ unit.T).min().item()
    assert min(alike["memory", "residual"], alike["out", "residual"]) > 0.99
    assert max(alike["memory",], alike["out",]) < 0.95


@torch.no_grad()
def test_the_whole_machine_has_the_shapes_of_the_translator(model):
    translator, source_vocab, target_vocab = model
    source = torch.tensor([[*source_vocab.encode(SOURCE), EOS]])
    lengths = torch.tensor([source.shape[1]])
    read = torch.tensor([[BOS, *target_vocab.encode(WRITTEN[1:])]])
    memory, _ = translator.encode(source, lengths)
    logits = translator(source, lengths, read)
    assert logits.shape == (1, 5, FRENCH)
    assert target_vocab.tokens[logits[0, -1].argmax()] == "pesos"
    assert memory.shape == (1, 5, D_MODEL)
    svg = stacked().svg()
    assert translator.config.n_layers == 2
    assert svg.count(">2 layers<") == 2
    assert svg.count(">norm<") == 5
    assert f"of the {FRENCH} words" in PAGE


def test_which_parts_captions_need_is_as_the_page_says():
    bleu = {
        name: runs["bleu"]
        for name, runs in read_results("parts_real_text")["needed"]["real_text"].items()
    }
    whole = fmean(bleu["nothing"])
    assert max(max(bleu[name]) for name in ("cross_attention", "causal_mask", "residual")) < 5
    between_seeds = abs(bleu["nothing"][0] - bleu["nothing"][1])
    names = ["encoder_self_attention", "decoder_self_attention", "feed_forward", "norms", "heads"]
    for name in names:
        assert abs(fmean(bleu[name]) - whole) < 1 < between_seeds


def test_every_weight_of_the_four_heads_is_shown():
    svg = four_heads().svg()
    for weight in {weight for row in FOUR_HEADS for weight in row}:
        times = sum(row.count(weight) for row in FOUR_HEADS)
        assert svg.count(f">{weight:.2f}<") == times


def test_the_page_shows_ten_pictures():
    names = [line.split()[1] for line in PAGE.splitlines() if line.startswith("```{schematic}")]
    headings = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert [line.split()[1] for line in headings[:10]] == [f"{n}." for n in range(1, 11)]
    assert len({drawn(name)[0].alt for name in names}) == len(names) == 10
