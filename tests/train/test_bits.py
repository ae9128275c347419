"""8 bits: what is stored, what it changes, and where it is refused."""

import pytest
import torch
from torch import nn

from lib.attention import MultiHeadAttention
from lib.data import EOS, make_batch
from lib.decoding import beam_search, greedy
from lib.layers import Residual, TiedProjection
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs
from train import bits
from train.bits import FEW, EightBitLinear, EightBitTransformer, expect_8_bits, together_is_exact
from train.checkpoints import load_published

BFLOAT16 = 2**-8  # the largest relative error of rounding to it, and a little more

LARGE = bits.LARGE
needs_vnni = pytest.mark.skipif(not together_is_exact(), reason="the processor has no VNNI")


@pytest.fixture
def small_too(monkeypatch):
    """Small matrices are multiplied as large ones are."""
    monkeypatch.setattr(bits, "LARGE", 1)


def layer(d_in=37, d_out=23, bias=True):
    torch.manual_seed(0)
    made = nn.Linear(d_in, d_out, bias=bias)
    made.weight.data[3] *= 100  # a row of its own scale
    made.weight.data[5] = 0
    return made


def stored(packed):
    """The matrix that the whole numbers stand for."""
    return (packed.whole.double() * packed.scale.double()[:, None])[:, : packed.in_features]


def test_each_number_is_off_by_at_most_half_a_step():
    weight = layer().weight.detach().double()
    packed = EightBitLinear(weight.float())
    assert packed.whole.dtype == torch.int8
    assert packed.whole.abs().max() == 127
    step = weight.abs().amax(1, keepdim=True) / 127
    off = (stored(packed) - weight).abs()
    # The scale is rounded too; a largest number beyond 127 steps is cut to 127.
    assert (off <= step * (0.5 + 127 * BFLOAT16)).all()
    assert off.median() < 0.3 * step.median()
    assert (stored(packed)[5] == 0).all()


@pytest.mark.parametrize("rows", [1, 3, FEW, FEW + 1, 3 * FEW])
@pytest.mark.parametrize("bias", [True, False])
def test_it_multiplies_with_the_stored_matrix(rows, bias):
    """Inputs and the product are rounded to bfloat16, the sum between them is not."""
    given = layer(bias=bias)
    packed, x = EightBitLinear(given.weight, given.bias), torch.randn(rows, 37)
    wanted = x.bfloat16().double() @ stored(packed).T
    found = packed(x).double() - (given.bias.double() if bias else 0)
    assert ((found - wanted).abs() <= wanted.abs() * BFLOAT16 + 1e-4).all()


@pytest.mark.parametrize("d_in", [1, 15, 16, 31, 32, 33, 64])
@pytest.mark.parametrize("d_out", [1, 3, 4, 23])
def test_every_size(d_in, d_out):
    """The kernel reads 16 or 32 entries at a time, past the end of x too: there must be more."""
    packed, x = EightBitLinear(torch.randn(d_out, d_in)), torch.randn(5, d_in)
    wanted = x.bfloat16().double() @ stored(packed).T
    assert ((packed(x) - wanted).abs() <= wanted.abs() * BFLOAT16 + 1e-4).all()
    assert packed.whole.shape[1] % 32 == 0


@pytest.mark.parametrize("shape", [(37,), (2, 37), (2, 3, 37)])
def test_any_number_of_axes(shape):
    given = layer()
    packed, x = EightBitLinear(given.weight, given.bias), torch.randn(shape)
    found = packed(x)
    assert found.shape == (*shape[:-1], 23)
    assert found.dtype == x.dtype
    assert packed.in_features == 37


def test_a_row_does_not_mind_its_neighbours():
    """A huge one beside it would change the scale of a kernel that rounds the inputs together."""
    packed, x = EightBitLinear(layer().weight), torch.randn(5, 37)
    beside = torch.cat([x, 1e4 * torch.randn(3, 37)])
    assert torch.equal(packed(beside)[:5], packed(x))


