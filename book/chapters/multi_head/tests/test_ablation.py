"""Heads that are switched off: what the model computes without them, and how it is measured."""

import pytest
import torch

from chapters.multi_head.ablation import (
    ablated,
    accuracy,
    head_codes,
    head_means,
    head_outputs,
    layer_codes,
    mean_shares,
)
from lib.data import make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from measure.records import read_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published

OFF = ("e1.2", "d2.4", "c2.1", "c2.3")


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    training, test = translation_pairs()
    return model.eval(), make_batch(training[:100], *vocabs), test[:60], vocabs


@torch.no_grad()
def logits(model, batch):
    return model(batch.source, batch.source_lengths, batch.target_in)


def test_codes_name_every_head_in_the_order_of_the_layers():
    assert list(layer_codes(2)) == ["e1", "e2", "d1", "d2", "c1", "c2"]
    assert layer_codes(2)["c2"] == "decoder.layers.1.cross_attention"
    assert head_codes(1, 2) == ["e1.1", "e1.2", "d1.1", "d1.2", "c1.1", "c1.2"]


def test_zero_ablation_is_an_output_matrix_without_the_head_s_columns(published):
    model, batch, *_ = published
    before = logits(model, batch)
    with ablated(model, OFF):
        off = logits(model, batch)
    twin, *_ = load_published()
    for head in OFF:
        layer, number = head.split(".")
        w_o = twin.get_submodule(f"{layer_codes(2)[layer]}.sublayer.w_o").weight
        w_o.data.unflatten(1, (4, -1))[:, int(number) - 1] = 0
    assert torch.allclose(off, logits(twin, batch), atol=1e-5)
    assert not torch.allclose(off, before, atol=0.1)
    assert torch.equal(logits(model, batch), before), "the model is left as it was"


def test_mean_ablation_puts_the_mean_in_the_head_s_place(published):
    model, batch, *_ = published
    means = head_means(model, batch)
    outputs = head_outputs(model, batch)["e1"]  # whose input no other ablation changes
    assert outputs.shape == (int(batch.source_lengths.sum()), 4, 16)
    assert torch.allclose(outputs.mean(0), means["e1"])
    with ablated(model, ["e1.2"], means):
        found = head_outputs(model, batch)["e1"]
    assert torch.allclose(found[:, 1], means["e1"][1].expand_as(found[:, 1]))
    assert torch.equal(found[:, [0, 2, 3]], outputs[:, [0, 2, 3]])


def test_a_constant_head_is_all_mean(published):
    model, batch, *_ = published
    means = head_means(model, batch)
    with ablated(model, ["d1.2"], means):
        shares = mean_shares(model, means, batch)
    assert shares["d1.2"] == pytest.approx(1, abs=1e-4)
    assert 0 < mean_shares(model, means, batch)["d1.2"] < 0.9
    assert list(shares) == head_codes(2, 4)


@pytest.mark.parametrize("head", ["e3.1", "e1.5", "e1", "x1.1", "e1.0"])
def test_an_unknown_head_is_refused_and_nothing_stays_switched_off(published, head):
    model, batch, *_ = published
    before = logits(model, batch)
    message = r"expected a (head such as|layer out of)"
    with pytest.raises(ValueError, match=message), ablated(model, ["e2.3", head]):
        pass
    assert torch.equal(logits(model, batch), before)


def test_accuracy_agrees_with_greedy_decoding(published):
    model, _, test, vocabs = published
    batch = make_batch(test, *vocabs)
    with ablated(model, ["e2.3"]):
        found = accuracy(model, batch)
        said = translate(model, test, *vocabs)
    assert found.exact == pytest.approx(exact_match(said, [pair.target for pair in test]))
    assert 0.1 < found.exact < 0.6 < found.tokens < 0.95
    whole = accuracy(model, batch)
    assert whole.exact > 0.95
    assert whole.loss < 0.1 < found.loss


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "head"), [("zero", "e2.3"), ("mean", "c2.2")])
def test_recorded_figures_come_out_again(published, mode, head):
    model, _, _, vocabs = published
    results = read_results("head_ablation")
    training, test = translation_pairs()
    means = head_means(model, make_batch(training[: results["for_means"]], *vocabs))
    with ablated(model, [head], means if mode == "mean" else None):
        found = accuracy(model, make_batch(test, *vocabs))
    recorded = results["ablations"][mode]["single"][head]
    assert len(test) == results["sentences"]
    assert found.exact == pytest.approx(recorded["exact"], abs=0.002)
    assert found.loss == pytest.approx(recorded["loss"], abs=0.005)
    layer, number = head.split(".")
    rows = torch.tensor(results["means"][layer][int(number) - 1])
    assert torch.allclose(means[layer][int(number) - 1], rows, atol=1e-3)
