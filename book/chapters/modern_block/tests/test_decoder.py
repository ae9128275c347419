"""The decoder: each field changes what it names; causal, and the same step by step."""

from dataclasses import replace

import pytest
import torch

from chapters.modern_block.decoder import (
    BlockConfig,
    ModernDecoder,
    WindowCache,
    paper_2017,
    today,
)
from chapters.modern_block.experts import MixtureOfExperts
from chapters.modern_block.rotation import Scaling
from lib.attention import MultiHeadAttention, attention_maps
from lib.data import BOS, EOS
from lib.decoding import beam_search, decode, greedy, sample
from lib.layers import FeedForward, LayerNorm, RMSNorm
from lib.transformer import Config, LanguageModel
from tests.helpers import assert_close, unchecked

SMALL = {"d_model": 24, "n_layers": 3, "n_heads": 6, "d_ff": 37}
KINDS = {
    "paper": paper_2017(29, **SMALL),
    "today": today(29, **SMALL, n_kv_heads=2, head_dim=10),
    "window": today(29, **SMALL, n_kv_heads=1, window=5),
    "window of one": today(29, **SMALL, window=1),
    "experts": today(29, **SMALL, n_kv_heads=3, n_experts=5, n_active=2, window=7, tied=True),
    "mixed": today(29, **SMALL, n_kv_heads=2, window=4, full_every=2, qk_norm=True),
    "mixed, full on top": today(29, **SMALL, window=2, full_every=3, qkv_bias=True),
    "slowed": today(29, **SMALL, rope_scaling=Scaling(8.0, 1.0, 4.0, 11), qk_norm=True),
    "learned": paper_2017(29, **SMALL, positions="learned", activation="gelu", window=2),
    "alibi": today(29, **SMALL, n_kv_heads=2, window=6, positions="alibi", norm="post"),
    "none": replace(paper_2017(29, **SMALL, n_experts=3, n_active=1), positions="none"),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def made(config, seed=0):
    torch.manual_seed(seed)
    return ModernDecoder(config).double().eval()


def tokens(batch=3, time=23, seed=0):
    return torch.randint(29, (batch, time), generator=torch.Generator().manual_seed(seed))


def test_the_paper_s_choices_are_those_of_the_library_s_configuration():
    """Bit for bit from the same seed: parameters, drawn in the same order, and logits."""
    for positions in ("none", "sinusoidal", "learned", "rotary"):
        for tied in (True, False):
            options = SMALL | {"positions": positions, "tied": tied, "activation": "gelu"}
            torch.manual_seed(0)
            theirs = LanguageModel(Config(29, norm="pre", dropout=0.0, **options)).double()
            ours = made(paper_2017(29, **options))
            assert list(theirs.state_dict()) == list(ours.state_dict())
            assert torch.equal(ours(tokens()), theirs(tokens()))


def test_today_s_choices():
    model = made(KINDS["today"])
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert all(layer.bias is None for layer in linear)
    assert not [m for m in model.modules() if isinstance(m, LayerNorm)]
    assert len([m for m in model.modules() if isinstance(m, RMSNorm)]) == 2 * 3 + 1
    attention = next(m for m in model.modules() if isinstance(m, MultiHeadAttention))
    assert (attention.w_q.out_features, attention.w_k.out_features) == (6 * 10, 2 * 10)
    assert attention.positions is model.decoder.positions
    assert model.embedding.scale == 1.0
    assert model.projection.weight is not model.embedding.weight
    assert "bias" not in " ".join(model.state_dict())


def test_each_field_changes_what_it_names():
    base = paper_2017(29, **SMALL)
    names = set(ModernDecoder(base).state_dict())

    def changed(**fields):
        return set(ModernDecoder(replace(base, **fields)).state_dict())

    first = "decoder.layers.0.feed_forward"
    assert {n for n in names - changed(norm_layer="rms") if n.startswith(first)} == {
        f"{first}.norm.bias"
    }
    assert f"{first}.sublayer.w_3.weight" in changed(activation="swiglu") - names
    gone = names - changed(bias=False)
    assert gone == {n for n in names if n.endswith("bias") and "norm" not in n}
    assert changed(positions="learned") - names == {"decoder.positions.weight"}
    last = {"decoder.norm.gain", "decoder.norm.bias"}
    assert names - changed(norm="post") == last
    assert changed(tied=False) == names
    assert changed(qkv_bias=True) == names
    first = "decoder.layers.0.self_attention.sublayer"
    three = changed(bias=False, qkv_bias=True) - changed(bias=False)
    assert {n for n in three if n.startswith(first)} == {f"{first}.w_{x}.bias" for x in "qkv"}
    normed = changed(qk_norm=True) - names
    assert {n for n in normed if n.startswith(first)} == {f"{first}.{x}_norm.gain" for x in "qk"}
    assert len(three) == 3 * 3
    assert len(normed) == 2 * 3
    for field, value, of in (("norm_eps", 0.25, "norm.eps"), ("rope_base", 7.0, "positions.base")):
        model = ModernDecoder(replace(base, positions="rotary", **{field: value}))
        part, name = of.split(".")
        assert getattr(getattr(model.decoder, part), name) == value
    eps = {m.eps for m in ModernDecoder(replace(base, norm_eps=0.25)).modules()
           if isinstance(m, LayerNorm)}  # fmt: skip
    assert eps == {0.25}
    model = ModernDecoder(replace(base, norm_eps=0.25, qk_norm=True))
    assert {m.eps for m in model.modules() if isinstance(m, RMSNorm)} == {0.25}
    model = ModernDecoder(replace(base, n_experts=5, n_active=3, bias=False, dropout=0.3))
    experts = [m for m in model.modules() if isinstance(m, MixtureOfExperts)]
    assert [len(m.experts) for m in experts] == [5] * 3
    assert {m.n_active for m in experts} == {3}
    assert all(isinstance(e, FeedForward) and e.w_3 is None for e in experts[0].experts)
    dropouts = [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)]
    assert dropouts == [0.3] * 7  # on embeddings + positions, and on each sub-layer


