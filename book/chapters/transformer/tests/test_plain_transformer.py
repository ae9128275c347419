"""The notebook's plain Transformer: short, and the one whose runs are recorded."""

import json

import pytest

from chapters.transformer.experiments.plain_transformer import CELLS, NOTEBOOK, NUMBER, chapter
from lib.notebook import seed_everything
from measure.records import read_results

BUILT = ("clean-attention", "clean-layers", "clean-model")


@pytest.fixture(scope="module")
def sources():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]).splitlines() for cell in cells}


def test_it_is_short(sources):
    lines = [line for name in BUILT for line in sources[name] if line.strip()]
    assert len(lines) <= 80
    for name in CELLS:
        assert sum(bool(line.strip()) for line in sources[name]) <= 40
        assert max(map(len, sources[name])) <= 72


def test_its_cells_learn_and_write():
    book = chapter()
    seed_everything(0)
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 1}
    model = book["PlainTransformer"](len(book["source_vocab"]), len(book["target_vocab"]), **sizes)
    assert list(book["learn"](model, steps=3, batch_size=2)) == [1, 2, 3]
    source = book["torch"].tensor([[4, 5, 2]])
    [said] = book["write"](model, source, longest=5)
    assert len(said.split()) <= 5


def test_the_recorded_runs_hold_the_bars():
    record = read_results("plain_transformer")
    assert len(record["seed"]) == len(record["exact"]) >= 3
    assert min(record["exact"]) >= 0.95
    assert max(record["seconds"]) <= 60
    last = max(record["after"], key=int)
    for figures in record["after"].values():
        both = zip(figures["exact"], figures["but_numbers"], strict=True)
        assert all(exact <= but_numbers for exact, but_numbers in both)
    assert min(record["after"][last]["exact"]) > 0.9


@pytest.mark.parametrize(
    ("french", "without"),
    [
        ("quatre vingt dix sept pesos colombiens", "# pesos colombiens"),
        ("mardi 5 novembre 2 0 1 3", "mardi # novembre # "),
        ("il y a deux heures et dix pieds", "il y a # heures et # pieds"),
    ],
)
def test_numbers_are_taken_for_equal(french, without):
    assert NUMBER.sub("# ", french) == without
