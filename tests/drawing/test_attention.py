"""The shared half of the attention layer's schematics: its shapes follow from the inputs'."""

import pytest

from drawing.attention import CELL, attend, projected, projections_of_head
from drawing.schematic import Schematic
from lib.attention import attention_weights
from tests.helpers import assert_shapes, normal

SIZES = {"words": 2, "states": 5, "d_one": 3, "d_other": 11, "d_k": 7, "d_v": 13}


@pytest.fixture
def drawn():
    s = Schematic(
        400, 566, alt="One sequence makes the queries; another makes the keys and values."
    )
    one = s.matrix("$X$", at=(76, 34), rows=2, columns=3, cell=CELL, shape=("words", "d_one"))
    other = s.matrix("$Y$", at=(266, 60), rows=5, columns=3, cell=CELL, shape=("states", "d_other"))
    q = projected(s, "Q", "query", one, y=126, columns=3)
    k = projected(s, "K", "key", other, y=126, columns=3)
    v = projected(s, "V", "value", other, y=126, columns=4)
    return s, attend(s, q, k, v, shade=[[0.2] * 5, [0.1, 0.9, 0.0, 0.0, 0.0]]), (q, k, v)


def test_shapes_are_those_of_the_layer(drawn):
    x, y = normal(2, 3), normal(5, 11)
    w_q, w_k, w_v = normal(3, 7), normal(11, 7), normal(11, 13)
    q, k, v = x @ w_q, y @ w_k, y @ w_v
    weights = attention_weights(q, k)
    output = weights @ v
    tensors = {"X": x, "Y": y, "Q": q, "K": k, "V": v, "W^Q": w_q, "W^K": w_k, "W^V": w_v}
    made = {"scores": weights, "weights": weights, "output": output}
    assert_shapes(drawn[0], tensors | made, SIZES)


def test_cells_count_rows_and_columns(drawn):
    _, output, (q, k, v) = drawn
    assert [(part.width, part.height) for part in (q, k, v, output)] == [
        (3 * CELL, 2 * CELL),
        (3 * CELL, 5 * CELL),
        (4 * CELL, 5 * CELL),
        (4 * CELL, 2 * CELL),
    ]


def test_projections_of_a_head_stand_above_its_attention():
    s = Schematic(400, 300, alt="Two heads, each with three projections of X.")
    x = s.matrix("$X$", at=(200, 60), rows=3, columns=6, cell=CELL, shape=("time", "d_one"))
    tensors, wanted = {"X": normal(3, 11)}, {}
    sizes = {"time": 3, "d_one": 11, "h": 2, "d_k": 5, "d_v": 7}
    for number, middle in ((2, 100), (5, 300)):
        attention = s.layer("attention", at=(middle, 220), width=180, name=f"attention {number}")
        projections_of_head(s, number, x, attention, y=140, d_k="h*d_k")
        for letter, d, away in (("Q", 10, -60), ("K", 10, 0), ("V", 7, 60)):
            tensors[f"W_{number}^{letter}"] = normal(11, d)
            wanted[f"W_{number}^{letter}"] = (middle + away, 140)
    assert_shapes(s, tensors, sizes)
    assert {part.name: part.centre for part in s.parts if part.name in wanted} == wanted
