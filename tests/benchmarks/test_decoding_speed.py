"""Decoding beside Hugging Face: the script runs, with tiny sizes, and what was recorded of it."""

import pytest
import torch

from benchmarks import decoding_speed
from benchmarks.decoding_speed import ONE, bench, contenders, write_all
from lib.data import EOS
from measure.records import read_results

TINY = decoding_speed.Size(8, 2, 2, 11, 23, 3, 5, 5, dropout=0.0)
OURS = {"lib", "lib, by columns", "lib, 8 bits"}
RECORD = read_results("decoding_speed")
FOUND = {
    (run["work"], size): found["rows"]
    for run in RECORD["runs"]
    for size, found in run["found"].items()
}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(decoding_speed, "SIZES", {"tiny": TINY})
    monkeypatch.setattr(decoding_speed, "FILE", [(3, 2), (5, 4)])
    work = {"greedy": [("tiny", 4, 1)], "beam": [("tiny", 3, 2)], "file": [("tiny", None, 2)]}
    monkeypatch.setattr(decoding_speed, "WORK", work)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_work_is_recorded(tiny, tmp_path, capsys):
    decoding_speed.main(["--repeats", "2", "--into", str(tmp_path)])
    runs = read_results("decoding_speed", [tmp_path])["runs"]
    assert [run["work"] for run in runs] == ["greedy", "beam", "file"]
    for run in runs:
        found = run["found"]["tiny"]
        assert found["rows"].keys() - {ONE} == OURS
        assert found["rows"][found["1.00"]]["ratio"] == found["fastest"][ONE] == 1
        assert found["fastest"].keys() == found["rows"].keys()
    assert runs[0]["found"]["tiny"]["batches"] == [[5, 1]]
    assert runs[2]["found"]["tiny"]["batches"] == [[3, 2], [5, 4]]


def test_another_work_adds_to_the_record(tiny, tmp_path):
    for work in ("file", "greedy"):
        decoding_speed.main(["--repeats", "2", "--into", str(tmp_path), "--only", work])
    runs = read_results("decoding_speed", [tmp_path])["runs"]
    assert [run["work"] for run in runs] == ["greedy", "file"]


@pytest.mark.parametrize("beam", [1, 3])
def test_everyone_writes_as_many_tokens_as_asked_and_never_ends(beam):
    torch.manual_seed(0)
    source, lengths = torch.randint(4, TINY.vocab, (2, 5)), torch.full((2,), 5)
    written = {}
    for name, model in contenders(TINY).items():
        tokens = (
            model.write(source, lengths, 6) if beam == 1 else model.search(source, lengths, 6, beam)
        )
        assert tokens.shape[1] in (6, 7), name  # some give the first token, BOS, back
        assert not (tokens == EOS).any(), name
        written[name] = tokens
    assert written.keys() - {ONE} == OURS
    assert torch.equal(written["lib"], written["lib, by columns"])


@pytest.mark.parametrize(("beam", "called"), [(1, "write"), (2, "search")])
def test_every_batch_is_written(beam, called):
    class Listening:
        def __init__(self):
            self.heard = []

        def write(self, source, lengths, count):
            self.heard.append(("write", len(source), count))

        def search(self, source, lengths, count, beam):
            self.heard.append(("search", len(source), count))

    model = Listening()
    batches = [(torch.zeros(n, 5), torch.full((n,), 5), n + 1) for n in (2, 3)]
    write_all(model, batches, beam)
    assert model.heard == [(called, 2, 3), (called, 3, 4)]


def test_the_record_has_every_size_of_its_works():
    assert {
        (work, size) for work, sizes in decoding_speed.WORK.items() for size, *_ in sizes
    } == FOUND.keys()
    for rows in FOUND.values():
        assert rows.keys() == OURS | {ONE}
        assert rows[ONE]["ratio"] == 1


def test_what_was_recorded_keeps_the_bars():
    assert FOUND["greedy", "base"]["lib, 8 bits"]["ratio"] <= 0.40
    assert FOUND["beam", "base"]["lib, 8 bits"]["ratio"] <= 0.65
    assert FOUND["file", "medium"]["lib"]["ratio"] <= 1.11
    for size in ("medium", "base"):
        assert FOUND["greedy", size]["lib, 8 bits"]["ratio"] < FOUND["greedy", size]["lib"]["ratio"]


def test_a_ratio_is_that_of_turns_that_stood_side_by_side():
    rows = bench.compared("a", {"a": [1.0, 10.0, 2.0], "b": [0.5, 5.0, 1.0]})["rows"]
    assert rows["b"]["ratio"] == 0.5
    assert rows["b"]["quartiles"] == [0.5, 0.5]
