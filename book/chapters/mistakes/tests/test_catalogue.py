"""The broken models: each is caught by the property that names it, and the right one by none."""

import inspect

import pytest

from chapters.mistakes import catalogue, in_attention, in_model, in_pieces
from chapters.mistakes.catalogue import COLUMNS, MISTAKES, find_mistake, findings_of, mistake_matrix
from chapters.mistakes.in_model import NoTargetMask
from chapters.mistakes.specimen import PlainAttention, Specimen
from checks.framework import Finding

# By name: all properties that fail, in the order of the table. "*" stops wherever it is run.
CAUGHT = {
    "RootOfHeads": "spread, copied",
    "RootOfDModel": "spread, copied",
    "EveryAxisTransposed": "*",
    "SoftmaxOverQueries": "weights, future, padding, stepwise, copied",
    "SoftmaxOverBatch": "weights, padding, alone, copied",
    "HeadsOnSlices": "count, copied",
    "HeadsByReshape": "future, padding, stepwise, copied",
    "WideHeads": "count, copied",
    "OutputTransposed": "sizes, copied",
    "InvertedMask": "weights, future, padding, depends, order, stepwise, copied",
    "MaskedAfterSoftmax": "weights, future, padding, stepwise, copied",
    "MinusBillion": "weights, half",
    "MinusInfinity": "weights",
    "AndForOr": "future, stepwise, copied",
    "NoTargetMask": "future, stepwise, copied",
    "MaskInTrainingOnly": "future, stepwise, copied",
    "QueriesMasked": "padding, copied",
    "CosineExponent": "shift, copied",
    "AlwaysPositionZero": "stepwise",
    "PositionsDropped": "order, copied",
    "TableAsAttribute": "moves",
    "LayersInAList": "saved, moves, learns, count, copied",
    "UsedBeforeAssigned": "*",
    "LoudTying": "first loss",
    "ScaledLogits": "first loss, copied",
    "UnbiasedNorm": "copied",
}


def caught(row: dict[str, Finding]) -> list[str]:
    return [name for name, finding in row.items() if not finding.held]


def test_the_right_model_has_every_property():
    found = findings_of(None)
    assert list(found) == list(COLUMNS)
    assert caught(found) == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_caught_by_the_property_that_names_it_and_by_these(mistake):
    """One row of the matrix a test: nothing is computed twice, wherever the tests run."""
    row = findings_of(mistake)
    assert mistake.property in caught(row)
    if not mistake.in_a_model:
        assert list(row) == [mistake.property]
    elif mistake.name == "OutputMadeInForward":
        found = set(caught(row))
        assert {"repeat", "saved", "learns", "count", "one batch", "copied"} <= found
        assert not {"sizes", "weights", "spread", "shift", "moves", "first loss"} & found
    elif CAUGHT[mistake.name] == "*":
        assert row["sizes"].number is None
        assert {"future", "stepwise", "one batch", "copied"} <= set(caught(row))
    else:
        assert caught(row) == CAUGHT[mistake.name].split(", ")


def test_matrix_has_a_row_for_each_mistake_in_a_model(monkeypatch):
    def found(mistake):
        return {"row": Finding(mistake.name, True, 0.0, "of this mistake")}

    monkeypatch.setattr(catalogue, "findings_of", found)
    matrix = mistake_matrix()
    assert matrix == {m.name: found(m) for m in MISTAKES if m.in_a_model}
    assert set(matrix) == {*CAUGHT, "OutputMadeInForward"}
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == 31


def test_every_broken_class_and_function_has_a_record():
    made = {
        name
        for module in (in_attention, in_model, in_pieces)
        for name, thing in vars(module).items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    }
    assert made == {mistake.name for mistake in MISTAKES}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_record_says_all_that_the_page_shows(mistake):
    text = (mistake.title, mistake.group, mistake.source, mistake.looks, mistake.why)
    assert all(len(part) > 2 for part in (*text, mistake.fixed)[1:])
    assert mistake.looks.endswith(".")
    assert mistake.why.endswith(".")
    code = mistake.code()
    compile(code, mistake.name, "exec")
    assert mistake.name in code.splitlines()[0]
    assert '"""' not in code
    assert "noqa" not in code
    assert find_mistake(mistake.name) is mistake


def test_names_and_pieces_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"expected the name of a mistake.*got 'Nothing'"):
        find_mistake("Nothing")
    with pytest.raises(ValueError, match="expected a mistake in a model, got the function bleu"):
        find_mistake("bleu_swapped").make(29, 23)


def test_the_code_on_the_page_shows_what_is_wrong():
    assert "divides by d_model - 1" in find_mistake("UnbiasedNorm").code()


def test_a_mistake_makes_a_model_that_is_broken_in_one_place():
    model = find_mistake("RootOfDModel").make(29, 23, d_model=12, n_heads=2, d_ff=5)
    layer = model.decoder["layers"][0]["cross_attention"].sublayer
    assert type(model) is Specimen
    assert type(layer) is find_mistake("RootOfDModel").broken
    assert model.config.d_model == 12
    assert type(find_mistake("NoTargetMask").make(29, 23)) is NoTargetMask
    assert find_mistake("NoTargetMask").attention is PlainAttention
