"""What is recorded of collective operations: its fits and predictions follow from its times."""

import pytest

from kit.distributed.communication import Link, Measured, fit_link, relative_errors
from kit.shared.recorded import read_results

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
