"""The Transformer's promises: sizes, no leak, step by step equals all at once, it learns."""

import math

import pytest
import torch
from torch import nn

from lib.data import BOS, EOS, PAD
from lib.decoding import greedy
from lib.layers import LayerNorm
from lib.positions import SCHEMES
from lib.training import token_loss
from lib.transformer import Config, Decoder, Transformer
from tests.helpers import assert_close, normal, unchecked

SOURCE_VOCAB, TARGET_VOCAB = 29, 31
LENGTHS = torch.tensor([7, 3, 1, 5, 7])
PLACEMENTS = pytest.mark.parametrize("norm", ["pre", "post"])
EVERY_SCHEME = pytest.mark.parametrize("positions", SCHEMES)


def small(seed=0, **changes):
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0}
    torch.manual_seed(seed)
    return Transformer(Config(SOURCE_VOCAB, TARGET_VOCAB, **(sizes | changes)))


def tokens(batch=5, source_time=7, target_time=11, seed=0):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, SOURCE_VOCAB, (batch, source_time), generator=generator)
    target = torch.randint(4, TARGET_VOCAB, (batch, target_time), generator=generator)
    target[:, 0] = BOS
    return source, target


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


# Sizes


def test_the_paper_s_models_have_as_many_parameters_as_they_should():
    """Counted on the meta device, which stores no number."""
    with torch.device("meta"):
        base = Transformer(Config(37_000))
        big = Transformer(Config(37_000, d_model=1024, n_heads=16, d_ff=4096, dropout=0.3))
    assert n_parameters(base) == 63_082_496
    assert n_parameters(big) == 214_245_376


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"norm": "pre"}, 2 * 2 * 512),  # a last norm for each stack
        ({"tied": False}, 2 * 37_000 * 512),
        ({"target_vocab": 37_000}, 37_000 * 512),
        ({"target_vocab": 37_000, "tied": False}, 2 * 37_000 * 512),
        ({"positions": "rotary"}, 0),
        ({"positions": "alibi"}, 0),
        ({"positions": "learned", "max_length": 100}, 2 * 100 * 512),
        ({"activation": "swiglu"}, 12 * (512 * 2048 + 2048)),
        ({"n_heads": 4}, 0),
    ],
    ids=str,
)
def test_what_each_choice_costs(changes, more):
    with torch.device("meta"):
        assert n_parameters(Transformer(Config(37_000, **changes))) == 63_082_496 + more


def test_one_vocabulary_shares_all_three_matrices():
    model = Transformer(Config(29, d_model=24, n_heads=3, n_layers=1))
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.projection.weight is model.target_embedding.weight


def test_two_vocabularies_share_target_and_projection_only():
    model = small()
    assert model.projection.weight is model.target_embedding.weight
    assert model.source_embedding.weight is not model.target_embedding.weight


def test_untied_matrices_are_three():
    model = Transformer(Config(29, d_model=24, n_heads=3, n_layers=1, tied=False))
    weights = {
        id(layer.weight)
        for layer in (model.source_embedding, model.target_embedding, model.projection)
    }
    assert len(weights) == 3
    assert model.projection.bias is None


@PLACEMENTS
def test_only_pre_norm_has_a_last_norm(norm):
    model = small(norm=norm)
    for stack in (model.encoder, model.decoder):
        assert isinstance(stack.norm, LayerNorm if norm == "pre" else nn.Identity)


def test_dropout_stands_where_the_paper_has_it():
    """On each sub-layer's output (2 + 3 in a pair of layers) and on embeddings + positions."""
    model = small(dropout=0.3)
    drops = [name for name, m in model.named_modules() if isinstance(m, nn.Dropout) and m.p == 0.3]
    assert len(drops) == 2 * (2 + 3) + 2
    assert all(layer.dropout == 0.0 for layer in model.modules() if hasattr(layer, "w_q"))


