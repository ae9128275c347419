"""The position explorer: its tables, curves and turns against lib.positions."""

import pytest
import torch

from chapters.positions.position_explorer import PositionExplorer
from checks.shifts import shift_matrix
from lib.positions import ALiBi, Rotary, sinusoidal_table

pytestmark = pytest.mark.browser
CLOSE = {"atol": 1e-5, "rtol": 0.0}
SIZES = [(4, 2, 10), (16, 19, 100), (512, 64, 10_000), (64, 37, 1_000_000)]  # width, length, base


@pytest.fixture
def functions(stage):
    return stage.functions(PositionExplorer())


def table(functions, **state):
    got = functions.evaluate("(state) => own.table(state, 8)", state)
    return torch.tensor(got, dtype=torch.float64)


@pytest.mark.parametrize(("width", "length", "base"), [*SIZES, (7, 13, 10_000)])
def test_sinusoidal_table(functions, width, length, base):
    got = table(functions, scheme="sinusoidal", d_model=width, length=length, base=base, head=1)
    wanted = sinusoidal_table(length, width, base=float(base), dtype=torch.float64)
    torch.testing.assert_close(got, wanted, **CLOSE)


@pytest.mark.parametrize(("width", "length", "base"), SIZES)
def test_rotary_table(functions, width, length, base):
    got = table(functions, scheme="rotary", d_model=width, length=length, base=base, head=1)
    rotary = Rotary(width, base=float(base)).double()
    wanted = rotary.rotate(torch.ones(length, width, dtype=torch.float64))
    torch.testing.assert_close(got, wanted, **CLOSE)


@pytest.mark.parametrize("head", [1, 5, 8])
def test_alibi_bias(functions, head):
    got = table(functions, scheme="alibi", d_model=4, length=23, base=10, head=head)
    torch.testing.assert_close(got, ALiBi(8).double().bias(23, 23)[head - 1], **CLOSE)


@pytest.mark.parametrize(("width", "length", "base"), SIZES)
@pytest.mark.parametrize("k", [0, 1, 31])
def test_shift_is_that_of_the_matrix(functions, width, length, base, k):
    rows = sinusoidal_table(length, width, base=float(base), dtype=torch.float64)
    code = "([row, k, base, scheme]) => own.shifted(row, k, base, scheme)"
    moved = functions.evaluate(code, [rows[-1].tolist(), k, base, "sinusoidal"])
    wanted = shift_matrix(k, width, base=float(base)) @ rows[-1]
    torch.testing.assert_close(torch.tensor(moved, dtype=torch.float64), wanted, **CLOSE)

    rotary = Rotary(width, base=float(base)).double()
    query = rows[-1:].cos()
    turned = functions.evaluate(code, [query[0].tolist(), k, base, "rotary"])
    wanted = rotary.rotate(query, offset=k)[0]
    torch.testing.assert_close(torch.tensor(turned, dtype=torch.float64), wanted, **CLOSE)


def test_products_by_offset(functions):
    rows = sinusoidal_table(11, 6, base=10.0, dtype=torch.float64)
    got = functions.evaluate("([rows, p]) => own.products(rows, p)", [rows.tolist(), 4])
    assert [offset for offset, _ in got] == list(range(-4, 7))
    wanted = rows @ rows[4]
    torch.testing.assert_close(torch.tensor([p for _, p in got]).double(), wanted, **CLOSE)


def test_palette_runs_from_end_to_end(functions):
    code = "() => [...new Uint8Array(own.palette([0, 10, 20], [100, 110, 120], [200, 210, 220])"
    got = torch.tensor(functions.evaluate(f"{code}.buffer)]")).view(256, 4)
    assert got[0].tolist() == [0, 10, 20, 255]
    assert got[255].tolist() == [200, 210, 220, 255]
    assert (got[127:129] - torch.tensor([100, 110, 120, 255])).abs().max() <= 1
    assert (got[:, :3].diff(dim=0) >= 0).all()


def facts(page) -> dict[str, str]:
    names, values = (page.locator(f".pe-facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_turn_meets_the_shifted_position(stage):
    page = stage.show(PositionExplorer("sinusoidal", 8, length=11, base=100, pair=0))
    found = facts(page)
    assert found["largest gap, all pairs"].startswith("✓")
    assert found["□ at p + k"] == found["◉ rotated, M_k applied"] == "(−0.96, −0.28)"  # sin 17
    assert found["turn k·w"] == "7.00 rad"
    assert found["wavelength"] == "6.28 positions"
    page.get_by_label("Shift k").press("ArrowRight")
    assert facts(page)["turn k·w"] == "8.00 rad"


@pytest.mark.parametrize(("scheme", "sign"), [("learned", "✗"), ("rotary", "✓")])
def test_which_schemes_a_turn_moves_on(stage, scheme, sign):
    page = stage.show(PositionExplorer(length=17))
    page.locator(f"input[value={scheme}]").check(force=True)
    assert facts(page)["largest gap, all pairs"].startswith(sign)
    wanted = "misses" if sign == "✗" else "meets"
    assert wanted in page.locator(".pe-dial").get_attribute("aria-label")


def test_alibi_has_heads_and_no_turn(stage):
    page = stage.show(PositionExplorer("alibi", length=13))
    assert not page.get_by_label("Dimension").is_visible()
    assert not page.get_by_label("Base", exact=True).is_visible()
    assert not page.locator(".pe-turn").is_visible()
    assert "no vectors for positions" in page.locator(".bw-body").inner_text()
    page.get_by_label("Head", exact=True).press("End")
    assert "head 8: 13 by 13" in page.locator(".pe-frame canvas").get_attribute("aria-label")


def test_an_odd_width_says_why_there_is_no_turn(stage):
    page = stage.show(PositionExplorer("sinusoidal", 7, length=5, pair=0))
    assert "last sine has no cosine" in page.locator(".bw-body").inner_text()
    assert "5 positions by 7 entries" in page.locator(".pe-frame canvas").get_attribute(
        "aria-label"
    )
    page.locator("input[value=rotary]").check(force=True)
    assert "shown for 8" in page.locator(".bw-body").inner_text()


def test_a_click_on_the_picture_chooses_position_and_pair(stage):
    page = stage.show(PositionExplorer("sinusoidal", 16, length=19))
    box = page.locator(".pe-frame canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 10.5 / 16, box["y"] + box["height"] * 3.5 / 19)
    assert page.get_by_label("Position p").input_value() == "3"
    assert page.get_by_label("Pair of entries").input_value() == "5"


def test_shorter_and_narrower_keeps_the_choices_in_range(stage):
    page = stage.show(PositionExplorer(length=64, position=50, pair=20))
    page.get_by_label("Positions", exact=True).press("Home")
    page.get_by_label("Dimension d_model").press("Home")
    assert page.get_by_label("Position p").input_value() == "1"
    assert page.get_by_label("Pair of entries").input_value() == "1"
    assert facts(page)["largest gap, all pairs"].startswith("✓")


def test_picture_holds_the_values_and_follows_the_theme(stage):
    page = stage.show(PositionExplorer("sinusoidal", 8, length=11))
    pixel = "([x, y]) => [...document.querySelector('.pe-frame canvas').getContext('2d')"
    pixel += ".getImageData(x, y, 1, 1).data]"
    ends = [page.evaluate(pixel, place) for place in ([0, 0], [1, 0])]  # sin 0 and cos 0
    assert ends[0] != ends[1]
    assert page.evaluate(pixel, [3, 0]) == ends[1]
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(100)
    assert page.evaluate(pixel, [1, 0]) != ends[1]
