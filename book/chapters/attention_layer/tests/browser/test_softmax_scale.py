"""The softmax and scale explorer: what it shows, against torch."""

import math

import pytest
import torch
from playwright.sync_api import expect

from chapters.attention_layer.softmax_scale import WIDTHS, SoftmaxScaleExplorer

pytestmark = pytest.mark.browser


@pytest.fixture
def functions(stage):
    return stage.functions(SoftmaxScaleExplorer())


def figures(page) -> list[float]:
    """Deviation of q·k, entropy and sensitivity, as shown."""
    texts = page.locator(".ss-value").all_inner_texts()
    return [float(texts[i]) for i in (0, 2, 3)]


@pytest.mark.parametrize("seed", [0, 1, 7919])
def test_scores_are_dot_products_of_the_first_entries(functions, seed):
    x = {"seed": seed, "widths": list(WIDTHS)}
    got = functions.evaluate("(x) => own.drawScores(x.seed, x.widths, 5)", x)
    numbers = functions.evaluate("(x) => own.math.matrix(6, 1024, own.math.normal(x.seed))", x)
    query, *keys = torch.tensor(numbers, dtype=torch.float64)
    for width, scores in zip(WIDTHS, got, strict=True):
        expected = torch.stack(keys)[:, :width] @ query[:width]
        torch.testing.assert_close(
            torch.tensor(scores, dtype=torch.float64), expected, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("n_keys", [2, 13])
def test_curves_are_means_over_random_queries_and_keys(functions, n_keys, temperature):
    """A hundred draws of the browser and a thousand of torch: equal but for chance."""
    x = {"widths": list(WIDTHS), "n": n_keys, "temperature": temperature}
    got = functions.evaluate(
        "(x) => own.meanCurves(own.drawMany(1, x.widths, 64), x.widths, x.n, x.temperature)", x
    )
    generator = torch.Generator().manual_seed(0)
    for at, width in [(0, 1), (4, 16), (8, 256)]:
        query = torch.randn(1000, width, 1, generator=generator, dtype=torch.float64)
        key = torch.randn(1000, n_keys, width, generator=generator, dtype=torch.float64)
        products = (key @ query)[..., 0] / temperature
        for curve, scores in zip(got, [products / math.sqrt(width), products], strict=True):
            a = scores.softmax(-1)
            jacobian = torch.diag_embed(a) - a[:, :, None] * a[:, None, :]
            for name, each in [
                ("sensitivity", jacobian.diagonal(dim1=1, dim2=2).sum(dim=1)),
                ("entropy", torch.special.entr(a).sum(-1)),
            ]:
                error = each.std() * math.sqrt(1 / 100 + 1 / 1000)
                assert abs(curve[at][name] - each.mean()) < 3.5 * error


@pytest.mark.parametrize(
    ("d_k", "scaled", "temperature", "n_keys", "seed"),
    [(1, False, 1, 2, 0), (4, True, 0.3, 7, 3), (64, False, 10, 64, 11), (1024, True, 1, 17, 5)],
)
def test_read_outs_agree_with_torch(functions, stage, d_k, scaled, temperature, n_keys, seed):
    numbers = functions.evaluate(
        "(x) => own.math.matrix(x.n + 1, 1024, own.math.normal(x.seed))",
        {"n": n_keys, "seed": seed},
    )
    numbers = torch.tensor(numbers, dtype=torch.float64)
    products = numbers[1:, :d_k] @ numbers[0, :d_k]
    scores = products / temperature / (math.sqrt(d_k) if scaled else 1)
    weights = scores.softmax(-1)
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)
    page = stage.show(
        SoftmaxScaleExplorer(d_k, scaled=scaled, temperature=temperature, n_keys=n_keys, seed=seed)
    )
    deviation, entropy, sensitivity = figures(page)
    assert deviation == pytest.approx(products.std().item(), rel=5e-3, abs=5e-3)
    assert entropy == pytest.approx(torch.special.entr(weights).sum().item(), abs=6e-3)
    assert sensitivity == pytest.approx(jacobian.trace().item(), abs=6e-4)
    bars = page.locator(".ss-columns").nth(1)
    expect(bars.locator(".ss-column")).to_have_count(n_keys)
    expect(bars.locator(".ss-chosen title")).to_contain_text(f"key {weights.argmax() + 1}: ")
    largest = page.locator(".ss-value").nth(1).inner_text()
    if largest not in ("> 99 %", "< 1 %"):
        assert largest == f"{100 * weights.max():.0f} %"
    expect(page.locator(".ss-formula strong")).to_contain_text(f"{scores.std():.3g}"[:3])