@needs_vnni
@pytest.mark.parametrize("rows", [1, 4, FEW])
@pytest.mark.parametrize(("d_in", "d_out"), [(2, 1), (15, 23), (37, 23), (64, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_of_one_sentence_are_rounded_with_one_scale(rows, d_in, d_out, bias, small_too):
    """Its smallest number and its largest are 255 steps apart; no other is near half a step."""
    given = nn.Linear(d_in, d_out, bias=bias)
    given.weight.data[0] = 0
    packed, step = EightBitLinear(given.weight, given.bias), 0.02
    whole = torch.randint(-99, 155, (rows, d_in)).double()
    beside = 0.6 * torch.rand(rows, d_in) - 0.3
    whole[0, :2], beside[0, :2] = torch.tensor([-100.0, 155.0]), 0.0
    x = (step * (whole + beside)).float()
    wanted = step * whole @ stored(packed).T + (given.bias.double() if bias else 0)
    found = packed.together(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), wanted, atol=1e-4, rtol=1e-4)
    assert torch.equal(packed(x.unsqueeze(0)), found.unsqueeze(0))


@needs_vnni
def test_sums_of_the_largest_numbers_have_room(small_too):
    """Two products of 255 and 127 do not fit into 16 bits, in which other instructions add them."""
    packed = EightBitLinear(torch.full((5, 64), 127.0))
    x = torch.full((2, 64), 255.0)
    assert torch.equal(packed.together(x), torch.full((2, 5), 64 * 127.0 * 255))


@needs_vnni
@pytest.mark.parametrize("numbers", [LARGE - 32, LARGE])
def test_a_small_matrix_is_multiplied_row_by_row(numbers):
    packed, x = EightBitLinear(torch.randn(numbers // 32, 32)), torch.randn(1, 5, 32)
    by_rows = packed.few(x[0])
    for found in (packed(x)[0], packed.together(x[0])):
        assert torch.equal(found, by_rows) == (numbers < LARGE)


@needs_vnni
def test_rows_of_several_sentences_are_never_rounded_with_one_scale(small_too):
    packed, x = EightBitLinear(layer().weight), torch.randn(3, 2, 37)
    assert torch.equal(packed(x)[:1], packed.few(x[0]).unsqueeze(0))
    assert not torch.equal(packed(x)[:1], packed(x[:1]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_refused(bad):
    weight = layer().weight.detach()
    weight[2, 3] = bad
    with pytest.raises(ValueError, match="finite weight, got NaN or infinity"):
        EightBitLinear(weight)


@pytest.mark.parametrize("tied", [True, False])
def test_every_matrix_of_a_model_is_packed_and_the_model_left_alone(tied):
    torch.manual_seed(0)
    model = Transformer(Config(13, 11, 24, 3, 37, 2, tied=tied))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    packed = EightBitTransformer(model)
    assert not any(isinstance(m, nn.Linear | TiedProjection) for m in packed.modules())
    assert isinstance(packed.projection, EightBitLinear)
    assert sum(isinstance(m, EightBitLinear) for m in packed.modules()) == 2 * 6 + 2 * 10 + 1
    assert torch.equal(packed.target_embedding.weight, model.target_embedding.weight)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not packed.training


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "pre", "activation": "swiglu", "tied": False},
        {"positions": "rotary"},
        {"positions": "alibi", "activation": "gelu"},
        {"positions": "learned", "norm": "pre"},
    ],
)
@pytest.mark.parametrize("padded", [True, False])
def test_a_step_of_few_rows_gives_what_the_layers_give(options, padded):
    """With and without padding, and after a beam has chosen its hypotheses."""
    torch.manual_seed(0)
    packed = EightBitTransformer(Transformer(Config(13, 11, 24, 3, 37, 2, **options)))
    source = torch.randint(4, 13, (3, 7))
    lengths = torch.tensor([7, 3, 5] if padded else [7, 7, 7])
    states = [packed.start(source, lengths) for _ in range(2)]
    for rows in (None, None, [0, 0, 2, 1], None, [3, 3, 1], None):
        if rows is not None:
            states = [state.select(torch.tensor(rows)) for state in states]
        token = torch.randint(4, 11, (len(states[0].memory_mask),))
        found, _, states[0] = packed.step(token, states[0])
        wanted, _, states[1] = Transformer.step(packed, token, states[1])
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        assert ((found - wanted).abs() <= 4 * BFLOAT16 * wanted.abs().max()).all()


@needs_vnni
@pytest.mark.parametrize("options", [{}, {"norm": "pre", "activation": "swiglu", "tied": False}])
def test_one_sentence_alone_is_rounded_with_its_beam(options, small_too):
    """Near the layers' logits, and nearer to them than those of another sentence."""
    torch.manual_seed(0)
    packed = EightBitTransformer(Transformer(Config(13, 11, 24, 3, 37, 2, **options)))
    said, another = torch.randint(4, 13, (2, 1, 7))
    states = [packed.start(source, torch.tensor([7])) for source in (said, said, another)]
    token = torch.tensor([4])
    for rows in (None, [0, 0, 0], None, [2, 1, 1], None):
        if rows is not None:
            states = [state.select(torch.tensor(rows)) for state in states]
            token = torch.randint(4, 11, (len(rows),))
        found, _, states[0] = packed.step(token, states[0])
        wanted, _, states[1] = Transformer.step(packed, token, states[1])
        other, _, states[2] = Transformer.step(packed, token, states[2])
        off = (found - wanted).norm()
        assert off < 0.03 * wanted.norm()
        assert off < 0.1 * (other - wanted).norm()


@needs_vnni
def test_only_one_sentence_alone_has_one_scale(monkeypatch, small_too):
    """Its beam is its own; with another sentence beside it, each row is rounded by itself."""
    heard = []

    def together(layer, rows):
        heard.append(len(rows))
        return layer.few(rows)

    monkeypatch.setattr(EightBitLinear, "together", together)
    packed = EightBitTransformer(Transformer(Config(13, 11, 24, 3, 37, 2)))
    source = torch.randint(4, 13, (2, 7))
    beam_search(packed, source, torch.tensor([7, 7]), 4, beam=3, min_length=3)
    assert not heard
    beam_search(packed, source[:1], torch.tensor([7]), 4, beam=3, min_length=3)
    assert set(heard) == {7, 1, 3}  # the source, the first step, and the others
    matrices_of_a_step = 2 * 6 + 1  # queries, keys and values are one
    assert heard.count(3) % matrices_of_a_step == 0


@pytest.mark.parametrize("lack", ["instruction", "kernel", "its matrix", "float32"])
def test_without_the_kernel_one_sentence_is_multiplied_row_by_row(lack, monkeypatch, small_too):
    dtype = torch.float32
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: lack != "instruction")
    if lack == "kernel":
        monkeypatch.setattr(type(torch.backends.quantized), "engine", "qnnpack")
    elif lack == "its matrix":
        monkeypatch.delattr(torch, "_make_per_channel_quantized_tensor")
    elif lack == "float32":
        dtype = torch.float64
    packed = EightBitTransformer(Transformer(Config(13, 11, 24, 3, 37, 2)).to(dtype))
    source, lengths = torch.randint(4, 13, (1, 7)), torch.tensor([7])
    assert greedy(packed, source, lengths, 4, min_length=4)[0].shape == (1, 4)
    layers = [layer for layer in packed.modules() if isinstance(layer, EightBitLinear)]
    assert not any("packed" in vars(layer) for layer in layers)


def test_only_the_first_step_runs_the_layers(monkeypatch):
    ran = []
    forward = Residual.forward
    monkeypatch.setattr(Residual, "forward", lambda *a, **k: ran.append(a[0]) or forward(*a, **k))
    packed = EightBitTransformer(Transformer(Config(13, 11, 24, 3, 37, 2)))
    greedy(packed, torch.randint(4, 13, (2, 7)), torch.tensor([7, 6]), 4, min_length=4)
    in_a_decoder, in_an_encoder = 2 * 3, 2 * 2
    assert len(ran) == in_an_encoder + in_a_decoder


class Doubled(Config):
    def make_feed_forward(self):
        return nn.Sequential(super().make_feed_forward(), super().make_feed_forward())


class Grouped(Config):
    def make_attention(self, positions=None):
        return MultiHeadAttention(self.d_model, self.n_heads, n_kv_heads=1, positions=positions)


@pytest.mark.parametrize("config", [Doubled, Grouped])
def test_layers_that_the_step_does_not_know_run_as_they_are(config):
    torch.manual_seed(0)
    packed = EightBitTransformer(Transformer(config(13, 11, 24, 3, 37, 2)))
    assert not packed.quick
    source, lengths = torch.randint(4, 13, (2, 7)), torch.tensor([7, 4])
    target_in = torch.randint(4, 11, (2, 5))
    wanted, state = packed(source, lengths, target_in), packed.start(source, lengths)
    for t in range(5):
        found, _, state = packed.step(target_in[:, t], state)
        assert ((found - wanted[:, t]).abs() <= 4 * BFLOAT16 * wanted.abs().max()).all()


def test_three_matrices_in_one_take_no_more_memory():
    packed = EightBitTransformer(Transformer(Config(13, 11, 32, 4, 64, 1)))
    own = packed.decoder.layers[0].self_attention.sublayer
    parts = [layer.whole for layer in (own.w_q, own.w_k, own.w_v)]
    joined = packed.quick[0][0].sublayer.joined.whole
    assert torch.equal(torch.cat(parts), joined)
    assert len({x.untyped_storage().data_ptr() for x in (*parts, joined)}) == 1


def test_the_published_model_says_the_same():
    model, *vocabs = load_published()
    packed = EightBitTransformer(model)
    batch = make_batch(translation_pairs()[1][:40], *vocabs)
    inputs = (batch.source, batch.source_lengths, 60)
    wanted, found = greedy(model, *inputs)[0], greedy(packed, *inputs)[0]
    assert torch.equal(found, wanted)
    (said, scores), (same, others) = (beam_search(m, *inputs) for m in (model, packed))
    assert torch.equal(said, same)
    assert 0 < (scores - others).abs().max() < 0.05
    alone = greedy(
        packed, batch.source[:1, : batch.source_lengths[0]], batch.source_lengths[:1], 60
    )
    end = wanted[0].tolist().index(EOS) + 1
    assert alone[0][0].tolist() == wanted[0, :end].tolist()


@pytest.mark.parametrize(
    ("machine", "capability", "refused"),
    [
        ("x86_64", "DEFAULT", True),
        ("AMD64", "DEFAULT", True),
        ("x86_64", "AVX2", False),
        ("x86_64", "AVX512", False),
        ("aarch64", "DEFAULT", False),
    ],
)
def test_a_processor_on_which_it_is_slower_is_refused(machine, capability, refused, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    if refused:
        with pytest.raises(ValueError, match="AVX2 or AVX-512, got one with neither"):
            expect_8_bits(torch.device("cpu"))
    else:
        expect_8_bits(torch.device("cpu"))


def test_another_device_and_a_torch_without_the_kernel_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="--device cpu with 8 bits, got cuda"):
        expect_8_bits(torch.device("cuda"))
    monkeypatch.delattr(torch, "_weight_int8pack_mm")
    with pytest.raises(ValueError, match="a kernel for matrices in 8 bits"):
        expect_8_bits(torch.device("cpu"))