@EVERY_KIND
def test_a_later_token_changes_nothing_earlier(kind):
    model, text = made(KINDS[kind]), tokens()
    changed = text.clone()
    changed[:, 11] = (text[:, 11] + 1) % 29
    before, after = model(text), model(changed)
    assert_close(after[:, :11], before[:, :11], 1e-12)
    assert (after[:, 11] - before[:, 11]).abs().max() > 1e-3


@EVERY_KIND
@pytest.mark.parametrize("prefix", [1, 4, 13])
def test_step_by_step_and_after_a_prefix_it_is_the_same(kind, prefix):
    model, text = made(KINDS[kind]), tokens()
    wanted, state = model(text), model.start()
    with torch.no_grad():
        assert_close(model(text[:, :prefix], state), wanted[:, :prefix], 1e-10)
        middle = (prefix + 23) // 2  # several tokens at once, after others
        assert_close(model(text[:, prefix:middle], state), wanted[:, prefix:middle], 1e-10)
    for t in range(middle, 23):
        logits, weights, state = model.step(text[:, t], state)
        assert weights is None
        assert_close(logits, wanted[:, t], 1e-10)
    assert [cache.own.length for cache in state] == [23] * 3


def test_the_receptive_field_of_a_window_grows_with_the_layers():
    """Three layers of a window of 5: position t depends on 3 * 4 positions before it."""
    model, text = made(KINDS["window"]), tokens()
    wanted = model(text)
    for t, changes in ((22 - 12, True), (22 - 13, False)):
        changed = text.clone()
        changed[:, t] = (text[:, t] + 1) % 29
        gap = (model(changed)[:, 22] - wanted[:, 22]).abs().max().item()
        assert (gap > 1e-9) == changes
    for weights in attention_maps(model, text).values():
        distance = torch.arange(23)[:, None] - torch.arange(23)
        assert torch.equal((weights > 0).all((0, 1)), (distance >= 0) & (distance < 5))


