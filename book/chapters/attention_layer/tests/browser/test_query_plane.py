"""The query plane: its arithmetic against torch, and its points by mouse, by finger and by keys."""

import re

import pytest
import torch
from playwright.sync_api import expect

from chapters.attention_layer.query_plane import LIMIT, STARTS, VALUES, QueryPlane
from tests.browser.test_touch import Finger, middle

pytestmark = pytest.mark.browser
CALL = "(x) => own.lookUp(x.query, x.key, x.value, x.divisor)"
LONG = "padding-bottom:2000px"  # so that the page can scroll


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def point(page, name: str):
    return page.get_by_role("slider", name=name, exact=True)


def place(page, name: str) -> list[float]:
    """Where a point stands, as it is read out."""
    return [number(x) for x in point(page, name).get_attribute("aria-valuetext").split(",")]


def places(page, letter: str) -> torch.Tensor:
    """All points that are shown: of the query, of the keys, or of the values."""
    names = page.locator(f".qp-{letter}.qp-handle:visible").evaluate_all(
        "(all) => all.map((node) => node.ariaLabel)"
    )
    return torch.tensor([place(page, name) for name in names], dtype=torch.float64)


def table(page) -> torch.Tensor:
    """Rows of what is shown of each key: along q, score, exponential, weight."""
    rows = page.locator(".qp-table tbody tr:visible").all()
    cells = [row.locator("td:not(.qp-divided)").all_inner_texts() for row in rows]
    return torch.tensor([[number(x) for x in row] for row in cells], dtype=torch.float64)


def output(page) -> torch.Tensor:
    said = page.locator(".qp-mixing .qp-note").inner_text()
    found = re.search(r"\((.*), (.*)\)$", said).groups()
    return torch.tensor([number(x) for x in found], dtype=torch.float64)


def assert_shown(page, divisor: float = 1.0) -> None:
    """Every number in the table and the output are those of torch for the points that are shown."""
    query, key, value = (places(page, letter) for letter in ("query", "key", "value"))
    scores = key @ query[0]
    weights = (scores / divisor).softmax(-1)
    along = scores / query[0].norm()
    wanted = torch.stack([along, scores, (scores / divisor).exp(), weights], dim=1)
    torch.testing.assert_close(table(page), wanted, atol=0.00501, rtol=0.0)
    torch.testing.assert_close(output(page), weights @ value, atol=0.00501, rtol=0.0)


@pytest.fixture(scope="module")
def draws() -> list[dict]:
    """Queries, keys and values over the whole plane, with every number of keys."""
    generator = torch.Generator().manual_seed(0)

    def vectors(rows):
        return (2 * LIMIT * torch.rand(rows, 2, generator=generator).double() - LIMIT).tolist()

    return [
        {"query": vectors(1)[0], "key": vectors(n), "value": vectors(n), "divisor": divisor}
        for n in (2, 3, 4, 5)
        for divisor in (0.1, 1.0, 2**0.5, 14.0)
        for _ in range(5)
    ]


def test_arithmetic_is_torchs(stage, draws):
    page = stage.functions(QueryPlane())
    for x in draws:
        got = page.evaluate(CALL, x)
        query, key, value = (
            torch.tensor(x[name], dtype=torch.float64) for name in ("query", "key", "value")
        )
        scores = key @ query
        weights = (scores / x["divisor"]).softmax(-1)
        for name, wanted in {
            "length": query.norm(),
            "products": scores,
            "along": key @ (query / query.norm()),
            "scores": scores / x["divisor"],
            "powers": (scores / x["divisor"]).exp(),
            "weights": weights,
            "output": weights @ value,
        }.items():
            torch.testing.assert_close(
                torch.tensor(got[name], dtype=torch.float64), wanted, atol=1e-5, rtol=1e-5
            )


def test_scaled_is_the_formula_of_the_paper(stage, draws):
    page = stage.functions(QueryPlane())
    for x in draws[::4]:
        got = page.evaluate(CALL, x | {"divisor": 2**0.5})["output"]
        query, key, value = (torch.tensor(x[name]) for name in ("query", "key", "value"))
        wanted = torch.nn.functional.scaled_dot_product_attention(query[None], key, value)[0]
        torch.testing.assert_close(torch.tensor(got), wanted, atol=1e-5, rtol=1e-5)


def test_a_query_of_length_0_scores_every_key_0(stage):
    page = stage.show(QueryPlane([0, 0]))
    expect(page.locator(".qp-reading")).to_have_text(
        "A query of 0 scores every key 0: the weights are equal, and the output is the mean of the "
        "values."
    )
    assert page.locator(".qp-table tbody td:first-of-type").all_inner_texts()[:3] == ["–"] * 3
    mean = torch.tensor(VALUES[:3], dtype=torch.float64).mean(dim=0)
    torch.testing.assert_close(output(page), mean, atol=0.00501, rtol=0.0)