# Nothing leaks


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@PLACEMENTS
@EVERY_SCHEME
def test_a_later_token_changes_nothing_earlier(positions, norm, train):
    model = small(positions=positions, norm=norm).train(train)
    source, target = tokens()
    before = model(source, LENGTHS, target)
    for t in (1, 6, 10):
        changed = target.clone()
        changed[:, t] = 4 + (target[:, t] - 3) % (TARGET_VOCAB - 4)
        after = model(source, LENGTHS, changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert not torch.equal(after[:, t], before[:, t])


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@PLACEMENTS
@EVERY_SCHEME
def test_padding_of_the_source_changes_nothing(positions, norm, train):
    model = small(positions=positions, norm=norm).train(train)
    source, target = tokens()
    padded = torch.arange(7) >= LENGTHS[:, None]
    before = model(source.masked_fill(padded, PAD), LENGTHS, target)
    assert torch.equal(model(source, LENGTHS, target), before)
    assert not torch.equal(model(source, LENGTHS.clamp(max=2), target), before)


@EVERY_SCHEME
def test_a_sentence_alone_equals_the_sentence_in_a_batch(positions):
    model = small(positions=positions).double()
    source, target = tokens()
    together = model(source, LENGTHS, target)
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        alone = model(source[one, :length], LENGTHS[one], target[one, :4])
        assert_close(alone, together[one, :4], 1e-12)


def test_gradient_of_a_logit_is_zero_for_later_tokens_and_padding():
    model = small().double()
    source, target = tokens()
    inside = {}
    for name in ("source", "target"):
        layer = getattr(model, f"{name}_embedding")
        layer.register_forward_hook(
            lambda _, __, x, name=name: (
                inside.update({name: x.detach().requires_grad_()}) or inside[name]
            )
        )
    model(source, LENGTHS, target)[:, 4].square().sum().backward()
    seen = inside["target"].grad.abs().sum(-1) > 0
    assert torch.equal(seen, (torch.arange(11) <= 4).expand(5, 11))
    seen = inside["source"].grad.abs().sum(-1) > 0
    assert torch.equal(seen, torch.arange(7) < LENGTHS[:, None])


# Step by step


@PLACEMENTS
@EVERY_SCHEME
def test_step_by_step_equals_teacher_forcing(positions, norm):
    """41 steps: the cache grows on the way."""
    model = small(positions=positions, norm=norm).eval()
    source, target = tokens(target_time=41)
    wanted = model(source, LENGTHS, target)
    state = model.start(source, LENGTHS)
    for t in range(41):
        logits, weights, state = model.step(target[:, t], state)
        assert weights is None
        assert_close(logits, wanted[:, t], 1e-5)


@EVERY_SCHEME
def test_a_selected_state_goes_on_as_its_own_sentence(positions):
    """A beam: after three steps go on with rows 3, 0, 0, with other tokens each."""
    model = small(positions=positions).eval().double()
    source, target = tokens()
    state = model.start(source, LENGTHS)
    for t in range(3):
        _, _, state = model.step(target[:, t], state)
    rows = torch.tensor([3, 0, 0])
    state = state.select(rows)
    joined = torch.cat([target[rows, :3], torch.tensor([[5, 6], [7, 8], [9, 10]])], 1)
    wanted = model(source[rows], LENGTHS[rows], joined)
    for t in (3, 4):
        logits, _, state = model.step(joined[:, t], state)
        assert_close(logits, wanted[:, t], 1e-12)


def test_decoding_leaves_no_graph():
    model = small()
    source, target = tokens()
    logits, _, state = model.step(target[:, 0], model.start(source, LENGTHS))
    assert not logits.requires_grad
    assert not state.memory.requires_grad


def test_learned_positions_end_with_a_clear_error():
    model = small(positions="learned", max_length=9)
    source, target = tokens()
    with pytest.raises(ValueError, match="at most max_length=9 positions, got 11"):
        model(source, LENGTHS, target)
    state = model.start(source, LENGTHS)
    for t in range(9):
        _, _, state = model.step(target[:, t], state)
    with pytest.raises(ValueError, match="got 10"):
        model.step(target[:, 9], state)


@EVERY_SCHEME
def test_decoder_without_memory_is_a_causal_language_model(positions):
    config = Config(29, d_model=24, n_heads=3, d_ff=37, n_layers=2, positions=positions)
    decoder = Decoder(config, cross_attention=False).double().eval()
    x = normal(3, 7, 24)
    wanted = decoder(x)
    changed = x.clone()
    changed[:, 4:] += 1
    assert torch.equal(decoder(changed)[:, :4], wanted[:, :4])
    caches = decoder.new_caches()
    parts = [decoder(x[:, a:b], caches=caches) for a, b in ((0, 3), (3, 4), (4, 7))]
    assert_close(torch.cat(parts, 1), wanted, 1e-12)
    assert not any("cross" in name for name, _ in decoder.named_parameters())


# It learns


@PLACEMENTS
@EVERY_SCHEME
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sizes", [(300, 64, 4), (1000, 128, 8)], ids=str)
def test_the_first_loss_is_that_of_guessing(positions, norm, tied, sizes):
    vocab, d_model, n_heads = sizes
    torch.manual_seed(0)
    config = Config(
        vocab, None, d_model, n_heads, 128, 2, norm=norm, positions=positions, tied=tied
    )
    source, target = torch.randint(4, vocab, (2, 32, 13))
    logits = Transformer(config).eval()(source, torch.full((32,), 13), target)
    loss = token_loss(logits, target.roll(-1, 1))
    assert loss.item() == pytest.approx(math.log(vocab), rel=0.05)


def test_a_tied_matrix_starts_smaller():
    for tied, std in ((True, 0.5), (False, 1.0)):
        model = Transformer(Config(1000, 1000, d_model=64, n_heads=4, n_layers=1, tied=tied))
        for layer in (model.source_embedding, model.target_embedding):
            assert layer(torch.arange(1000)).std().item() == pytest.approx(std, rel=0.05)


@PLACEMENTS
@EVERY_SCHEME
def test_one_batch_can_be_learned_by_heart(positions, norm):
    """Greedy decoding then gives back every target, token for token."""
    model = small(positions=positions, norm=norm)
    source, target_in = tokens(target_time=8)
    target_out = target_in.roll(-1, 1)
    target_out[:, -1] = EOS
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        loss = token_loss(model(source, LENGTHS, target_in), target_out)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    decoded, weights = greedy(model, source, LENGTHS, max_length=8)
    assert torch.equal(decoded, target_out)
    assert weights is None


def test_gradients_reach_every_parameter():
    for changes in ({}, {"norm": "pre", "activation": "swiglu", "positions": "learned"}):
        model = small(**changes, max_length=11).double()
        source, target = tokens()
        model(source, torch.full((5,), 7), target).square().sum().backward()
        for name, parameter in model.named_parameters():
            if name.endswith("w_k.bias"):  # shifts all scores of a query alike: softmax undoes it
                assert parameter.grad.abs().max() < 1e-10
            elif "encoder.positions" in name:
                assert parameter.grad[:7].any()
            else:
                assert parameter.grad.any(), name


def test_bfloat16_autocast_runs():
    for positions in SCHEMES:
        model = small(positions=positions)
        source, target = tokens()
        wanted = model(source, LENGTHS, target)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = model(source, LENGTHS, target)
            logits, _, _ = model.step(target[:, 0], model.start(source, LENGTHS))
        assert_close(got, wanted, 0.1)
        assert_close(logits, wanted[:, 0], 0.1)


def test_saved_weights_make_the_same_model(tmp_path):
    one, other = small(seed=1), small(seed=2)
    source, target = tokens()
    torch.save(one.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(one(source, LENGTHS, target), other(source, LENGTHS, target))
    assert other.projection.weight is other.target_embedding.weight


# Errors


def test_tokens_and_lengths_that_do_not_fit_are_named():
    model = small()
    source, target = tokens()
    with unchecked():
        with pytest.raises(ValueError, match="from 0 to 28, got"):
            model(source + SOURCE_VOCAB, LENGTHS, target)
        with pytest.raises(ValueError, match="from 0 to 30, got"):
            model(source, LENGTHS, target + TARGET_VOCAB)
        with pytest.raises(ValueError, match=r"one length for each sequence"):
            model(source, LENGTHS[:2], target)
        with pytest.raises(ValueError, match="same batch axes"):
            model(source, LENGTHS, target[:3])


def test_cross_attention_without_a_memory_is_refused():
    """Attention would otherwise take its keys from the target: later tokens included."""
    decoder = small().decoder
    with pytest.raises(ValueError, match="expected a memory for the cross-attention, got None"):
        decoder(normal(2, 3, 24, dtype=torch.float32))


def test_one_length_is_not_taken_for_all_rows():
    model = small()
    source, target = tokens()
    with unchecked():
        for lengths in (LENGTHS[:1], LENGTHS[:, None], torch.tensor(3)):
            with pytest.raises(ValueError, match="one length for each sequence"):
                model(source, lengths, target)
            with pytest.raises(ValueError, match="one length for each sequence"):
                model.start(source, lengths)
        with pytest.raises(ValueError, match="one length for each sequence"):
            model.real_logits(source, LENGTHS, target, LENGTHS[:1])


def test_as_many_caches_as_layers():
    model = small()
    source, target = tokens()
    memory, mask = model.encode(source, LENGTHS)
    for caches in (model.decoder.new_caches()[:1], 2 * model.decoder.new_caches()):
        with pytest.raises(ValueError, match="zip"):
            model.decoder(model.target_embedding(target), memory, mask, caches)