def test_layers_with_and_without_a_window_read_and_keep_what_they_should():
    model, text = made(KINDS["mixed"]), tokens()
    assert model.config.windows == (4, None, 4)
    distance = torch.arange(23)[:, None] - torch.arange(23)
    for window, weights in zip(
        model.config.windows, attention_maps(model, text).values(), strict=True
    ):
        reach = 23 if window is None else window
        assert torch.equal((weights > 0).all((0, 1)), (distance >= 0) & (distance < reach))
    state = model.start()
    with torch.no_grad():
        model(text, state)
    assert [cache.read()[0].shape[2] for cache, _ in state] == [3, 23, 3]
    for every, windows in ((None, (4, 4, 4)), (1, (None,) * 3), (3, (4, 4, None)), (9, (4,) * 3)):
        assert replace(model.config, full_every=every).windows == windows


def test_a_window_s_cache_keeps_no_more_than_the_next_query_needs():
    model, text = made(KINDS["window"]), tokens()
    state = model.start()
    with torch.no_grad():
        model(text, state)
    for cache, _ in state:
        key, value = cache.read()
        assert key.shape == value.shape == (3, 1, 4, 4)
        assert cache.length == 23
    few = list(cache.select(torch.tensor([2, 0])) for cache in state)
    got = model.step(torch.tensor([7, 11]), few)[0]
    again = torch.cat((text[[2, 0]], torch.tensor([[7], [11]])), dim=1)
    assert_close(got, model(again)[:, -1], 1e-10)
    assert [cache.own.length for cache in state] == [23] * 3  # the others are as they were
    with pytest.raises(ValueError, match=r"as stored, \(3, 1, 4, 4\) .* got \(2, 1, 1, 4\)"):
        model.step(torch.tensor([1, 2]), state)