@pytest.mark.parametrize(
    ("points", "corners"),
    [
        ([[0, 0], [2, 0], [1, 1], [0, 2], [0.5, 0.5]], [[0, 0], [2, 0], [0, 2]]),
        ([[0, 0], [1, 0], [2, 0], [0, 2]], [[0, 0], [2, 0], [0, 2]]),  # one on an edge
        ([[0, 0], [2, 1]], [[0, 0], [2, 1]]),
        ([[0, 0], [1, 1], [2, 2]], [[0, 0], [2, 2]]),  # all on a line
        ([[1, 1], [1, 1], [1, 1]], [[1, 1]]),  # all in one place
    ],
)
def test_hull_has_the_outer_points_as_corners(stage, points, corners):
    page = stage.functions(QueryPlane())
    found = page.evaluate("(points) => own.hull(points)", points)
    assert set(map(tuple, found)) == set(map(tuple, corners))


def test_output_never_leaves_the_hull(stage, draws):
    """Left of every edge, all around; the hull itself holds every value."""
    page = stage.functions(QueryPlane())
    call = "(x) => [own.lookUp(x.query, x.key, x.value, x.divisor).output, own.hull(x.value)]"
    for x in draws:
        inside, corners = page.evaluate(call, x)
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            for c in (inside, *x["value"]):
                turn = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
                assert turn > -1e-9, x


def test_every_control_changes_what_it_says(stage):
    page = stage.show(QueryPlane())
    assert_shown(page)
    page.get_by_label("Number of keys").press("End")
    assert len(table(page)) == 5
    assert_shown(page)
    expect(page.locator(".qp-divided:visible")).to_have_count(0)
    page.get_by_label("Divide by √d_k").check()
    assert_shown(page, 2**0.5)
    page.get_by_label("Temperature").press("End")
    assert_shown(page, 10 * 2**0.5)
    expect(page.locator("th.qp-divided")).to_have_text("÷ (√2 · 10)")
    divided = page.locator("tbody td.qp-divided").nth(2).inner_text()
    assert number(divided) == pytest.approx(2 / (10 * 2**0.5), abs=0.005)
    page.get_by_label("Number of keys").press("Home")
    assert len(table(page)) == 2
    assert_shown(page, 10 * 2**0.5)
    page.get_by_role("button", name="Reset").click()
    assert_shown(page)
    assert len(table(page)) == 3


@pytest.mark.parametrize(
    ("name", "keys", "end"),
    [
        ("query q", ["ArrowRight"], [1.1, 1.0]),
        ("query q", ["ArrowLeft", "ArrowDown"], [0.9, 0.9]),
        ("key k2", ["Shift+ArrowUp", "ArrowUp"], [1.0, -0.4]),
        ("value v3", ["Shift+ArrowRight"] * 3, [1.5, 2.2]),
        ("value v3", ["Shift+ArrowUp"] * 3, [0.0, 3.0]),  # as far as the plane goes
    ],
)
def test_arrow_keys_move_a_point(stage, name, keys, end):
    page = stage.show(QueryPlane())
    point(page, name).focus()
    for key in keys:
        page.keyboard.press(key)
    assert place(page, name) == pytest.approx(end)
    assert_shown(page)
    expect(page.get_by_role("status")).to_contain_text(re.compile("Weights: k1 .* Output at "))
    page.keyboard.press("Control+ArrowRight")  # of the browser or the screen reader
    assert place(page, name) == pytest.approx(end)


def test_points_come_in_their_order_and_only_those_shown(stage):
    page = stage.show(QueryPlane(key=[[1, 0], [0, 1]], value=[[1, 1], [2, 2]]))
    page.get_by_role("button", name="A long key").focus()
    names = []
    for _ in range(5):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.ariaLabel"))
    assert names == ["key k1", "key k2", "query q", "value v1", "value v2"]
    where = page.locator(".qp-where:visible")
    expect(where).to_have_text("v₂ (2.00, 2.00)")


