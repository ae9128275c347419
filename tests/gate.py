"""Which of many cases `make test` runs; `make test-all` runs the others too, marked slow."""

from collections.abc import Iterable

import pytest

PHONE, DESKTOP = 390, 1200
# Each theme and each width; what goes wrong in one of the other pairs hardly ever does so alone.
LOOKS = [
    ("light", DESKTOP),
    ("dark", PHONE),
    pytest.param("light", PHONE, marks=pytest.mark.slow),
    pytest.param("dark", DESKTOP, marks=pytest.mark.slow),
]
each_look = pytest.mark.parametrize(("theme", "width"), LOOKS)


def sampled(one_in: int) -> pytest.MarkDecorator:
    """The test gets a `stride` through its cases: every so many in `make test`, all at night."""
    everything = pytest.param(1, id="all", marks=pytest.mark.slow)
    return pytest.mark.parametrize(
        "stride", [pytest.param(one_in, id=f"1 in {one_in}"), everything]
    )


def some(cases: Iterable, one_in: int) -> list:
    """The cases, for `parametrize`: of so many, `make test` takes the first."""
    return [
        pytest.param(case, marks=pytest.mark.slow) if number % one_in else case
        for number, case in enumerate(cases)
    ]


# One of each way to draw and to ask: tables, a walk through maps with a line to type in, a grid
# and its picture, a canvas, points that are dragged, training.
KINDS = {
    "complexity_explorer",
    "forward_tracer",
    "laboratory",
    "mask_builder",
    "position_explorer",
    "tied_softmax",
}


def some_widgets(samples: Iterable[str]) -> list:
    """The names of widgets, for `parametrize`; `make check` runs all tests of a chapter's own."""
    return [
        name if name in KINDS else pytest.param(name, marks=[pytest.mark.slow, pytest.mark.widget])
        for name in sorted(samples)
    ]
