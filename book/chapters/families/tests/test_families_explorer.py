"""The families explorer in Python: what it refuses, and that its guesses are the models' own."""

import pytest
import torch

from chapters.families.families import family_mask, joined, joint_vocabulary
from chapters.families.families_explorer import FAMILIES, FamiliesExplorer
from chapters.families.tests.samples import rows_of_families
from lib.data import Pair, make_batch
from lib.transformer import Config, OneStack, Transformer

PAIRS = [Pair(("two", "euros"), ("deux", "euros", "<i>")), Pair(("ago",), ("passés",))]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"sentence": 2}, "sentence: expected a whole number from 0 to 1"),
        ({"position": 0}, "position: expected a whole number from 1 to 6"),
        ({"shown": 5}, "shown: expected a whole number from 1 to 4"),
        ({"family": "prefix"}, "expected one of encoder-only, decoder-only, encoder-decoder"),
    ],
)
def test_bad_starts_are_named(start, message):
    with pytest.raises(ValueError, match=message):
        FamiliesExplorer(rows_of_families(), **start)


@torch.no_grad()
def test_guesses_are_those_of_the_models():
    torch.manual_seed(0)
    vocab = joint_vocabulary(PAIRS)
    config = Config(len(vocab), d_model=8, n_heads=2, d_ff=7, n_layers=1, positions="rotary")
    models = {kind: OneStack(config).eval() for kind in (*FAMILIES[:2], "prefix")}
    models["encoder-decoder"] = Transformer(config).eval()
    widget = FamiliesExplorer.from_models(models, PAIRS, vocab, k=3)
    one = widget.sentences[0]
    assert one["tokens"] == ["<bos>", "two", "euros", "<eos>", "deux", "euros", "<i>", "<eos>"]
    assert one["prefix"] == 4
    row = joined(make_batch(PAIRS[:1], vocab, vocab))

    def top(logits):
        best = logits.softmax(-1).topk(3)
        return [
            [vocab.tokens[i], round(p, 3)]
            for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    causal = models["decoder-only"](row, family_mask("decoder-only", row))[0]
    prefixed = models["prefix"](row, family_mask("prefix", row))[0]
    batch = make_batch(PAIRS[:1], vocab, vocab)
    pair = models["encoder-decoder"](batch.source, batch.source_lengths, batch.target_in)[0]
    for t in range(1, 8):
        gap = row.clone()
        gap[0, t] = 4
        hidden = models["encoder-only"](gap)[0, t]
        assert one["encoder-only"][t] == ([] if t in (3, 7) else top(hidden))
        assert one["decoder-only"][t] == top(causal[t - 1])
        assert one["encoder-decoder"][t] == ([] if t < 4 else top(pair[t - 4]))
        assert one["prefixed"][-1][t] == ([] if t < 4 else top(prefixed[t - 1]))
    assert len(one["prefixed"]) == 3


def test_other_models_are_refused():
    with pytest.raises(ValueError, match="models: expected a mapping with"):
        FamiliesExplorer.from_models({}, PAIRS, joint_vocabulary(PAIRS))


def test_what_it_says_and_shows_without_scripts():
    widget = FamiliesExplorer(rows_of_families())
    assert repr(widget) == "FamiliesExplorer: three families on 2 sentences"
    assert widget.static_html().count("<tr>") == 7  # a header, and all tokens but the first
    assert "&lt;eos&gt;" in widget.static_html()
