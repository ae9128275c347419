"""A model as a translator: a sentence alone and in company, the n best, what each was read from."""

import pytest
import torch

from lib.data import BOS, EOS, Pair, Vocabulary, make_batch
from lib.decoding import beam_search, greedy, length_penalty
from lib.transformer import Config, Transformer
from train.run import EXTRA_LENGTH
from train.subword import SubwordVocabulary
from train.translator import ROUND, ROWS, Translator

WORDS = [f"w{i}" for i in range(7)]
VOCAB = Vocabulary(WORDS)
SENTENCES = [[WORDS[(3 * i + j) % 7] for j in range(1 + 5 * i % 19)] for i in range(13)]
MORE = 5  # tokens than the source has, instead of 50: a model that has learned nothing uses them


@pytest.fixture(autouse=True)
def _fewer_tokens(monkeypatch):
    monkeypatch.setattr("train.translator.EXTRA_LENGTH", MORE)


def made(beam=3, positions="rotary", max_length=512, seed=0):
    torch.manual_seed(seed)
    sizes = {"d_model": 12, "n_heads": 2, "d_ff": 17, "n_layers": 2, "dropout": 0.0}
    config = Config(11, 11, positions=positions, max_length=max_length, **sizes)
    model = Transformer(config).double().eval()
    return Translator(model, VOCAB, VOCAB, beam, 0.6)


def alone(sentence):
    return make_batch([Pair(tuple(sentence), ())], VOCAB, VOCAB)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_is_translated_alike_alone_and_in_company(beam, monkeypatch):
    translator = made(beam)
    together = translator.translate(SENTENCES, n=beam)
    assert len(together) == len(SENTENCES)
    for sentence, found in zip(SENTENCES, together, strict=True):
        (by_itself,) = translator.translate([sentence], n=beam)
        assert [one.tokens for one in by_itself] == [one.tokens for one in found]
        assert [one.score for one in by_itself] == pytest.approx([one.score for one in found])
    monkeypatch.setattr("train.translator.ROWS", 2 * beam)  # two sentences at a time
    again = translator.translate(SENTENCES[::-1], n=beam)[::-1]
    assert [[one.tokens for one in some] for some in again] == [
        [one.tokens for one in some] for some in together
    ]


def test_a_batch_has_about_one_length_and_a_bound():
    translator, places = made(beam=ROWS // 2), []
    for some, translated in translator.in_batches(SENTENCES):
        lengths = [len(SENTENCES[place]) for place in some]
        assert len({-(-length // ROUND) for length in lengths}) == 1
        assert len(some) == len(translated) <= 2
        places += some
    assert sorted(places) == list(range(len(SENTENCES)))


@pytest.mark.parametrize("beam", [1, 3])
def test_the_first_is_that_of_the_library_and_the_limit_depends_on_the_sentence(beam):
    translator = made(beam)
    assert EXTRA_LENGTH == 50
    for sentence in SENTENCES[:5]:
        batch = alone(sentence)
        limit = -(-len(sentence) // ROUND) * ROUND + MORE
        inputs = (translator.model, batch.source, batch.source_lengths, limit)
        tokens = greedy(*inputs)[0] if beam == 1 else beam_search(*inputs, beam=beam)[0]
        ((best,),) = translator.translate([sentence])
        assert best.tokens == tokens[0].tolist()
        assert len(best.tokens) <= limit
        assert best.words == VOCAB.decode(best.tokens)


def test_scores_fall_and_are_penalised_log_probabilities():
    translator = made(seed=1)
    (found,) = translator.translate([WORDS[:4]], n=3)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    batch = alone(WORDS[:4])
    for one in found:
        target = torch.tensor([[BOS, *one.tokens]])
        logits = translator.model(batch.source, batch.source_lengths, target[:, :-1])
        log_p = logits.log_softmax(-1)[0].gather(-1, target[0, 1:, None]).sum().item()
        assert one.score == pytest.approx(log_p / length_penalty(len(one.tokens), 0.6))


def test_an_empty_sentence_has_a_translation_and_no_sentences_have_none():
    translator = made()
    assert translator.translate([]) == []
    (found,) = translator.translate([[]])
    assert len(found) == 1


def test_learned_positions_have_an_end():
    translator = made(positions="learned", max_length=MORE + 5)
    assert translator.longest == 5
    (best,) = translator.translate([WORDS[:5]])[0]
    assert len(best.tokens) <= MORE + 5
    with pytest.raises(ValueError, match="at most 5 tokens for learned positions, got one of 6"):
        translator.translate([WORDS[:2], WORDS[:6]])


def test_unknown_words_are_named_once():
    assert made().unknown(["w1", "wombat", "w2", "emu", "wombat"]) == ["wombat", "emu"]
    pieces = SubwordVocabulary.from_sentences([["abc", "cab", "bca"]], 30)
    assert len(pieces.encode(["abcabc"])) > 1
    translator = Translator(made().model, pieces, VOCAB, 1, 0.6)
    assert translator.unknown(["abcabc", "abz", "ab"]) == ["abz"]


def test_cross_attention_has_a_row_for_each_token_and_is_the_mean_of_all_heads():
    translator = made()
    (best,) = translator.translate([WORDS[:4]])[0]
    weights = translator.cross_attention(WORDS[:4], best.tokens)
    assert weights.shape == (len(best.tokens), 4 + 1)
    assert torch.allclose(weights.sum(-1), torch.ones(()).double())
    batch = alone(WORDS[:4])
    target = torch.tensor([[BOS, *best.tokens[:-1]]])
    model, kept = translator.model, []
    hooks = [
        layer.cross_attention.sublayer.register_forward_hook(
            lambda layer, args, kwargs, _: kept.append(
                layer.attention_weights(args[0], args[1], mask=kwargs["mask"])
            ),
            with_kwargs=True,
        )
        for layer in model.decoder.layers
    ]
    model(batch.source, batch.source_lengths, target)
    for hook in hooks:
        hook.remove()
    mean = sum(maps[0].mean(0) for maps in kept) / len(kept)
    assert torch.allclose(weights, mean)
    assert best.tokens[-1] == EOS or len(best.tokens) == ROUND + MORE
