"""The heads explorer: its counts against the library's layer, its maps against torch."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chapters.multi_head.heads_explorer import WIDTHS, HeadsExplorer
from lib.attention import MultiHeadAttention

pytestmark = pytest.mark.browser


@pytest.fixture
def functions(stage):
    return stage.functions(HeadsExplorer())


@pytest.mark.parametrize(("d_model", "n_heads", "d_k"), [(48, 3, 16), (64, 5, 7), (8, 1, 8)])
def test_cost_is_that_of_the_library(functions, d_model, n_heads, d_k):
    layer = MultiHeadAttention(d_model, n_heads, d_k=d_k, d_v=d_k)
    time = 11
    # The fused kernel is counted as nothing: so the plain products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, time, d_model))
    sizes = {"d_model": d_model, "n_heads": n_heads, "time": time}
    got = functions.evaluate("([sizes, dk]) => own.cost(sizes, dk)", [sizes, d_k])
    assert got["parameters"] == sum(p.numel() for p in layer.parameters())
    assert got["projections"] + got["attention"] == counter.get_total_flops()


def test_maps_are_attention_of_the_first_entries(functions):
    """The widths are computed one from another: each equals the product of its own entries."""
    code = """(widths) => {
      const [q, k] = own.projections(widths, 7, 12);
      const w = (seed) => own.math.matrix(512, 12, own.math.normal(seed));
      return { x: own.math.matrix(7, 512, own.math.normal(11)), wq: w(12), wk: w(13),
               map: own.headMap(q[96], k[96], 2, 4, 5) };
    }"""
    got = functions.evaluate(code, list(WIDTHS))
    x, w_q, w_k = (torch.tensor(got[name], dtype=torch.float64) for name in ("x", "wq", "wk"))
    query, key = (x[:5, :96] @ w[:96, 8:12] / 96**0.5 for w in (w_q, w_k))
    expected = (query @ key.T / 4**0.5).softmax(-1)
    torch.testing.assert_close(torch.tensor(got["map"], dtype=torch.float64), expected)


def test_an_impossible_choice_explains_itself(stage):
    page = stage.show(HeadsExplorer(48, 3))
    page.get_by_label("Heads", exact=True).press("ArrowRight")
    page.get_by_label("Heads", exact=True).press("ArrowRight")
    assert "48 cannot be shared out among 5 heads" in page.locator(".he-trouble").inner_text()
    assert not page.locator(".he-result").is_visible()
    page.get_by_role("button", name="Take 6 heads").click()
    assert page.locator(".he-result").is_visible()
    assert "(6, 12, 8)" in page.locator(".he-steps").inner_text()


def test_width_by_hand_needs_no_divisor(stage):
    page = stage.show(HeadsExplorer(48, 5))
    page.get_by_label("Dimension d_k of a head").press("End")
    assert "(5, 12, 64)" in page.locator(".he-steps").inner_text()


def test_one_map_a_head_up_to_eight(stage):
    page = stage.show(HeadsExplorer(64, 4))
    assert page.locator(".he-maps canvas").count() == 4
    page.get_by_label("Heads", exact=True).press("End")
    assert page.locator(".he-maps canvas").count() == 8
    assert "The first 8 of 16 heads" in page.locator(".he-note").inner_text()


def test_pictures_follow_the_theme(stage):
    page = stage.show(HeadsExplorer(16, 1, time=1))
    pixel = "() => [...document.querySelector('.he-maps canvas').getContext('2d')"
    pixel += ".getImageData(0, 0, 1, 1).data]"
    light = page.evaluate(pixel)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(100)
    assert page.evaluate(pixel) != light