def test_wider_vectors_saturate_it_and_the_scale_undoes_that(stage):
    page = stage.show(SoftmaxScaleExplorer(1, n_keys=16))
    width = page.get_by_role("slider", name="Dimension d_k")
    shown = [figures(page)]
    for _ in WIDTHS[1:]:
        width.press("ArrowRight")
        shown.append(figures(page))
    expect(width).to_have_attribute("aria-valuetext", "1024")
    deviations, entropies, sensitivities = zip(*shown, strict=True)
    assert deviations[-1] > 8 * deviations[0]
    assert entropies[-1] < 0.2 < 1.5 < entropies[0]
    assert sensitivities[-1] < 0.05 < 0.15 < sensitivities[0]
    expect(page.locator(".ss-reading")).to_contain_text(
        "1 of 16 keys holds 90 % of the weight. Sat"
    )
    page.get_by_role("checkbox", name="Divide by √d_k").press("Space")
    _, entropy, sensitivity = figures(page)
    assert entropy > 1.5
    assert sensitivity > 0.15
    expect(page.locator(".ss-weights")).to_have_text("weights = softmax(q·k / √1024)")
    expect(page.locator(".ss-reading")).not_to_contain_text("Saturated")
    expect(page.get_by_role("status")).to_contain_text("d_k 1024: largest weight")


def test_scale_is_a_temperature(stage):
    page = stage.show(SoftmaxScaleExplorer(64, scaled=True))
    bars = page.locator(".ss-columns").nth(1).locator("desc")
    scaled = bars.text_content()
    page.get_by_role("checkbox", name="Divide by √d_k").press("Space")
    assert bars.text_content() != scaled
    heat = page.get_by_role("slider", name="Temperature")
    while heat.get_attribute("aria-valuetext") != "8":
        heat.press("ArrowRight")
    assert bars.text_content() == scaled


def test_draws_differ_by_seed_and_not_by_the_number_of_keys(stage):
    page = stage.show(SoftmaxScaleExplorer(16, n_keys=3))
    scores = page.locator(".ss-columns").first.locator(".ss-column title")
    before = scores.all_text_contents()
    page.get_by_role("slider", name="Number of keys").press("ArrowRight")
    assert len(scores.all_text_contents()) == 4
    assert scores.all_text_contents()[:3] == before
    page.get_by_role("button", name="Draw again").click()
    assert scores.all_text_contents()[:3] != before
    page.get_by_role("button", name="Reset").click()
    assert scores.all_text_contents() == before


def test_column_that_leaves_the_chart_ends_in_a_point(stage):
    page = stage.show(SoftmaxScaleExplorer(1024, n_keys=11))
    columns = page.locator(".ss-columns").first.locator(".ss-column").all()
    for column in columns:
        value = float(column.locator("title").text_content().split(": ")[1].replace("−", "-"))
        corner, tip = (part.split(" ")[-1] for part in column.get_attribute("d").split("L")[:2])
        corner = corner.split("V")[1]
        assert (tip == corner) == (abs(value) <= 10)
    texts = [column.locator("title").text_content() for column in columns]
    assert any(abs(float(t.split(": ")[1].replace("−", "-"))) > 10 for t in texts)


def test_curve_shows_sensitivity_or_entropy(stage):
    page = stage.show(SoftmaxScaleExplorer(256))
    lines = page.locator("svg.bw-lines:not(.ss-columns)")
    expect(page.locator(".bw-axis-y")).to_have_text("Sensitivity, mean of 100 draws")
    expect(lines.locator(".bw-mark-current")).to_have_count(2)
    words = lines.locator("desc").text_content()
    assert words.startswith("Scores divided by √d_k: d_k 1 0.")
    page.get_by_role("radio", name="Sensitivity").press("ArrowRight")
    expect(page.locator(".bw-axis-y")).to_have_text("Entropy, mean of 100 draws")
    last = float(lines.locator("desc").text_content().split()[-1])
    assert 0 < last < 0.2
