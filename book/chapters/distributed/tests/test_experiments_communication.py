"""What is recorded of collective operations: its fits and predictions follow from its times."""

import pytest

from measure.costs import PASSES, Link, bytes_sent
from measure.observed import Measured, fit_link, relative_errors
from measure.records import read_results

RECORD = read_results("communication")


def rows(n, kind="all_reduce"):
    found = [row for row in RECORD["measurements"] if (row["n"], row["kind"]) == (n, kind)]
    return [Measured(n, row["nbytes"], row["seconds"], kind) for row in found]


@pytest.mark.parametrize("fit", RECORD["fits"], ids=lambda fit: str(fit["n"]))
def test_fits_are_those_of_the_recorded_times(fit):
    link = fit_link(rows(fit["n"]))
    assert link == pytest.approx((fit["latency"], fit["bandwidth"]))
    assert fit["errors"] == pytest.approx(relative_errors(rows(fit["n"]), link))


@pytest.mark.parametrize("one", RECORD["predictions"], ids=lambda one: f"{one['n']} {one['kind']}")
def test_predictions_are_those_of_the_first_fit(one):
    first = next(fit for fit in RECORD["fits"] if fit["n"] == one["from"])
    link = Link(first["latency"], first["bandwidth"])
    errors = relative_errors(rows(one["n"], one["kind"]), link)
    assert one["errors"] == pytest.approx(errors)
    assert one["largest_size"] == pytest.approx(max(map(abs, errors)))


def test_sizes_span_what_a_step_sends():
    sizes = [one.nbytes for one in rows(2)]
    assert len(sizes) >= 8
    assert sizes[0] <= 1024
    assert sizes[-1] >= 2**26


@pytest.mark.parametrize("one", RECORD["sent"], ids=lambda one: str(one["n"]))
def test_ranks_send_what_the_formula_says_but_for_gloos_reduce_scatter(one):
    """Each reduce-scatter of gloo is an all-reduce: it sends twice as much as a ring needs to."""
    counted, formula = one["counted"], one["formula"]
    assert formula == {kind: bytes_sent(kind, 1, one["n"]) for kind in PASSES}
    for kind in ("all_reduce", "all_gather"):
        assert counted[kind] == pytest.approx(formula[kind], rel=0.03)
    assert counted["reduce_scatter"] == pytest.approx(formula["all_reduce"], rel=0.03)
