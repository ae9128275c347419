"""The complexity explorer: every number that it shows, against measure.costs."""

import itertools

import pytest
from playwright.sync_api import expect

from chapters.complexity.complexity_explorer import (
    DIMENSIONS,
    LAYERS,
    LENGTHS,
    RADII,
    ComplexityExplorer,
)
from measure.costs import (
    convolution_cost,
    recurrent_cost,
    restricted_cost,
    self_attention_cost,
)
from tests.gate import sampled

pytestmark = pytest.mark.browser
FIELDS = ("flops", "memory", "sequential", "path")
LIMIT = 2**20


@pytest.fixture
def functions(stage):
    return stage.functions(ComplexityExplorer())


def wanted(n, d, k, radius, dilated, projections) -> dict:
    return {
        "attention": self_attention_cost(n, d, projections=projections),
        "recurrent": recurrent_cost(n, d),
        "convolution": convolution_cost(n, d, k, dilated=dilated),
        "restricted": restricted_cost(n, d, radius, projections=projections),
    }


def states() -> list[dict]:
    """Every length, every width, kernel and radius with some of the others."""
    sizes = itertools.product(LENGTHS, DIMENSIONS[::4], (2, 3, 7, 15), RADII[::2])
    flags = itertools.cycle(itertools.product((False, True), repeat=2))
    names = ("n", "d", "k", "radius", "dilated", "projections")
    found = [
        dict(zip(names, (*size, *flag), strict=True))
        for size, flag in zip(sizes, flags, strict=False)
    ]
    found += [dict(zip(names, (96, d, 4, 8, False, True), strict=True)) for d in DIMENSIONS]
    found += [dict(zip(names, (96, 64, k, 8, True, False), strict=True)) for k in range(2, 16)]
    found += [dict(zip(names, (96, 64, 4, r, True, False), strict=True)) for r in RADII]
    return found


@sampled(10)
def test_costs_are_exactly_those_of_the_library(functions, stride):
    every = states()[::stride]
    got = functions.evaluate("(all) => all.map((state) => own.costs(state))", every)
    for state, found in zip(every, got, strict=True):
        for layer, cost in wanted(**state).items():
            assert found[layer] == {field: getattr(cost, field) for field in FIELDS}, (layer, state)


@pytest.mark.parametrize("projections", [False, True])
@pytest.mark.parametrize(("d", "k", "radius"), [(16, 2, 1), (512, 3, 16), (96, 9, 128)])
def test_crossings_are_where_the_work_crosses(functions, d, k, radius, projections):
    state = {"d": d, "k": k, "radius": radius, "dilated": False, "projections": projections}
    for other in LAYERS[1:]:
        at = functions.evaluate("([state, other]) => own.crossing(state, other)", [state, other])

        def more(n, other=other):
            costs = wanted(n, **state)
            return costs["attention"].flops > costs[other].flops

        assert more(at)
        assert at == 1 or not any(more(n) for n in range(1, at))
    if not projections:
        crossing = functions.evaluate("(state) => own.crossing(state, 'recurrent')", state)
        assert crossing == d, "n = d"


def test_short_numbers_keep_their_first_three_digits(functions):
    texts = functions.evaluate(
        "(all) => all.map(own.brief)", [7, 9999, 10_000, 123_456, 999_999, 4.19e6, 7e13]
    )
    plain = [text.replace("\u202f", " ") for text in texts]
    assert plain == ["7", "9 999", "10 k", "123 k", "1 M", "4.19 M", "70 T"]


def test_ticks_are_powers_of_ten(functions):
    ticks = functions.evaluate("own.decades(0.9, 4.8, 6)")
    assert [(place, text.replace("\u202f", " ")) for place, text in ticks] == [
        (1, "10"),
        (2, "100"),
        (3, "1 000"),
        (4, "10 k"),
    ]
    assert len(functions.evaluate("own.decades(3, 14, 6)")) <= 6


def row(page, number: int) -> list[str]:
    cells = page.locator(".ce-table tbody tr").nth(number).locator("td").all_inner_texts()
    return [text.replace("\u202f", " ") for text in cells]


def test_table_and_sliders(stage):
    page = stage.show(ComplexityExplorer(64, 16, k=3, radius=4))
    assert row(page, 0) == ["262 k", "4 096", "✓ 1", "✓ 1"]
    assert row(page, 1) == ["65 k", "1 024", "64", "63"]
    assert row(page, 2) == ["98.3 k", "1 024", "✓ 1", "32"]
    assert row(page, 3) == ["✓ 35.6 k", "✓ 556", "✓ 1", "16"]
    page.get_by_role("slider", name="Length n").press("ArrowRight")
    assert row(page, 1) == ["97.8 k", "1 536", "96", "95"]


def test_crossings_are_said_and_follow_the_width(stage):
    page = stage.show(ComplexityExplorer(64, 512, k=3, radius=16))
    words = page.locator(".ce-crossings")
    expect(words).to_have_text(
        "Self-attention takes more work than recurrent from n = 512, "
        "convolution from n = 769, restricted from n = 18."
    )
    page.get_by_role("slider", name="Dimension d").press("ArrowLeft")
    expect(words).to_contain_text("recurrent from n = 384")
    page.get_by_role("checkbox", name="Count attention’s projections").check()
    expect(words).to_contain_text("recurrent at every length, convolution at every length")


def test_pick_is_judged_by_all_four_measures(stage):
    page = stage.show(ComplexityExplorer(64, 512, k=3, radius=16))
    lines = page.locator(".ce-verdict li")
    expect(page.locator(".ce-verdict")).to_be_hidden()
    page.get_by_role("radio", name="Recurrent").check()
    expect(lines).to_have_count(4)
    costs = wanted(64, 512, 3, 16, False, False)
    for place, (field, name) in enumerate(
        zip(FIELDS, ("Work", "Memory", "Sequential operations", "Longest path"), strict=True)
    ):
        least = min(getattr(cost, field) for cost in costs.values())
        ratio = float(f"{getattr(costs['recurrent'], field) / least:.2g}")
        expect(lines.nth(place)).to_contain_text(f"✗ {name}: {ratio:g} times that of")
    page.get_by_role("radio", name="Self-attention").check()
    expect(lines.nth(2)).to_have_text(
        "✓ Sequential operations: the least of the four, as with convolution, restricted."
    )
    expect(lines.nth(3)).to_have_text("✓ Longest path: the least of the four.")
    expect(page.locator(".ce-picked th")).to_have_text("Self-attention")


def test_curves_show_what_is_asked_for(stage):
    page = stage.show(ComplexityExplorer(64, 512, k=4, radius=16))
    described = page.locator(".bw-lines desc")
    expect(page.locator(".bw-axis-y")).to_have_text("FLOPs of one layer")
    page.get_by_role("radio", name="Path").check()
    expect(page.locator(".bw-axis-y")).to_have_text("layers or steps between first and last")
    expect(described).to_contain_text("Convolution: at length 8 3, at 64 21,")
    page.get_by_role("checkbox", name="Dilated convolution").check()
    expect(described).to_contain_text("Convolution: at length 8 2, at 64 3,")
    page.get_by_role("slider", name="Kernel k").press("ArrowLeft")
    expect(described).to_contain_text("Convolution: at length 8 2, at 64 4,")
    page.get_by_role("slider", name="Window r").press("ArrowRight")
    expect(described).to_contain_text("at 64 2, at 65536 2")
    assert page.locator(".bw-mark-current").count() == 4