@pytest.mark.parametrize("name", ["query q", "key k1", "value v2"])
def test_mouse_drags_a_point_on_the_grid(stage, name):
    page = stage.show(QueryPlane())
    before = place(page, name)
    unit = page.locator(".qp-plane").first.bounding_box()["width"] / (2 * (LIMIT + 0.45))
    x, y = middle(point(page, name).locator(".bw-grip"))
    page.mouse.move(x + 6, y - 5)  # not in its middle: the point does not jump
    page.mouse.down()
    assert page.evaluate("document.activeElement.ariaLabel") == name
    page.mouse.move(x + 6 + 0.72 * unit, y - 5 + 1.31 * unit, steps=4)
    page.mouse.up()
    wanted = [round(before[0] + 0.72, 1), round(before[1] - 1.31, 1)]
    assert place(page, name) == pytest.approx([wanted[0], max(-LIMIT, wanted[1])])
    assert_shown(page)
    page.mouse.move(x, y)  # the button is up: nothing follows
    assert place(page, name) == pytest.approx([wanted[0], max(-LIMIT, wanted[1])])


def test_a_point_stays_within_the_plane(stage):
    page = stage.show(QueryPlane())
    page.mouse.move(*middle(point(page, "key k3").locator(".bw-grip")))
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    assert place(page, "key k3") == [-LIMIT, LIMIT]


@pytest.mark.parametrize("name", ["query q", "value v1"])
def test_a_finger_moves_a_point_and_not_the_page(phone, name):
    page = phone.show(QueryPlane(), size=LONG)
    grip = point(page, name).locator(".bw-grip")
    grip.scroll_into_view_if_needed()
    scrolled, before = page.evaluate("scrollY"), place(page, name)
    Finger(page).drag(middle(grip), (40, -60))
    after = place(page, name)
    assert after[0] > before[0] + 0.5
    assert after[1] > before[1] + 0.9
    assert page.evaluate("scrollY") == scrolled
    assert_shown(page)


def test_a_finger_beside_the_points_scrolls_the_page(phone):
    page = phone.show(QueryPlane(), size=LONG)
    box = page.locator(".qp-plane").first.bounding_box()
    Finger(page).drag((box["x"] + 30, box["y"] + 0.8 * box["height"]), (0, -200), steps=12)
    page.wait_for_function("() => scrollY > 50", timeout=2000)
    assert place(page, "query q") == [1.0, 1.0]


def test_every_point_is_a_target_for_a_finger(phone):
    page = phone.show(QueryPlane())
    for grip in page.locator(".bw-grip:visible").all():
        box = grip.bounding_box()
        assert min(box["width"], box["height"]) >= 24


@pytest.mark.parametrize(
    ("name", "weights", "said"),
    [
        (
            "A clear winner",
            [0.98, 0.01, 0.01],
            "k₁ wins with a weight of 0.98: it reaches furthest",
        ),
        ("A tie", [0.5, 0.5, 0.0], "k₁ and k₂ tie: their projections on q are equal"),
        ("Right angles", [0.33] * 3, "Every key is at a right angle to q, so every score is 0"),
        ("A long key", [0.18, 0.77, 0.05], "k₁ points more nearly along q, but k₂ reaches further"),
    ],
)
def test_starts_show_what_their_names_say(stage, name, weights, said):
    page = stage.show(QueryPlane([0, 0], scaled=True, temperature=0.1))
    page.get_by_role("button", name=name).click()
    [query, keys] = next([query, keys] for start, query, keys in STARTS if start == name)
    assert places(page, "query")[0].tolist() == list(query)
    assert places(page, "key").tolist() == [list(key) for key in keys]
    assert_shown(page)  # neither divided nor cold
    assert table(page)[:, 3].tolist() == pytest.approx(weights, abs=0.001)
    expect(page.locator(".qp-reading")).to_contain_text(said)
    torch.testing.assert_close(places(page, "value"), torch.tensor(VALUES[:3]).double())


def test_projections_are_drawn_at_right_angles(stage):
    """From each key a line falls on the query's line, and meets it where the table says."""
    page = stage.show(QueryPlane([2, 1], [[0.5, 2], [-1, -1.5]], [[1, 1], [2, 2]]))
    box = page.locator(".qp-plane").first.get_attribute("viewBox").split()
    half, unit = float(box[2]) / 2, float(box[2]) / 2 / (LIMIT + 0.45)
    direction = places(page, "query")[0] / places(page, "query")[0].norm()
    drops = page.locator(".qp-drop:not([hidden])")
    for drop, key, along in zip(drops.all(), places(page, "key"), table(page)[:, 0], strict=True):
        ends = re.findall(r"[-\d.e]+", drop.get_attribute("d"))
        ends = (torch.tensor([float(x) for x in ends]).double().view(2, 2) - half) / unit
        start, foot = ends * torch.tensor([1.0, -1.0])
        torch.testing.assert_close(start, key, atol=1e-5, rtol=0.0)
        assert (foot - start) @ direction == pytest.approx(0, abs=1e-5)
        assert foot @ direction == pytest.approx(along.item(), abs=0.00501)


