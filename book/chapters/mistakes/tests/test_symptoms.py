"""The symptoms are those of the model: its curve, its sentence, and where it looked."""

import pytest
import torch

from chapters.mistakes.specimen import Specimen
from chapters.mistakes.symptoms import WINDOW, cross_map, symptoms
from lib.data import Pair, Vocabulary, make_batch
from lib.decoding import translate
from lib.training import validation_loss

PAIR, OTHER = Pair(("a", "b", "c"), ("x", "y")), Pair(("c",), ("z", "z", "y"))
VOCABULARIES = Vocabulary("abc"), Vocabulary("xyz")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Specimen(7, 7).eval()


def layers(model):
    return [layer["cross_attention"].sublayer for layer in model.decoder["layers"]]


def test_symptoms_are_those_of_the_model(model):
    found = symptoms(model, [2.0] * WINDOW + [1.0] * WINDOW + [9.0], [PAIR], *VOCABULARIES)
    assert found["losses"] == [2.0, 1.0]
    assert found["source"] == ["a", "b", "c", "<eos>"]
    assert found["wanted"] == ["x", "y", "<eos>"]
    weights = cross_map(model, PAIR, *VOCABULARIES)
    torch.testing.assert_close(weights, torch.tensor(found["map"]))
    assert weights.shape == (3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))
    assert found["validation"] > 1


def test_losses_are_means_of_whole_windows(model):
    rising = [float(step) for step in range(2 * WINDOW)]
    found = symptoms(model, rising, [PAIR], *VOCABULARIES)
    assert found["losses"] == [(WINDOW - 1) / 2, WINDOW + (WINDOW - 1) / 2]
    assert symptoms(model, rising[: WINDOW - 1], [PAIR], *VOCABULARIES)["losses"] == []


def test_one_sentence_is_shown_and_all_are_validated(model):
    found = symptoms(model, [], [PAIR, OTHER], *VOCABULARIES)
    assert found["source"][:-1] == list(PAIR.source)
    assert found["said"] == translate(model, [PAIR], *VOCABULARIES, max_length=12)[0]
    batch = make_batch([PAIR, OTHER], *VOCABULARIES)
    assert found["validation"] == pytest.approx(validation_loss(model, [batch]))
    alone = symptoms(model, [], [PAIR], *VOCABULARIES)
    assert found["validation"] != pytest.approx(alone["validation"])


def test_map_is_the_mean_over_the_heads_of_the_last_layer(model, monkeypatch):
    made = {}
    for number, layer in enumerate(layers(model)):
        weigh = layer.weigh

        def record(scores, mask, number=number, weigh=weigh):
            made[number] = weigh(scores, mask)  # (batch, heads, query, key)
            return made[number]

        monkeypatch.setattr(layer, "weigh", record)
    weights = cross_map(model, PAIR, *VOCABULARIES)
    assert torch.equal(weights, made[1][0].mean(0))
    assert not torch.allclose(weights, made[0][0].mean(0))
    assert not torch.allclose(weights, made[1][0, 0])


def test_no_hook_stays_behind_even_where_the_model_stops(model, monkeypatch):
    def stops(x):
        raise RuntimeError("no projection")

    cross_map(model, PAIR, *VOCABULARIES)
    monkeypatch.setattr(model, "project", stops)
    with pytest.raises(RuntimeError, match="no projection"):
        cross_map(model, PAIR, *VOCABULARIES)
    assert not any(layer._forward_hooks for layer in layers(model))
