"""A run goes on bit for bit, a killed write leaves the old file, and no file runs code."""

import gc
import os
import pickle
import random
import re
import stat
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from lib.data import BatchStream, Pair, Vocabulary, make_batch
from lib.training import paper_adam, train
from lib.transformer import Config, Transformer
from tests.helpers import full_disk
from train.checkpoints import (
    _write,
    load_checkpoint,
    load_model,
    peek,
    save_checkpoint,
    save_model,
    write_whole,
)
from train.subword import SubwordVocabulary

WORDS = "abcdefg"
VOCAB = Vocabulary(WORDS)
SIZES = {"d_model": 6, "n_heads": 2, "d_ff": 5, "n_layers": 1, "dropout": 0.3, "norm": "pre"}


def pairs():
    rng = random.Random(0)
    sources = [tuple(rng.choices(WORDS, k=rng.randint(1, 5))) for _ in range(60)]
    return [Pair(source, source[::-1]) for source in sources]


def new_run(seed=0, **sizes):
    torch.manual_seed(seed)
    model = Transformer(Config(len(VOCAB), len(VOCAB), **SIZES | sizes))
    stream = BatchStream(pairs(), VOCAB, VOCAB, max_tokens=30, seed=1)
    return model, paper_adam(model), stream


def go_on(run, steps):
    model, optimizer, stream = run
    return train(model, stream, steps, 1e-2, optimizer=optimizer, accumulate=2)


def draws():
    """One number from each generator."""
    return random.random(), float(np.random.random()), torch.rand(1).item()  # noqa: NPY002


def test_a_run_goes_on_bit_for_bit_in_a_new_model(tmp_path):
    one = new_run()
    go_on(one, 9)
    save_checkpoint(tmp_path / "c", one[0], one[1], step=9, stream=one[2], extra={"best": 0.1})
    wanted = go_on(one, 12), draws()
    other = new_run(seed=7)
    go_on(other, 2)
    found = load_checkpoint(tmp_path / "c", other[0], other[1], stream=other[2])
    assert found == (9, {"best": 0.1})
    assert (go_on(other, 12), draws()) == wanted
    for name, weight in one[0].state_dict().items():
        assert torch.equal(weight, other[0].state_dict()[name]), name
    assert one[2].position == other[2].position


@pytest.mark.parametrize("forgotten", ["optimizer", "generators", "position"])
def test_the_test_above_needs_each_part(tmp_path, forgotten):
    """Without one part of the state the run does not go on as it was."""
    one = new_run()
    go_on(one, 9)
    save_checkpoint(tmp_path / "c", one[0], one[1], step=9, stream=one[2])
    state = torch.load(tmp_path / "c", weights_only=True)
    model, optimizer, stream = new_run(seed=7)
    state[forgotten] = {
        "optimizer": optimizer.state_dict(),
        "generators": state["generators"] | {"torch": torch.get_rng_state()},
        "position": (0, 0),
    }[forgotten]
    _write(tmp_path / "c", state)
    load_checkpoint(tmp_path / "c", model, optimizer, stream=stream)
    assert go_on((model, optimizer, stream), 6) != go_on(one, 6)


def test_peek_reads_only_what_the_run_told(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0, extra={"words": ["a"], "b": None})
    assert peek(tmp_path / "c") == {"words": ["a"], "b": None}


def test_infinity_is_kept(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0, extra={"best": float("inf")})
    assert peek(tmp_path / "c")["best"] == float("inf")


