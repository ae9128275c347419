import pytest
import torch

from engine.replay import PageDropout, Reader, Replay, linear, make_model
from lib.data import PAD, Batch
from lib.masks import causal_mask
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import cosine, train
from lib.transformer import OneStack, Transformer

SIZES = {"d_model": 14, "n_heads": 2, "d_ff": 11, "n_layers": 1, "max_length": 17}
STACK = {"source_vocab": 13, "norm": "pre", "positions": "rotary", "activation": "relu"} | SIZES
ONE_STACK = STACK | {"kind": "one_stack", "causal": True, "tied": True, "d_model": 12}
TRANSLATOR = STACK | {"kind": "translator", "target_vocab": 19, "tied": False, "positions": "alibi"}
READER = {
    "kind": "reader",
    "vocab": 13,
    "classes": 5,
    "outputs": 2,
    "d_model": 7,
    "n_heads": 3,
    "d_k": 11,
    "positions": "learned",
    "length": 17,
}
RECURRENT = {
    "kind": "recurrent",
    "source_vocab": 13,
    "target_vocab": 11,
    "d_embed": 3,
    "d_hidden": 5,
    "attention": False,
}
ATTENTION = RECURRENT | {"attention": True, "d_scorer": 7}
OPTIONS = {"steps": 23, "lr": 3e-3, "schedule": "cosine", "warmup": 5, "clip": 0.7}


def parameters_of(model: torch.nn.Module) -> list[dict]:
    return [
        {"name": name, "shape": list(p.shape), "data": p.flatten().tolist()}
        for name, p in model.named_parameters()
    ]


def replay_of(design: dict, options: dict | None = None, seed: int = 0) -> Replay:
    torch.manual_seed(seed)
    return Replay(design, options or OPTIONS, parameters_of(make_model(design)))


def test_each_design_has_its_model():
    assert isinstance(make_model(READER), Reader)
    assert isinstance(make_model(ONE_STACK), OneStack)
    assert isinstance(make_model(TRANSLATOR), Transformer)
    assert make_model(TRANSLATOR).config.dropout == 0
    assert make_model(READER).attention.w_q.weight.shape == (3 * 11, 7)
    assert type(make_model(RECURRENT)) is Seq2Seq
    assert isinstance(make_model(ATTENTION), AttentionSeq2Seq)
    assert make_model(ATTENTION).decoder.attention.score.weight.shape == (1, 7)


def test_the_given_parameters_are_the_models():
    given = parameters_of(make_model(READER))
    assert parameters_of(Replay(READER, OPTIONS, given).model) == given


