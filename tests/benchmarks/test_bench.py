"""The speed comparison runs, with tiny sizes: `make bench` is not left to rot between releases."""

import sys
from functools import partial

import pytest
import torch

from benchmarks import bench
from lib.data import BOS
from measure.records import read_results

groups, peers = bench.groups, bench.peers
SIZE = groups.Size(
    d_model=8, n_heads=2, n_layers=2, d_ff=11, vocab=23, batch=3, time=7, shortest=5, dropout=0.0
)
RECURRENT_SIZE = groups.RecurrentSize(d_embed=5, d_hidden=13, vocab=23, batch=3, time=7, shortest=2)
TINY = {
    "recurrent": partial(groups.recurrent, [RECURRENT_SIZE]),
    "training": partial(groups.training, {"tiny": SIZE}),
    "forward": partial(groups.forward, {"tiny": SIZE}),
    "attention": partial(groups.attention, [5]),
    "decoding": partial(groups.decoding, SIZE, [3], [2]),
    "window": partial(groups.window, [131, 257, 389]),
}
ROWS = {
    "GRU with attention, training step, hidden 13": {"lib", peers.D2L, "nn.GRU"},
    "training step, tiny": {
        *(*peers.PEERS, "lib, no padding", "lib, no padding, tied, fused Adam"),
        "lib, no padding, the same in bf16",
    },
    "forward pass, tiny": {*peers.PEERS, "lib, no padding"},
    "self-attention, n = 5": {
        "lib",
        "lib, the weights alone",
        "nn.MultiheadAttention",
        "bare fused",
    },
    "greedy, 3 tokens": {*peers.PEERS, "lib, weights by columns"} - {"torch.nn"},
    "beam 4, 2 tokens": {"lib", "Hugging Face"},
    "window of 128, n = 131": {"full, fused", "windowed", "windowed, causal"},
}
needs_d2l = pytest.mark.skipif(peers.D2L in peers.missing(), reason="d2l comes with make bench")


def test_every_group_is_recorded(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(groups, "GROUPS", TINY)
    monkeypatch.setattr(bench, "memory", partial(bench.memory, [5]))
    bench.main(["--repeats", "2", "--cores", "1", "--into", str(tmp_path)])
    record = read_results("bench", [tmp_path])
    assert record["versions"].startswith("torch ")
    found = record["cores"]["1"]
    for what, rows in ROWS.items():
        assert found["work"][what]["rows"].keys() >= rows - {*peers.missing()}, what
        one = found["work"][what]["1.00"]
        assert found["work"][what]["rows"][one]["ratio"] == 1
    assert found["MiB at once"]["5"].keys() == {"with weights", "fused", "windowed"}
    assert found["seconds of the window grow as n^"].keys() == {"exponent", "low", "high"}
    text = capsys.readouterr().out
    for name in peers.missing():
        assert f"not installed, left out: {name}" in text


def test_one_core_and_two_stand_in_one_record(monkeypatch, tmp_path):
    monkeypatch.setattr(groups, "GROUPS", {"window": TINY["window"]})
    before = torch.get_num_threads()
    try:
        bench.main(["--repeats", "2", "--into", str(tmp_path)])
    finally:
        torch.set_num_threads(before)
    assert list(read_results("bench", [tmp_path])["cores"]) == ["1", "2"]


def test_the_tiny_groups_are_all_there_are():
    assert TINY.keys() == groups.GROUPS.keys()


@pytest.mark.parametrize("make", [groups.models, groups.recurrent_models])
def test_all_peers_give_one_logit_for_each_word(make):
    size = SIZE if make is groups.models else RECURRENT_SIZE
    source, lengths, target_in, _ = groups.batch(size)
    for name, model in make(size).items():
        assert model(source, lengths, target_in).shape == (3, 7, 23), name


def test_all_peers_write_as_many_tokens_as_asked():
    source, lengths, *_ = groups.batch(SIZE)
    for name, model in groups.models(SIZE).items():
        if hasattr(model, "write"):
            written = model.eval().write(source[:1], lengths[:1], 4)
            assert written.shape[1] in (4, 5), name  # some give the first token, BOS, back


@needs_d2l
def test_nothing_stands_in_for_a_missing_package_after_the_import():
    peers.D2l(SIZE)
    names = sys.modules[peers.D2l.__module__].UNUSED
    assert all(sys.modules[name].__spec__ for name in names if name in sys.modules)


@needs_d2l
@torch.no_grad()
def test_d2l_writes_what_teacher_forcing_says_once_positions_are_taken_away():
    model = peers.D2l(SIZE).eval()
    source, lengths, *_ = groups.batch(SIZE)
    model.model.decoder.positions.P.zero_()
    written = model.write(source, lengths, 5)
    given = torch.cat([torch.full((3, 1), BOS), written[:, :-1]], dim=1)
    logits = model(source, lengths, given)
    assert torch.equal(written, logits.argmax(dim=-1))


@needs_d2l
@torch.no_grad()
def test_d2l_gives_every_token_position_0_when_it_writes():
    """So its writing differs from teacher forcing from the second token on, in version 1.0.3."""
    model = peers.D2l(SIZE).eval().model
    source, lengths, target_in, _ = groups.batch(SIZE)
    state = model.decoder.init_state(model.encoder(source, lengths), lengths)
    steps = []
    for token in target_in.split(1, dim=1):
        logits, state = model.decoder(token, state)
        steps.append(logits)
    apart = torch.cat(steps, dim=1) - model(source, target_in, lengths)
    assert apart[:, 0].abs().max() < 1e-5
    assert apart[:, 1:].abs().amax(dim=(0, 2)).min() > 1e-2
