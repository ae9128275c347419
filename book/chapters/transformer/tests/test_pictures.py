"""The numbers of "The Transformer in ten pictures" are those of the stored translator."""

import math
from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest
import torch

from build.directives.schematics import drawn
from chapters.transformer.pictures import (
    ACROSS,
    ALIKE,
    APART,
    D_MODEL,
    FOUR_HEADS,
    HALF,
    ONE_HEAD,
    PAIRS,
    READ,
    SAID,
    across,
    added_not_replaced,
    every_word_asks,
    four_heads,
    strongest,
    turn,
    words_and_places,
)
from chapters.transformer.schematics import SOURCE
from chapters.transformer.tracing import trace_sentence
from lib.positions import sinusoidal_table
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
    clocks = sinusoidal_table(20, D_MODEL)[:, [i for p in PAIRS for i in (2 * p, 2 * p + 1)]]
    products = (clocks[:-APART] * clocks[APART:]).sum(dim=1)
    assert products.tolist() == pytest.approx([ALIKE] * len(products), abs=0.005)
    assert f"three words apart give {ALIKE} " in PAGE
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
    assert min(counts) > 0.9 * max(counts)


def test_which_parts_captions_need_is_as_the_page_says():
    bleu = {
        name: runs["bleu"]
        for name, runs in read_results("parts_real_text")["needed"]["real_text"].items()
    }
    whole = fmean(bleu["nothing"])
    assert max(max(bleu[name]) for name in ("cross_attention", "causal_mask", "residual")) < 5
    for name in ("encoder_self_attention", "feed_forward", "norms", "heads"):
        assert abs(fmean(bleu[name]) - whole) < 1


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