AXES = ["clue", "living", "animal", "equipment"]
# The output near one value, between two, in a corner, and on top of a value
MIXTURES = [
    ([3, 0], [[1, 1], [0, 1], [1, 0]], [[1, 1], [0, 0], [1, -1]]),
    ([2, 0], [[1, 0], [1, 0]], [[-1, 0], [1, 0]]),
    ([3, 0], [[3, 0], [0, 0]], [[3, 3], [-3, 0]]),
    ([3, 0], [[3, 0], [0, 0]], [[0, 0], [1, 0]]),
]


@pytest.mark.parametrize(("query", "key", "value"), MIXTURES)
def test_the_outputs_name_covers_no_value_and_stays_inside(stage, query, key, value):
    page = stage.show(QueryPlane(query, key, value, AXES))

    def box(locator):
        found = locator.bounding_box()
        return found["x"], found["y"], found["x"] + found["width"], found["y"] + found["height"]

    left, top, right, bottom = box(page.locator(".qp-output .qp-name"))
    for marker in page.locator(".qp-value.qp-handle:visible .qp-dot").all():
        a, b, c, d = box(marker)
        assert c <= left or a >= right or d <= top + 3 or b >= bottom - 3  # 3: above the letters
    plane = box(page.locator(".qp-mixing .qp-plane"))
    assert plane[0] <= left < right <= plane[2]
    assert plane[1] <= top < bottom <= plane[3]


def test_planes_stand_side_by_side_on_a_phone(phone):
    page = phone.show(QueryPlane())
    looking, mixing = (plane.bounding_box() for plane in page.locator(".qp-plane").all())
    assert looking["y"] == mixing["y"]
    assert looking["x"] + looking["width"] <= mixing["x"]


def test_without_division_there_are_no_controls_for_it(stage):
    page = stage.show(QueryPlane(divides=False))
    expect(page.get_by_label("Number of keys")).to_be_visible()
    expect(page.get_by_label("Temperature")).to_have_count(0)
    expect(page.get_by_label("Divide by")).to_have_count(0)
    assert_shown(page)


def test_the_axes_have_their_names(stage):
    page = stage.show(QueryPlane(axes=AXES))
    assert page.locator(".qp-of").all_text_contents() == AXES


def test_lines_are_as_thick_as_the_weights(stage):
    page = stage.show(QueryPlane())
    lines = page.locator(".qp-share:not([hidden])").evaluate_all(
        "(all) => all.map((line) => +line.getAttribute('stroke-width'))"
    )
    weights = torch.tensor([1.0, 0.0, 2.0]).softmax(0)
    assert lines == pytest.approx((12 * weights).tolist(), abs=1e-4)


def test_the_stripe_follows_the_key_that_the_reader_points_at(stage):
    page = stage.show(QueryPlane())
    note = page.locator(".qp-looking .qp-note")
    wanted = "{} reaches {} along q (the wide stripe); times |q| = 1.41, its score is {}."
    expect(note).to_have_text(wanted.format("k₃", "1.41", "2.00"))
    for name in ("key k1", "value v1"):
        point(page, name).hover()
        expect(note).to_have_text(wanted.format("k₁", "0.71", "1.00"))
        expect(page.locator("tr.qp-shown th")).to_have_text("k₁")
        page.mouse.move(5, 5)
        expect(note).to_have_text(wanted.format("k₃", "1.41", "2.00"))


def test_an_address_sets_the_points_and_the_link_says_only_what_moved(stage):
    query = "?query_plane.query=2,-1&query_plane.key=1,2,3&query_plane.value=9,9"
    page = stage.show(QueryPlane(), query=query, permissions=["clipboard-read", "clipboard-write"])
    assert places(page, "query").tolist() == [[2.0, -1.0]]
    assert places(page, "key").tolist() == [[1.0, 0.0], [1.0, -1.0], [0.0, 2.0]]
    point(page, "value v2").press("ArrowUp")
    for key in ("ArrowUp", "ArrowDown"):  # and back again
        point(page, "key k1").press(key)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "query_plane.query=2%2C-1" in link
    assert "query_plane.value=-2%2C-1.5%2C2%2C-1.4%2C" in link
    assert "query_plane.key" not in link
    page.goto(link)
    assert place(page, "value v2") == [2.0, -1.4]


def test_kernel_hears_where_a_point_was_moved(stage):
    page = stage.show(QueryPlane(), via="module")
    point(page, "key k2").press("ArrowRight")
    saved = page.evaluate("window.saved.at(-1)")
    widget = QueryPlane()
    widget.key = saved["key"]
    assert widget.key[:3] == [[1.0, 0.0], [1.1, -1.0], [0.0, 2.0]]