def test_a_run_is_that_of_the_library():
    """The same batches through lib.training: PAD there is a target of -1 here."""
    replay = replay_of(TRANSLATOR)
    torch.manual_seed(0)
    model = make_model(TRANSLATOR)
    lengths = torch.tensor([7, 2, 5])
    batches = []
    for _ in range(OPTIONS["steps"]):
        target = torch.randint(4, 19, (3, 11))
        target[1, 3:] = PAD
        batches.append(Batch(torch.randint(4, 13, (3, 7)), lengths, target.roll(1, 1), target))
    expected = train(
        model, batches, OPTIONS["steps"], OPTIONS["lr"], schedule=cosine(23, 5), clip=0.7
    )
    given = [
        {
            "rows": 3,
            "source": batch.source.flatten().tolist(),
            "source_lengths": lengths.tolist(),
            "target_in": batch.target_in.flatten().tolist(),
            "target_out": [t if t != PAD else -1 for t in batch.target_out.flatten().tolist()],
        }
        for batch in batches
    ]
    assert replay.run(given) == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]
    for ours, theirs in zip(replay.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("causal", [True, False])
def test_one_stack_is_causal_on_request(causal):
    replay = replay_of(ONE_STACK | {"causal": causal})
    tokens = torch.randint(13, (3, 5))
    batch = {"tokens": tokens.flatten().tolist(), "rows": 3, "time": 5}
    mask = causal_mask(5) if causal else None
    torch.testing.assert_close(replay.logits(batch), replay.model(tokens, mask))
    weights = replay.maps(batch)["encoder.layers.0.self_attention"]
    assert weights.shape == (3, 2, 5, 5)
    assert bool((weights.triu(1) == 0).all()) is causal


def test_dropout_is_in_learning_alone_and_its_noise_fixes_it():
    replay = replay_of(ONE_STACK | {"dropout": 0.3, "n_layers": 2})
    assert len(replay.dropouts) == 5, "behind the positions, and in each of four sub-layers"
    tokens = torch.randint(13, (3, 5)).flatten().tolist()
    batch = {"tokens": tokens, "rows": 3, "time": 5, "targets": tokens, "noise": 11}
    read = replay.logits(batch)
    losses = [replay.learn(batch | {"noise": noise}) for noise in (11, 12, 11)]
    assert losses[0] == losses[2] != losses[1]
    assert torch.equal(replay.logits(batch), read)


def test_dropout_drops_its_fraction_and_scales_what_stays():
    layer = PageDropout(0.3, [5])
    x = torch.ones(100, 1000)
    first, second = layer(x), layer(x)
    kept = first != 0
    assert kept.float().mean() == pytest.approx(0.7, abs=0.005)
    assert kept.float().mean(dim=0).std() == pytest.approx((0.21 / 100) ** 0.5, rel=0.1)
    assert first[kept].unique().item() == pytest.approx(1 / 0.7)
    assert (kept & (second != 0)).float().mean() == pytest.approx(0.49, abs=0.01), "another draw"
    assert torch.equal(layer.eval()(x), x)


def test_a_recurrent_model_has_a_map_of_its_attention():
    batch = {"rows": 2, "source": [4, 5, 2, 6, 2, 0], "source_lengths": [3, 2]} | {
        "target_in": [1, 4, 5, 6, 1, 7, 8, 9],
        "target_out": [4, 5, 6, 2, 7, 8, 9, -1],
    }
    replay = replay_of(ATTENTION)
    assert replay.logits(batch).shape == (2, 4, 11)
    weights = replay.maps(batch)["decoder.attention"]
    assert weights.shape == (2, 1, 4, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 4))
    assert not weights[1, :, :, 2].any(), "padding"
    assert replay.learn(batch) > 0
    assert replay_of(RECURRENT).maps(batch) == {}


def test_a_reader_names_classes_for_each_output():
    replay = replay_of(READER)
    batch = {"tokens": [1, 2, 3, 4, 5, 6], "rows": 2, "time": 3}
    assert replay.logits(batch).shape == (2, 3, 2, 5)
    targets = [0, 4] * 6
    all_counted = replay.learn(batch | {"targets": targets})
    first = replay.learn(batch | {"targets": targets[:6] + [-1] * 6})
    second = replay.learn(batch | {"targets": [-1] * 6 + targets[6:]})
    assert all_counted == pytest.approx((first + second) / 2, rel=1e-5)
    assert replay.learn(batch | {"targets": [-1] * 12}) == 0


def test_linear_is_torchs_after_the_warm_up():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, 19)
    factor, later = linear(19), linear(24, 5)
    for step in range(23):
        assert factor(step) == pytest.approx(optimizer.param_groups[0]["lr"])
        assert later(step + 5) == pytest.approx(factor(step))
        optimizer.step()
        decay.step()
    assert [later(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


@pytest.mark.parametrize(
    ("design", "options", "message"),
    [
        (
            READER | {"kind": "writer"},
            {},
            '"one_stack", "translator" or "recurrent", got \'writer\'',
        ),
        (ATTENTION | {"d_scorer": None}, {}, "expected a d_scorer with attention alone"),
        (RECURRENT | {"d_scorer": 7}, {}, "expected a d_scorer with attention alone"),
        (READER | {"positions": "rotary"}, {}, 'expected positions "none" or "learned"'),
        (ONE_STACK | {"n_heads": 5}, {}, "expected d_model to be a multiple of n_heads"),
        (READER, {"schedule": "step"}, "expected a schedule out of constant, linear, cosine"),
    ],
)
def test_what_is_wrong_is_named(design, options, message):
    given = parameters_of(make_model(READER))
    with pytest.raises(ValueError, match=message):
        Replay(design, OPTIONS | options, given)


def test_parameters_of_another_design_are_refused():
    given = parameters_of(make_model(READER))
    for wrong in (
        given[1:],
        [given[0] | {"shape": [7, 13]}, *given[1:]],
        [*given, given[0] | {"name": "x"}],
    ):
        with pytest.raises(ValueError, match="expected the parameters"):
            Replay(READER, OPTIONS, wrong)
