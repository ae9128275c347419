"""A reader's model in the tracer: what the page takes, and what it begins with."""

from dataclasses import replace

import pytest
import torch

from lib.transformer import Config, Transformer
from show.measured import read
from show.tracer import MOST_PARAMETERS, TRACED, make_tracer, why_not
from tests.show.runs import finished, turned

PAPER = {"d_model": 512, "n_heads": 8, "d_ff": 2048}  # the sizes of its base model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)
        pairs = {"train": turned(40), "valid": turned(9, 1), "test": turned(12, 2)}
        folder = tmp_path_factory.mktemp("runs")
        return read(finished(folder, pairs, "--steps=2", "--subword=40"))


def like(run, **choices):
    """The run with another model, whose parameters take no memory."""
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 1, "norm": "pre"}
    sizes |= {"positions": "rotary"}
    words = [len(vocab) for vocab in run.vocabs]
    with torch.device("meta"):
        return replace(run, model=Transformer(Config(*words, **{**sizes, **choices})))


def test_a_small_model_is_taken(run):
    assert why_not(run, 8) == ""
    assert why_not(run, 32) == ""


def test_a_large_model_is_not_and_the_page_says_so(run):
    large = like(run, **PAPER, n_layers=6)
    assert large.parameters > MOST_PARAMETERS
    assert f"has {large.parameters:,} parameters" in why_not(large, 8)
    near = like(run, **PAPER, n_layers=4)
    assert 29_000_000 < near.parameters < MOST_PARAMETERS
    assert why_not(near, 8) == "", "30 million parameters fit into 40 MB"
    assert "takes at most 40 MB" in why_not(near, 32)


@pytest.mark.parametrize(
    "choice", [{"positions": "alibi"}, {"positions": "learned"}, {"activation": "gelu"}]
)
def test_a_design_beyond_the_page_is_named(run, choice):
    assert f"got {next(iter(choice.values()))!r}" in why_not(like(run, **choice), 8)


def test_it_begins_with_sentences_of_the_test_in_readable_pieces(run):
    tracer = make_tracer(run, 8)
    assert len(tracer.sentences) == TRACED
    sources = [" ".join(pair.source) for pair in run.test[1]]
    assert set(tracer.engine["ready"]) <= set(sources)
    shown = [token for one in tracer.sentences for token in one["source"] + one["said"]]
    assert any(token.endswith("-") for token in shown)
    assert not any("</w>" in token for token in shown)
    assert tracer.stages[tracer.stage]["kind"] == "cross"
    assert "words" not in tracer.engine, "they may be many, and come with the model"
    tracer.own = "any word is read"
    assert tracer.sentence == 0


def test_sentences_with_too_many_maps_are_left_out(run, monkeypatch):
    whole = make_tracer(run, 8)
    assert len(whole.sentences) == TRACED
    monkeypatch.setattr("widgets.base.MAX_BYTES", len(whole.data_json().encode()) - 1)
    assert len(make_tracer(run, 8).sentences) == TRACED - 1
    shortest = whole.sentences[0]["said"]
    assert len(shortest) > 3, "else no test"
    monkeypatch.setattr("show.tracer.TRACED", 1)
    alone = make_tracer(run, 8)
    assert alone.sentences[0]["said"] == shortest
    monkeypatch.setattr("widgets.base.MAX_BYTES", len(alone.data_json().encode()) - 1)
    (cut,) = make_tracer(run, 8).sentences
    assert cut["said"] == shortest[: len(shortest) // 2]
    monkeypatch.setattr("widgets.base.MAX_BYTES", 500)
    with pytest.raises(ValueError, match="at most 500 bytes"):
        make_tracer(run, 8)