def test_a_window_s_cache_by_hand():
    cache = WindowCache(3)
    rows = torch.arange(7.0).view(1, 1, 7, 1)
    seen = []
    for start, end in ((0, 1), (1, 2), (2, 5), (5, 6), (6, 7)):
        key, value = cache.append(rows[:, :, start:end], -rows[:, :, start:end])
        assert torch.equal(key, -value)
        seen.append(key.flatten().tolist())
    assert seen == [[0], [0, 1], [0, 1, 2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert cache.read()[0].flatten().tolist() == [5, 6]


@EVERY_KIND
def test_greedy_sampling_and_beam_search(kind):
    model = made(KINDS[kind], seed=3)
    source, lengths = torch.full((5, 1), BOS), torch.ones(5, dtype=torch.long)
    texts, maps = greedy(model, source, lengths, 9)
    assert maps is None
    text = [BOS]
    while len(text) < 10 and text[-1] != EOS:
        text.append(model(torch.tensor([text]))[0, -1].argmax().item())
    assert texts[0].tolist()[: len(text) - 1] == text[1:]
    assert texts.unique(dim=0).shape[0] == 1  # all continue the same

    def drawn(seed):
        return sample(
            model, source, lengths, 9, top_k=7, generator=torch.Generator().manual_seed(seed)
        )

    assert torch.equal(drawn(1), drawn(1))
    assert len(drawn(1).unique(dim=0)) > 1
    one, score = beam_search(model, source[:2], lengths[:2], 6, beam=1, alpha=0.0)
    best, best_score = beam_search(model, source[:2], lengths[:2], 6, beam=29 * 3, alpha=0.0)
    assert (best_score >= score - 1e-9).all()
    for found, total in ((one, score), (best, best_score)):
        row = [BOS, *found[0].tolist()]
        chances = model(torch.tensor([row[:-1]]))[0].log_softmax(-1)
        said = sum(chances[t, token].item() for t, token in enumerate(row[1:]))
        assert said == pytest.approx(total[0].item(), abs=1e-9)


@EVERY_KIND
def test_a_prefix_longer_than_the_window_is_continued(kind):
    model, prefix = made(KINDS[kind], seed=3), tokens(batch=2, time=13)
    written, _ = greedy(model, prefix, torch.tensor([13, 13]), 9)
    for row, continued in zip(prefix, written, strict=True):
        text = row.tolist()
        while len(text) < 22 and text[-1] != EOS:
            text.append(model(torch.tensor([text]))[0, -1].argmax().item())
        assert continued.tolist()[: len(text) - 13] == text[13:]
    with pytest.raises(ValueError, match="expected prefixes of one length"):
        model.start(prefix, torch.tensor([13, 12]))


def test_the_state_of_a_beam_can_be_chosen():
    """A rule that sends each text another way: its rows stay apart in every cache."""
    model = made(KINDS["experts"])
    ways = torch.tensor([5, 7, 11])
    source, lengths = torch.full((3, 1), BOS), torch.ones(3, dtype=torch.long)
    seen = []

    def choose(logits):
        seen.append(logits)
        return ways

    decode(model, source, lengths, 9, choose)
    rows = torch.cat((torch.full((3, 1), BOS), ways[:, None].expand(3, 8)), dim=1)
    assert_close(torch.stack(seen, dim=1), model(rows), 1e-10)


@pytest.mark.parametrize("kind", ["today", "experts"])
def test_it_learns_a_text_by_heart(kind):
    torch.manual_seed(0)
    model, text = ModernDecoder(replace(KINDS[kind], n_layers=2)), tokens(batch=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        logits = model(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(text[:, :-1]).argmax(-1) == text[:, 1:]).all()


def test_dropout_in_training_alone():
    model = made(replace(KINDS["today"], dropout=0.5))
    assert torch.equal(model(tokens()), model(tokens()))
    model.train()
    assert not torch.equal(model(tokens()), model(tokens()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source_vocab": 0}, "source_vocab to be a whole number above 0, got 0"),
        ({"d_model": 24.0}, "d_model to be a whole number above 0, got 24.0"),
        ({"n_layers": True}, "n_layers to be a whole number above 0, got True"),
        ({"n_heads": 5}, "multiple of n_heads, got d_model=24 and n_heads=5; change one"),
        ({"n_kv_heads": 4}, "n_kv_heads to divide n_heads, got n_kv_heads=4 and n_heads=6"),
        ({"n_kv_heads": 0}, "n_kv_heads to be a whole number above 0, got 0"),
        ({"head_dim": 7}, "an even d_k for rotary positions, got 7"),
        ({"head_dim": -2}, "head_dim to be a whole number above 0, got -2"),
        ({"d_ff": "37"}, "d_ff to be a whole number above 0, got '37'"),
        ({"norm": "rms"}, "norm out of pre, post, got 'rms'"),
        ({"norm_layer": "batch"}, "norm_layer out of layer, rms, got 'batch'"),
        ({"norm_eps": -1.0}, "norm_eps of at least 0 and rope_base above 0, got -1.0"),
        ({"rope_base": 0}, "rope_base above 0, got 1e-05 and 0"),
        ({"activation": "tanh"}, "activation out of relu, gelu, gelu_tanh, swiglu, got 'tanh'"),
        ({"positions": "rope"}, "positions out of none, .*alibi, got 'rope'"),
        ({"bias": None}, "bias to be True or False, got None"),
        ({"full_every": 2}, "a window where full_every is given, got full_every=2"),
        ({"window": 5, "full_every": 0}, "full_every to be a whole number above 0, got 0"),
        ({"qk_norm": 1e-6}, "qk_norm to be True or False, got 1e-06"),
        ({"window": 0}, "window to be a whole number above 0, got 0"),
        ({"n_experts": 0}, "n_experts to be a whole number above 0, got 0"),
        ({"n_experts": 3, "n_active": 4}, "n_active=4 and n_experts=3"),
        ({"max_length": None}, "max_length to be a whole number above 0, got None"),
        ({"dropout": 1.0}, "dropout of at least 0 and below 1, got 1.0"),
    ],
)
def test_a_config_that_does_not_fit_is_named(fields, message):
    with unchecked(), pytest.raises(ValueError, match=f"expected .*{message}"):
        replace(KINDS["today"], **({"head_dim": None, "n_kv_heads": None} | fields))


def test_head_dim_lets_other_numbers_of_heads_fit():
    config = BlockConfig(29, d_model=24, n_heads=5, head_dim=7)
    assert (config.d_k, config.kv_heads) == (7, 5)
    assert replace(config, d_model=25, head_dim=None).d_k == 5
