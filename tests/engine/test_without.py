"""A model of torch that does without a part: what it computes then."""

import pytest
import torch

from engine.replay import make_model
from engine.without import LEFT_OUT, leave_out
from lib.transformer import Config, Transformer

SIZES = {"source_vocab": 13, "target_vocab": 17, "d_model": 12, "n_heads": 4, "d_ff": 23}
SIZES |= {"n_layers": 2, "dropout": 0.0, "tied": False}


def without(*parts: str, **changes) -> Transformer:
    torch.manual_seed(5)
    return leave_out(Transformer(Config(**SIZES | changes)), parts)


def logits(model: Transformer, source: list[int], target: list[int]) -> torch.Tensor:
    lengths = torch.tensor([len(source)])
    with torch.no_grad():
        return model(torch.tensor([source]), lengths, torch.tensor([target]))[0]


SOURCE, TARGET = [3, 4, 5, 1], [1, 6, 7, 8]


@pytest.mark.parametrize("part", LEFT_OUT)
def test_each_part_that_is_left_out_changes_what_is_computed(part):
    """So do the layers below: a change of one layer of two would be no part left out."""
    whole, other = without(), without(part)
    names = {name for name, _ in whole.named_parameters()}
    assert {name for name, _ in other.named_parameters()} <= names
    other.load_state_dict(whole.state_dict(), strict=False)
    assert (logits(whole, SOURCE, TARGET) - logits(other, SOURCE, TARGET)).abs().max() > 1e-3


def test_without_cross_attention_no_word_depends_on_the_source():
    model = without("cross_attention")
    assert torch.equal(logits(model, SOURCE, TARGET), logits(model, [9, 2, 1], TARGET))


def test_without_the_causal_mask_a_word_sees_those_behind_it():
    changed = [*TARGET[:3], 11]
    for parts, same in ((), True), (("causal_mask",), False):
        model = without(*parts)
        one, other = logits(model, SOURCE, TARGET), logits(model, SOURCE, changed)
        assert torch.equal(one[0], other[0]) is same


def test_without_positions_and_the_mask_the_order_is_nothing():
    model = without("causal_mask", positions="none")
    one, other = logits(model, SOURCE, TARGET), logits(model, SOURCE[::-1], TARGET[::-1])
    torch.testing.assert_close(one, other.flip(0))


def test_without_the_decoders_self_attention_a_word_sees_the_one_before_it_alone():
    model = without("decoder_self_attention")
    one, other = logits(model, SOURCE, TARGET), logits(model, SOURCE, [2, 9, 9, 8])
    torch.testing.assert_close(one[3], other[3])


def test_without_the_encoders_self_attention_and_positions_a_digit_is_its_embedding():
    model = without("encoder_self_attention", positions="none").eval()
    with torch.no_grad():
        memory, _ = model.encode(torch.tensor([[3, 4, 3, 5]]), torch.tensor([4]))
        other, _ = model.encode(torch.tensor([[9, 3, 9, 9]]), torch.tensor([4]))
    torch.testing.assert_close(memory[0, 0], other[0, 1])
    torch.testing.assert_close(memory[0, 0], memory[0, 2])


def test_without_the_root_scores_are_those_of_queries_that_are_longer_by_it():
    model, other = without("root"), without()
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            if ".w_q." in name:
                parameter *= (SIZES["d_model"] / SIZES["n_heads"]) ** 0.5
    torch.testing.assert_close(logits(model, SOURCE, TARGET), logits(other, SOURCE, TARGET))


def test_without_the_relu_a_network_is_linear():
    network = without("relu").encoder.layers[0].feed_forward.sublayer
    x = torch.randn(3, SIZES["d_model"])
    with torch.no_grad():
        torch.testing.assert_close(network(x) + network(-x), 2 * network(torch.zeros_like(x)))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_sublayer_that_is_left_out_leaves_its_norm(norm):
    model, x = without("feed_forward", norm=norm), torch.randn(1, 4, SIZES["d_model"])
    around = model.decoder.layers[1].feed_forward
    wanted = torch.nn.functional.layer_norm(x, x.shape[-1:]) if norm == "post" else x
    torch.testing.assert_close(around(x), wanted)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_without_the_residual_path_the_sublayer_stands_alone(norm):
    model, x = without("residual", norm=norm), torch.randn(1, 4, SIZES["d_model"])
    around = model.encoder.layers[0].feed_forward
    normed = lambda y: torch.nn.functional.layer_norm(y, y.shape[-1:])  # noqa: E731
    wanted = normed(around.sublayer(x)) if norm == "post" else around.sublayer(normed(x))
    with torch.no_grad():
        torch.testing.assert_close(around(x), wanted)


def test_parts_that_cannot_be_left_out():
    with pytest.raises(
        ValueError, match=r"expected parts out of root, .*, heads, got \['dropout'\]"
    ):
        without("dropout")
    with pytest.raises(ValueError, match="got a scheme that works inside attention"):
        without("root", positions="alibi")
    design = {**SIZES, "kind": "translator", "without": ["norms"], "norm": "post"}
    names = [name for name, _ in make_model(design).named_parameters()]
    assert not [name for name in names if ".norm." in name]