def test_extra_must_be_plain(tmp_path):
    model, optimizer, _ = new_run()
    with pytest.raises(ValueError, match="expected numbers, strings, lists and dictionaries"):
        save_checkpoint(tmp_path / "c", model, optimizer, step=0, extra={"f": {1, 2}})
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def breaks(part):
        part.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, breaks)
    assert path.read_text() == "old"
    write_whole(path, lambda part: part.write_text("new"))
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["checkpoint", "model"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_other(tmp_path, kind):
    """The reason is told in one line, whichever package was writing."""
    model, optimizer, _ = new_run()
    path = tmp_path / "file"
    path.write_text("old")

    def save():
        if kind == "model":
            save_model(path, model, VOCAB, VOCAB)
        else:
            save_checkpoint(path, model, optimizer, step=0)

    with (
        pytest.raises(OSError, match="what stood there before is still there") as told,
        full_disk(99),
    ):
        save()
    assert str(told.value).startswith(f"expected to write {path}, got: ")
    assert "File too large" in str(told.value)
    assert "\n" not in str(told.value)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_breaks_nothing_later(tmp_path):
    """Python 3.13 collected a buffer that was still looked into, and raised BufferError there."""
    model, optimizer, _ = new_run()
    with suppress(OSError), full_disk(99):
        try:
            save_checkpoint(tmp_path / "file", model, optimizer, step=0)
        except OSError as error:
            error.itself = error  # now it is freed by a collection only
            raise
    gc.collect()


def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").write_text("words")
    with pytest.raises(OSError, match=r"expected to write .*file.inner, got: Not a directory"):
        write_whole(tmp_path / "file" / "inner", lambda part: part.write_text("new"))
    with pytest.raises(
        OSError, match="got: Is a directory; what stood there before is still there"
    ):
        write_whole(tmp_path, lambda part: part.write_text("new"))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_no_link_that_lies_in_wait_is_followed(tmp_path):
    """Neither under the name of the file nor where a temporary file was ever written."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    seen = []
    for name in ("file", "file.part"):
        (tmp_path / name).symlink_to(victim)
    for number in range(2):
        with pytest.raises(ZeroDivisionError):
            write_whole(tmp_path / "file", lambda part: seen.append(part) or 1 / 0)
        write_whole(tmp_path / "file", lambda part, n=number: part.write_text(str(n)))
    assert victim.read_text() == "precious"
    assert (tmp_path / "file").read_text() == "1"
    assert not (tmp_path / "file").is_symlink()
    assert seen[0] != seen[1]
    assert {p.name for p in tmp_path.iterdir()} == {"victim", "file", "file.part"}


def test_a_temporary_file_is_a_new_one(tmp_path, monkeypatch):
    """Whoever guesses its name gets an error, and keeps what he has put there."""
    monkeypatch.setattr("train.checkpoints.secrets.token_hex", lambda _: "guessed")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file.guessed.part").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="got: File exists"):
        write_whole(tmp_path / "file", lambda part: part.write_text("new"))
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "file").exists()


@pytest.mark.skipif(os.name != "posix", reason="this system has other rights")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_have_the_usual_rights(tmp_path, mask):
    """Also those of safetensors, which makes its own for their owner alone."""
    model, optimizer, _ = new_run()
    before = os.umask(mask)
    try:
        save_model(tmp_path / "model", model, VOCAB, VOCAB)
        save_checkpoint(tmp_path / "state", model, optimizer, step=0)
    finally:
        os.umask(before)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_every_flipped_bit_is_noticed(tmp_path):
    """In the numbers, in what the zip file says of itself, and in the checksum."""
    model, optimizer, stream = new_run()
    path = tmp_path / "c"
    save_checkpoint(path, model, optimizer, step=0, stream=stream, extra={"words": ["a"] * 99})
    whole = path.read_bytes()
    size, rng = 8 * len(whole), random.Random(7)
    ends = [*range(200), *range(size - 1000, size)]
    for bit in [*rng.sample(range(size), 300), *rng.sample(ends, 100)]:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(
            ValueError, match="or is damaged: its checksum is another one; put a copy"
        ):
            peek(path)
    path.write_bytes(whole)
    peek(path)


@pytest.mark.parametrize("lost", [1, 21, 22, 63, 64, 65, 86, 87])
def test_a_cut_end_is_noticed(tmp_path, lost):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-lost])
    with pytest.raises(ValueError, match="expected a checkpoint, got a file that is none"):
        peek(tmp_path / "c")


def test_a_checkpoint_without_a_checksum_is_refused(tmp_path):
    """So torch.save writes it."""
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=5)
    torch.save(torch.load(tmp_path / "c", weights_only=True), tmp_path / "unsealed")
    with pytest.raises(ValueError, match="or is damaged: its checksum is another one"):
        load_checkpoint(tmp_path / "unsealed", model, optimizer)


class Harmful:
    """What a hostile file could hold: reading it would make a folder."""

    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    "write",
    [
        torch.save,
        lambda thing, path: path.write_bytes(pickle.dumps(thing, 2)),
        lambda thing, path: _write(path, thing),
    ],
)
def test_a_file_cannot_run_code(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write({"format": 1, "model": Harmful()}, tmp_path / "c")
    model, optimizer, _ = new_run()
    with pytest.raises(ValueError, match="expected a checkpoint, got a file that is none"):
        load_checkpoint(tmp_path / "c", model, optimizer)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"words", b"PK\x03\x04 half"])
def test_a_file_that_is_no_checkpoint(tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(ValueError, match="expected a checkpoint, got a file that is none"):
        peek(tmp_path / "c")


def test_a_truncated_checkpoint(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    whole = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="expected a checkpoint, got a file that is none"):
        peek(tmp_path / "c")


def test_another_format(tmp_path):
    _write(tmp_path / "c", {"format": 0})
    with pytest.raises(ValueError, match="expected a checkpoint of format 1, got something else"):
        peek(tmp_path / "c")


def test_another_model(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    model, optimizer, _ = new_run(d_ff=7)
    with pytest.raises(ValueError, match="expected the state of this model and optimiser"):
        load_checkpoint(tmp_path / "c", model, optimizer)


def test_a_refused_checkpoint_changes_nothing(tmp_path, monkeypatch):
    """Not even the parameters that would have fitted."""
    run = model, optimizer, stream = new_run()
    go_on(run, 1)
    stream.position = (1, 2)
    save_checkpoint(tmp_path / "c", model, optimizer, step=0, stream=stream)
    state = torch.load(tmp_path / "c", weights_only=True)
    kept = state["optimizer"]

    def groups(**other):
        return kept | {"param_groups": [group | other for group in kept["param_groups"]]}

    def numpy_at(place):
        name, keys, _, *rest = state["generators"]["numpy"]
        return name, keys, place, *rest

    def moments(**other):
        """Other ones of the first parameter, filled with one number; None leaves one out."""
        own = kept["state"][0]
        filled = {k: v if torch.is_tensor(v) else torch.full_like(own[k], v)
                  for k, v in other.items() if v is not None}  # fmt: skip
        rest = {k: v for k, v in own.items() if k not in other}
        return kept | {"state": kept["state"] | {0: rest | filled}}

    other, its_optimizer, its_stream = new_run(seed=3)
    before = {name: weight.clone() for name, weight in other.state_dict().items()}
    some = next(iter(before))
    place, drawn = its_stream.position, torch.get_rng_state()  # others than in the file
    monkeypatch.setattr(random, "setstate", pytest.fail)
    for broken in (
        {"model": {name: w for name, w in state["model"].items() if name != some}},
        {"model": state["model"] | {"more": torch.zeros(3)}},
        {"model": state["model"] | {some: torch.zeros(2, 3)}},
        {"model": state["model"] | {some: state["model"][some].half()}},
        {"model": None},
        {"optimizer": {}},
        {"optimizer": {"state": {}, "param_groups": []}},
        {"optimizer": groups(betas=3)},
        {"optimizer": groups(eps=float("nan"))},
        {"optimizer": moments(exp_avg=torch.zeros(3))},
        {"optimizer": moments(exp_avg_sq=None)},
        {"optimizer": moments(exp_avg=float("inf"))},
        {"optimizer": moments(exp_avg_sq=float("inf"))},
        {"model": state["model"] | {some: state["model"][some] * float("nan")}},
        {"generators": {}},
        {"generators": {k: v for k, v in state["generators"].items() if k != "cuda"}},
        {"generators": state["generators"] | {"cuda": 1}},
        {"generators": state["generators"] | {"python": (3, (1, 2), None)}},
        {"generators": state["generators"] | {"numpy": "words"}},
        {"generators": state["generators"] | {"numpy": numpy_at(5000)}},
        {"generators": state["generators"] | {"numpy": numpy_at(-1)}},
        {"generators": state["generators"] | {"torch": torch.zeros(3)}},
        {"position": (0, 10**6)},
        {"position": 7},
        {"position": (0, 0.5)},
        {"step": "seven"},
        {"extra": "{"},
    ):
        _write(tmp_path / "broken", state | broken)
        with pytest.raises(ValueError, match="expected the state of this model and optimiser"):
            load_checkpoint(tmp_path / "broken", other, its_optimizer, stream=its_stream)
        for name, weight in other.state_dict().items():
            assert torch.equal(weight, before[name]), (broken, name)
        assert torch.equal(torch.get_rng_state(), drawn), broken
        assert its_stream.position == place, broken
    assert not its_optimizer.state


def test_moments_come_back_however_they_lie_in_the_file(tmp_path):
    """Fused Adam reads memory in order; in another one it would mix them up or leave the memory."""
    run = model, optimizer, stream = new_run()
    go_on(run, 2)
    save_checkpoint(tmp_path / "c", model, optimizer, step=2, stream=stream)
    state = torch.load(tmp_path / "c", weights_only=True)
    strange = 0
    for kept in state["optimizer"]["state"].values():
        for name, moment in kept.items():
            if moment.dim() == 2:
                kept[name] = moment.T.contiguous().T
                strange += kept[name].stride() != moment.stride()
    assert strange > 10
    _write(tmp_path / "strange", state)
    both = [new_run(seed=1), new_run(seed=1)]
    for other, name in zip(both, ("c", "strange"), strict=True):
        load_checkpoint(tmp_path / name, *other[:2], stream=other[2])
        go_on(other, 2)
    for one, other in zip(both[0][0].parameters(), both[1][0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_moment_that_is_one_number_for_all_is_read_as_such(tmp_path):
    run = model, optimizer, _ = new_run()
    go_on(run, 1)
    save_checkpoint(tmp_path / "c", model, optimizer, step=1)
    state = torch.load(tmp_path / "c", weights_only=True)
    first = state["optimizer"]["state"][0]
    first["exp_avg"] = torch.full((1, 1), 0.5).expand_as(first["exp_avg"])
    _write(tmp_path / "c", state)
    load_checkpoint(tmp_path / "c", model, optimizer)
    moment = optimizer.state[optimizer.param_groups[0]["params"][0]]["exp_avg"]
    assert moment.is_contiguous()
    assert (moment == 0.5).all()


def test_a_mask_among_the_buffers_and_a_parameter_beside_the_model_come_back(tmp_path):
    def run():
        model = nn.Linear(2, 2)
        model.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
        beside = nn.Parameter(torch.ones(1))
        return model, torch.optim.Adam([*model.parameters(), beside], lr=0.1), beside

    model, optimizer, beside = run()
    (model(torch.ones(1, 2)).sum() * beside).sum().backward()
    optimizer.step()
    save_checkpoint(tmp_path / "c", model, optimizer, step=1)
    other, its_optimizer, its_beside = run()
    load_checkpoint(tmp_path / "c", other, its_optimizer)
    assert torch.equal(other.mask, model.mask)
    assert torch.equal(
        its_optimizer.state[its_beside]["exp_avg"], optimizer.state[beside]["exp_avg"]
    )


def test_nothing_is_copied_and_no_step_is_taken(tmp_path, monkeypatch):
    """An optimiser whose step needs a closure is kept too."""
    model = nn.Linear(2, 3)
    optimizer = torch.optim.LBFGS(model.parameters())
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    monkeypatch.setattr(torch.optim.LBFGS, "step", pytest.fail)
    assert load_checkpoint(tmp_path / "c", model, optimizer) == (0, {})


@pytest.mark.parametrize("part", ["step", "model", "optimizer", "position", "generators", "extra"])
def test_a_part_that_is_missing(tmp_path, part):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    state = torch.load(tmp_path / "c", weights_only=True)
    del state[part]
    _write(tmp_path / "c", state)
    with pytest.raises(ValueError, match="expected a checkpoint of format 1, got something else"):
        peek(tmp_path / "c")
    _write(tmp_path / "c", state | {"extra": ["no", "text"], part: None})
    with pytest.raises(ValueError, match="expected a checkpoint of format 1, got something else"):
        peek(tmp_path / "c")


def test_without_a_position_the_stream_stays_where_it_is(tmp_path):
    model, optimizer, stream = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    stream.position = (1, 2)
    load_checkpoint(tmp_path / "c", model, optimizer, stream=stream)
    assert stream.position == (1, 2)


def test_peek_reads_what_was_told_of_a_model(tmp_path):
    model, _, _ = new_run()
    save_model(tmp_path / "m.safetensors", model, VOCAB, VOCAB, {"step": 5, "loss": 0.1})
    assert peek(tmp_path / "m.safetensors") == {"step": 5, "loss": 0.1}
    (tmp_path / "n.safetensors").write_bytes(b"words")
    with pytest.raises(ValueError, match="expected a safetensors file, got another one"):
        peek(tmp_path / "n.safetensors")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        peek(tmp_path / "c")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "c")


@pytest.mark.parametrize(("tied", "shared"), [(True, True), (True, False), (False, False)])
def test_a_model_comes_back_with_its_vocabularies(tmp_path, tied, shared):
    config = Config(len(VOCAB), None if shared else len(VOCAB), **SIZES, tied=tied)
    model = Transformer(config).eval()
    save_model(tmp_path / "m", model, VOCAB, VOCAB, {"loss": 0.5})
    again, source_vocab, target_vocab = load_model(tmp_path / "m")
    assert again.config == config
    assert not again.training
    assert source_vocab.tokens == target_vocab.tokens == VOCAB.tokens
    batch = make_batch(pairs()[:5], VOCAB, VOCAB)
    inputs = batch.source, batch.source_lengths, batch.target_in
    assert torch.equal(again(*inputs), model(*inputs))
    assert (again.projection.weight is again.target_embedding.weight) == tied
    assert (again.source_embedding is again.target_embedding) == shared


def test_sub_words_come_back_too(tmp_path):
    subwords = SubwordVocabulary.from_sentences([p.source for p in pairs()], 20)
    model = Transformer(Config(len(subwords), len(VOCAB), **SIZES))
    save_model(tmp_path / "m", model, subwords, VOCAB)
    _, source_vocab, _ = load_model(tmp_path / "m")
    assert source_vocab.encode(["a", "g"]) == subwords.encode(["a", "g"])


def test_other_weights(tmp_path):
    from safetensors.torch import save_file

    save_file(nn.Linear(3, 5).state_dict(), tmp_path / "m")
    with pytest.raises(ValueError, match="expected a model that save_model has written"):
        load_model(tmp_path / "m")
    (tmp_path / "n").write_bytes(b"words")
    with pytest.raises(ValueError, match="expected a safetensors file, got another one"):
        load_model(tmp_path / "n")


def test_a_stream_where_none_was_kept_stays_where_it_is(tmp_path):
    model, optimizer, stream = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=3)
    for _ in range(2):
        next(stream)
    place = stream.position
    assert load_checkpoint(tmp_path / "c", model, optimizer, stream=stream) == (3, {})
    assert stream.position == place


def test_a_checkpoint_is_a_whole_zip_archive_with_its_checksum_as_comment(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    with zipfile.ZipFile(tmp_path / "c") as archive:
        assert archive.testzip() is None
        assert re.fullmatch(rb"[0-9a-f]{64}", archive.comment)


def test_another_model_is_told_by_what_differs(tmp_path):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    for sizes, name in (({"d_ff": 7}, "feed_forward"), ({"n_layers": 2}, "layers.1")):
        other, its_optimizer, _ = new_run(**sizes)
        with pytest.raises(
            ValueError, match=rf"{name}\S* has another size or type, or is in one of both"
        ):
            load_checkpoint(tmp_path / "c", other, its_optimizer)


@pytest.mark.parametrize(("devices", "given_back"), [(1, True), (2, False)])
def test_generators_of_gpus_come_back_where_as_many_are_there(
    tmp_path, monkeypatch, devices, given_back
):
    model, optimizer, _ = new_run()
    save_checkpoint(tmp_path / "c", model, optimizer, step=0)
    state = torch.load(tmp_path / "c", weights_only=True)
    state["generators"]["cuda"] = [torch.arange(16, dtype=torch.uint8)]
    _write(tmp_path / "c", state)
    set_to = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", set_to.extend)
    load_checkpoint(tmp_path / "c", model, optimizer)
    assert [one.tolist() for one in set_to] == [list(range(16))] * given_back


def test_bytes_are_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("fsync") or fsync(number))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("replace") or replace(*paths))
    write_whole(tmp_path / "file", lambda part: part.write_text("new"))
    assert done == ["fsync", "replace"]
