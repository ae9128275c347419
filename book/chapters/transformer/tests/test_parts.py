"""A Transformer with all its parts is the library's and torch's; without one, a property shows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from chapters.transformer.parts import END_MARK, PARTS, TransformerWithout
from checks.sequences import check_sequence_model
from checks.torch_weights import named_as_ours, torch_masks
from lib.data import BOS
from lib.masks import padding_mask
from lib.positions import sinusoidal_table
from lib.transformer import Config, Transformer
from tests.helpers import assert_close, normal, unchecked

SIZES = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0, "tied": False}
CONFIG = Config(29, 31, **SIZES)
LENGTHS = torch.tensor([7, 3, 5])


def stirred(model):
    """Biases and gains start at 0 and 1, where some mistakes do not show."""
    for i, parameter in enumerate(model.parameters()):
        if parameter.dim() == 1:
            parameter.data += 0.3 * normal(*parameter.shape, seed=i).to(parameter.dtype)
    return model.double().eval()


def without(*parts, seed=0):
    torch.manual_seed(seed)
    return stirred(TransformerWithout(CONFIG, parts))


def switched_off(*parts):
    model = without()
    model.without = parts
    return model


def tokens(seed=0):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, 29, (3, 7), generator=generator)
    target = torch.randint(4, 31, (3, 5), generator=generator)
    target[:, 0] = BOS
    return source, LENGTHS, target


def memory(model, source, lengths=LENGTHS):
    return model.encode(source, lengths)[0]


# Nothing left out


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str
)
def test_with_copied_parameters_it_is_torch_s_transformer(dtype, tolerance):
    torch.manual_seed(1)
    theirs = nn.Transformer(24, 3, 2, 2, 37, dropout=0.0, batch_first=True)
    theirs.encoder.norm = theirs.decoder.norm = None  # the paper has none behind its last layer
    theirs = stirred(theirs).to(dtype).train()  # in training mode, without its fast path
    ours = without().to(dtype)
    left = ours.load_state_dict(named_as_ours(theirs), strict=False)
    assert not left.unexpected_keys
    embeddings = {"source_embedding.weight", "target_embedding.weight", "projection.weight"}
    assert set(left.missing_keys) == embeddings
    source, lengths, target = tokens()
    got = ours(source, lengths, target)
    x, y = (
        F.embedding(numbers, embedding.weight) * 24**0.5
        + sinusoidal_table(numbers.shape[1], 24, dtype=dtype)
        for numbers, embedding in ((source, ours.source_embedding), (target, ours.target_embedding))
    )
    masks = torch_masks(padding_mask(lengths, 7), 5)
    wanted = F.linear(theirs(x, y, **masks), ours.projection.weight)
    assert_close(got, wanted, tolerance)
    weight = normal(*wanted.shape, seed=99).to(dtype)
    for logits in (got, wanted):
        (logits * weight).sum().backward(retain_graph=True)
    parameters = dict(ours.named_parameters())
    for name, gradient in named_as_ours(theirs, lambda parameter: parameter.grad).items():
        assert_close(parameters[name].grad, gradient, 10 * tolerance)


@pytest.mark.parametrize("tied", [False, True])
def test_it_is_the_library_s_with_the_same_start(tied):
    config = Config(29, None if tied else 31, **(SIZES | {"tied": tied}))
    torch.manual_seed(3)
    library = Transformer(config)
    torch.manual_seed(3)
    ours = TransformerWithout(config)
    assert ours.state_dict().keys() == library.state_dict().keys()
    source, lengths, target = tokens()
    target = target.clamp(max=28)
    assert_close(ours(source, lengths, target), library(source, lengths, target), 1e-5)


@pytest.mark.parametrize("part", [None, *PARTS, END_MARK])
def test_it_decodes_as_it_is_trained(part):
    """Fed token by token it gives the logits of teacher forcing; without the mask, of a prefix."""
    model = without(*[part] if part else ())
    source, lengths, target = tokens()
    state = model.start(source, lengths)
    for t in range(target.shape[1]):
        logits, _, state = model.step(target[:, t], state)
        assert_close(logits, model(source, lengths, target[:, : t + 1])[:, t], 1e-10)


def test_it_is_a_sequence_model():
    check_sequence_model(TransformerWithout(CONFIG), 29, 31)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_changes_what_is_computed_and_can_be_switched_on_again(part):
    model = without()
    before = model(*tokens())
    model.without = {part}
    assert not torch.allclose(model(*tokens()), before, atol=1e-3)
    model.without = ()
    assert torch.equal(model(*tokens()), before)


def test_parts_that_there_are_not_and_other_configurations_are_refused():
    with pytest.raises(ValueError, match=r"parts out of cross_attention, .* got .'colour'"):
        TransformerWithout(CONFIG, {"colour"})
    with unchecked(), pytest.raises(ValueError, match=r"configuration with .* got .*'pre'"):
        TransformerWithout(Config(29, 31, **SIZES, norm="pre"))


# One part left out


def test_without_cross_attention_the_source_is_nothing_to_it():
    model = without("cross_attention")
    source, lengths, target = tokens()
    other = tokens(seed=1)[0]
    assert torch.equal(model(source, lengths, target), model(other, lengths, target))


def test_without_the_causal_mask_a_position_sees_the_word_that_it_must_write():
    source, lengths, target = tokens()
    other = target.clone()
    other[:, -1] = (target[:, -1] - 3) % 27 + 4
    for parts, alike in (((), True), (("causal_mask",), False)):
        model = without(*parts)
        first = model(source, lengths, target)[:, :-1], model(source, lengths, other)[:, :-1]
        assert torch.allclose(*first, atol=1e-12) == alike


def test_without_the_residual_path_a_layer_passes_on_what_its_network_says_and_nothing_else():
    """With a network that says nothing, the input is lost; beside the path it is not."""
    source, _, _ = tokens()
    for part, lost in ((None, False), ("residual", True)):
        model = without(*[part] if part else ())
        network = model.encoder.layers[-1].feed_forward.sublayer
        for parameter in network.parameters():
            parameter.data.zero_()
        found = memory(model, source)
        assert (found.std(dim=1).max().item() < 1e-10) == lost


def test_without_positions_the_encoder_takes_any_order_of_its_words():
    source = tokens()[0]
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    full = torch.full((3,), 7)
    for parts, alike in (((), False), (("positions",), True)):
        model = without(*parts)
        one, other = memory(model, source, full)[:, order], memory(model, source[:, order], full)
        assert torch.allclose(one, other, atol=1e-10) == alike


@pytest.mark.parametrize("part", ["encoder_self_attention", "encoder"])
def test_without_it_each_word_of_the_source_is_read_by_itself(part):
    source = tokens()[0]
    other = source.clone()
    other[:, 0] = (source[:, 0] - 3) % 25 + 4
    moved = (memory(without(part), source) != memory(without(part), other)).any(-1)
    assert moved[:, 0].all()
    assert not moved[:, 1:].any()
    moved = memory(without(), source) - memory(without(), other)
    assert (moved.abs().amax(-1) > 1e-6)[0].all()


def test_without_the_encoder_the_memory_is_the_embedded_source():
    model = without("encoder")
    source = tokens()[0]
    wanted = model.encoder.positions.add(model.source_embedding(source))
    assert torch.equal(memory(model, source), wanted)


def test_without_decoder_self_attention_a_position_reads_the_last_word_alone():
    source, lengths, target = tokens()
    other = target.clone()
    other[:, 1] = (target[:, 1] - 3) % 27 + 4
    model = without("decoder_self_attention")
    moved = (model(source, lengths, target) != model(source, lengths, other)).any(-1)
    assert moved.tolist() == [[False, True, False, False, False]] * 3


def test_without_feed_forward_networks_their_parameters_are_not_read():
    one, other = without("feed_forward"), without("feed_forward")
    for stack in (other.encoder, other.decoder):
        for layer in stack.layers:
            for parameter in layer.feed_forward.sublayer.parameters():
                parameter.data.fill_(7.0)
    assert torch.equal(one(*tokens()), other(*tokens()))


@pytest.mark.parametrize("part", ["root", "heads"])
def test_attention_without(part):
    """Written out: without the root the scores are whole; without heads the width is undivided."""
    model = without(part)
    layer = model.encoder.layers[0].self_attention.sublayer
    x = normal(2, 7, 24)
    got = model._attention(layer, x, x, None)
    n_heads = 3 if part == "root" else 1
    outputs = []
    for head in range(n_heads):
        own = slice(head * 24 // n_heads, (head + 1) * 24 // n_heads)
        query, key, value = (w(x)[..., own] for w in (layer.w_q, layer.w_k, layer.w_v))
        scores = query @ key.transpose(1, 2)
        scores = scores if part == "root" else scores / 24**0.5
        outputs.append(scores.softmax(-1) @ value)
    assert_close(got, layer.w_o(torch.cat(outputs, -1)), 1e-10)


def test_heads_that_are_switched_off_are_zeros_before_w_o():
    model = switched_off("heads")
    twin = without()
    for name, parameter in twin.named_parameters():
        if name.endswith("w_o.weight"):
            parameter.data[:, 8:] = 0.0
    assert_close(model(*tokens()), twin(*tokens()), 1e-10)


def test_without_norms_the_stream_is_a_plain_sum():
    model = without("norms")
    layer = model.encoder.layers[0]
    x = normal(3, 7, 24)
    mask = padding_mask(LENGTHS, 7)
    middle = x + layer.self_attention.sublayer(x, mask=mask)
    got = model._attend("encoder_self_attention", layer.self_attention, x, x, mask)
    assert_close(got, middle, 1e-10)
    wanted = middle + layer.feed_forward.sublayer(middle)
    assert_close(model._feed_forward(layer.feed_forward, middle), wanted, 1e-10)


def test_without_the_relu_the_network_is_one_matrix():
    model = without("relu", "norms", "residual")
    around = model.encoder.layers[0].feed_forward
    zero, x, y = torch.zeros(1, 1, 24).double(), normal(1, 2, 24), normal(1, 2, 24, seed=1)
    at_zero = model._feed_forward(around, zero)
    of_sum = model._feed_forward(around, x + y) - at_zero
    sum_of = model._feed_forward(around, x) + model._feed_forward(around, y) - 2 * at_zero
    assert_close(of_sum, sum_of, 1e-10)


def test_without_the_embeddings_factor_rows_are_read_as_they_are():
    model = without("embedding_scale", "positions")
    source = tokens()[0]
    got = model._embedded(model.source_embedding, source)
    assert torch.equal(got, model.source_embedding.weight[source])


def test_without_the_padding_mask_padding_is_read():
    source, lengths, target = tokens()
    other = source.clone()
    other[1, 3:] = 0  # the second source has three tokens
    for parts, alike in (((), True), (("padding_mask",), False)):
        model = without(*parts)
        both = model(source, lengths, target)[1], model(other, lengths, target)[1]
        assert torch.equal(*both) == alike


def test_without_w_o_the_heads_outputs_stand_side_by_side():
    model, whole = without("w_o"), without()
    layer = model.encoder.layers[0].self_attention.sublayer
    x = normal(2, 7, 24)
    heads = model._attention(layer, x, x, None)
    assert_close(layer.w_o(heads), whole._attention(layer, x, x, None), 1e-10)


def test_the_hidden_end_mark_is_read_by_the_encoder_alone():
    source, lengths, target = tokens()
    other = source.clone()
    other[torch.arange(3), lengths - 1] += 1
    changed = [
        not torch.allclose(model(source, lengths, target), model(other, lengths, target))
        for model in (without(END_MARK), without(END_MARK, "encoder_self_attention"))
    ]
    assert changed == [True, False]
