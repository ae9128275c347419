"""The forward tracer's data: those of the library, small, and checked."""

import pytest
import torch

from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tests.samples import traced
from lib.attention import attention_maps
from lib.data import Pair, Vocabulary, make_batch, tokenise
from lib.transformer import Config, Transformer
from tests.packed import packed
from train.checkpoints import load_published
from widgets.packing import pack_model

TEXTS = ("six seconds ago", "ninety seven colombian pesos")


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    pairs = [Pair(tokenise(text), ("?",)) for text in TEXTS]
    return model, vocabs, ForwardTracer.from_model(model, pairs, *vocabs)


def inputs_of(one, vocabs):
    pair = Pair(tuple(one["source"][:-1]), tuple(one["said"][:-1]))
    return make_batch([pair], *vocabs)


def test_it_says_what_greedy_decoding_says(published):
    assert published[2].sentences[0]["said"] == ["il", "y", "a", "six", "secondes", "<eos>"]
    assert published[2].sentences[0]["read"] == ["<bos>", "il", "y", "a", "six", "secondes"]
    assert published[2].sentences[0]["source"] == ["six", "seconds", "ago", "<eos>"]


@torch.no_grad()
def test_maps_guesses_and_lengths_are_the_library_s(published):
    model, vocabs, tracer = published
    for one in tracer.sentences:
        batch = inputs_of(one, vocabs)
        inputs = batch.source, batch.source_lengths, batch.target_in
        maps = attention_maps(model, *inputs)
        assert one["maps"].keys() == maps.keys()
        for name, weights in maps.items():
            gap = (torch.tensor(one["maps"][name]) / 1000 - weights[0]).abs().max()
            assert gap <= 0.0006
        best = model(*inputs)[0].softmax(-1).topk(5)
        for row, chances, numbers in zip(one["guesses"][-1], *best, strict=True):
            assert [word for word, _ in row] == [vocabs[1].tokens[i] for i in numbers]
            assert [p / 1000 for _, p in row] == pytest.approx(chances.tolist(), abs=6e-4)
        memory, mask = model.encode(batch.source, batch.source_lengths)
        names = [stage["name"] for stage in tracer.stages]
        at = names.index("encoder.norm")
        assert one["lengths"][at] == pytest.approx(memory[0].norm(dim=-1).tolist(), abs=0.006)
        x = model.source_embedding(batch.source)
        assert one["lengths"][0] == pytest.approx(x[0].norm(dim=-1).tolist(), abs=0.006)
        layer = model.encoder.layers[0].self_attention
        added = layer(x, mask=mask) - x
        assert one["changes"][1] == pytest.approx(added[0].norm(dim=-1).tolist(), abs=0.006)
        y = model.decoder(model.target_embedding(batch.target_in), memory, mask)
        assert one["lengths"][names.index("decoder.norm")] == pytest.approx(
            y[0].norm(dim=-1).tolist(), abs=0.006
        )
        assert [[p[0] for p in row] for row in one["guesses"][-2]] == [
            [p[0] for p in row][:3] for row in one["guesses"][-1]
        ]  # after the last norm: the projection's own


def test_it_is_small(published):
    assert len(published[2].data_json()) < 40_000


def test_a_post_norm_model_has_no_last_norm():
    vocab = Vocabulary(["a", "b", "c"])
    config = Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=2, positions="alibi")
    model = Transformer(config).eval()
    tracer = ForwardTracer.from_model(model, [Pair(("a", "b"), ("c",))], vocab, vocab, max_length=3)
    assert [stage["kind"] for stage in tracer.stages] == [
        *("embed", "self", "feed", "self", "feed"),
        *("embed", "self", "cross", "feed", "self", "cross", "feed", "project"),
    ]
    (one,) = tracer.sentences
    last = one["guesses"][-2]  # after the last layer: what the projection says
    assert [row[0][0] for row in last] == [row[0][0] for row in one["guesses"][-1]]


def test_readers_without_scripts_see_what_it_says():
    text = ForwardTracer(*traced()).static_html()
    assert "six days &lt;eos&gt;" in text
    assert "<td>&lt;b&gt;</td><td>75 %</td>" in text


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"sentence": 2}, "sentence: expected a whole number from 0 to 1"),
        ({"stage": 10}, "stage: expected a whole number from 0 to 9"),
        ({"head": 2}, "head: expected a whole number from 0 to 1"),
        ({"position": 3}, "position: expected a whole number from 0 to 2"),
        ({"position": 4, "stage": 5}, "position: expected a whole number from 0 to 3"),
    ],
)
def test_bad_start_is_refused(start, words):
    with pytest.raises(ValueError, match=words):
        ForwardTracer(*traced(), **start)


# --- the reader's own sentences ---------------------------------------------------------------


def test_it_says_what_the_page_must_know_of_the_model(published):
    model, vocabs, _ = published
    pairs = [Pair(tokenise(TEXTS[0]), ("?",))]
    ready = ["Two euros, three miles", "in six days"]
    engine = ForwardTracer.from_model(model, pairs, *vocabs, ready=ready).engine
    assert engine["id"] == pack_model(model, *vocabs).id
    assert engine["bytes"] == 2 * sum(p.numel() for p in model.parameters())
    assert engine["words"] == list(vocabs[0].tokens[4:])
    assert engine["ready"] == ready
    assert engine["longest"] > 33, "more than the longest sentence in training"
    assert engine["max_length"] > engine["longest"]


def test_the_model_is_sent_when_asked_for_and_not_stored(published, monkeypatch):
    tracer = published[2]
    sent = []
    monkeypatch.setattr(tracer, "send", lambda content, buffers: sent.append((content, buffers)))
    tracer._handle_custom_msg({"wanted": "another"}, [])
    tracer._handle_custom_msg({"wanted": tracer.engine["id"]}, [])
    model = pack_model(published[0], *published[1])
    assert sent == [({"model": model.id, "header": model.header}, [model.data])]
    bundle = tracer._repr_mimebundle_()[0]
    assert len(bundle["text/html"]) < 60_000


def test_a_model_beyond_the_page_is_traced_and_not_offered():
    vocab = Vocabulary(["a", "b", "c"])
    config = Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=1, positions="alibi")
    pair = Pair(("a", "b"), ("c",))
    models = Transformer(config).eval(), [pair], vocab, vocab
    assert ForwardTracer.from_model(*models, max_length=3).engine == {}
    with pytest.raises(ValueError, match="ready: expected none without a model to translate"):
        ForwardTracer.from_model(*models, max_length=3, ready=["a b"])


@pytest.mark.parametrize("ready", [["six days", "six cats, days"], ["six days", " "]])
def test_what_is_offered_to_try_must_be_known_words(ready):
    with pytest.raises(
        ValueError, match=r"ready\[1\]: expected words of the model, got (\['cats'|an)"
    ):
        ForwardTracer(*traced(), packed=packed(), ready=ready)
