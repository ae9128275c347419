"""The norm explorer: forward and backward through its stacks, against torch's autograd."""

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from chapters.feed_forward_norm.norm_explorer import NORMS, TIME, NormExplorer, typical_sizes

pytestmark = pytest.mark.browser
STACK = """([seed, width, layers, state]) => {
  const stack = own.drawStack(seed, width, layers, 4);
  const plain = (rows) => Array.from(rows);
  return { input: plain(stack.input), pull: plain(stack.pull),
    layers: stack.layers.map(({ first, second }) => [plain(first), plain(second)]),
    ...own.profile(stack, state) };
}"""


@pytest.fixture
def functions(stage):
    return stage.functions(NormExplorer())


def rms(x: torch.Tensor) -> float:
    return x.detach().square().mean().sqrt().item()


def by_torch(got: dict, width: int, state: dict) -> tuple[list[float], list[float], float]:
    """Sizes of vectors and gradients and the mean cosine, by autograd on the widget's numbers."""

    def tensor(numbers, rows):
        return torch.tensor(numbers, dtype=torch.float64).reshape(rows, -1)

    x = tensor(got["input"], TIME).requires_grad_()
    vectors = [x]
    for first, second in got["layers"][: state["n_layers"]]:
        w_1 = state["scale"] * tensor(first, width)
        w_2 = state["scale"] * tensor(second, 4 * width)
        inside = F.layer_norm(x, (width,)) if state["norm"] == "pre" else x
        change = F.relu(inside @ w_1) @ w_2
        x = x + change if state["residual"] else change
        if state["norm"] == "post":
            x = F.layer_norm(x, (width,))
        x.retain_grad()
        vectors.append(x)
    (x * tensor(got["pull"], TIME)).sum().backward()
    unit = F.normalize(x.detach(), dim=-1)
    pairs = (unit @ unit.T)[*torch.triu_indices(TIME, TIME, 1)]
    return [rms(v) for v in vectors], [rms(v.grad) for v in vectors], pairs.mean().item()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(
    ("n_layers", "scale", "width", "seed"),
    [
        pytest.param(24, 0.7, 32, 0, marks=pytest.mark.slow),
        (7, 1.4, 8, 11),
        (3, 0.25, 64, 5),
    ],
)
def test_profiles_are_those_of_autograd(functions, norm, residual, n_layers, scale, width, seed):
    state = {"n_layers": n_layers, "norm": norm, "residual": residual, "scale": scale}
    got = functions.evaluate(STACK, [seed, width, n_layers, state])
    sizes, gradients, similarity = by_torch(got, width, state)
    assert len(got["sizes"]) == len(got["gradients"]) == n_layers + 1
    assert got["sizes"] == pytest.approx(sizes, rel=1e-5, abs=0)
    assert got["gradients"] == pytest.approx(gradients, rel=1e-5, abs=0)
    assert got["similarity"] == pytest.approx(similarity, abs=1e-5)


def test_products_agree_with_torch(functions):
    got = functions.evaluate(
        """() => {
          const draw = own.math.normal(3);
          const [x, w] = [15, 35].map((n) => Float64Array.from({ length: n }, draw));
          const y = own.times(x, w, 5, 7);
          const plain = (rows) => Array.from(rows);
          return [x, w, y, own.timesTransposed(y, w, 5, 7)].map(plain);
        }"""
    )
    x, w, y, back = (torch.tensor(numbers, dtype=torch.float64) for numbers in got)
    torch.testing.assert_close(y.reshape(3, 7), x.reshape(3, 5) @ w.reshape(5, 7))
    torch.testing.assert_close(back.reshape(3, 5), y.reshape(3, 7) @ w.reshape(5, 7).T)


@pytest.mark.parametrize(
    "scale", [0.5, *(pytest.param(s, marks=pytest.mark.slow) for s in (1.0, 1.4))]
)
@pytest.mark.parametrize("norm", NORMS)
def test_typical_sizes_are_those_of_many_draws(functions, norm, scale):
    """What readers without scripts see: an expectation, which a mean over draws comes near."""
    for residual in (True, False):
        state = {"n_layers": 6, "norm": norm, "residual": residual, "scale": scale}
        found = functions.evaluate(
            """(state) => Array.from({ length: 40 }, (_, seed) => {
              const { sizes, gradients } = own.profile(own.drawStack(seed, 64, 6, 4), state);
              return [sizes.at(-1) ** 2, gradients[0] ** 2];
            })""",
            state,
        )
        means = torch.tensor(found).mean(0).sqrt().tolist()
        assert means == pytest.approx(typical_sizes(6, norm, residual, scale), rel=0.2)


def figures(page) -> list[str]:
    return page.locator(".ne-value").all_inner_texts()


def test_each_control_changes_what_it_says(stage):
    page = stage.show(NormExplorer(24, scale=0.7))
    expect(page.locator(".ne-formula")).to_have_text("FFN(x)")
    expect(page.locator(".ne-verdict")).to_contain_text("vanishes")
    page.get_by_role("checkbox", name="Residual connection").press("Space")
    expect(page.locator(".ne-formula")).to_have_text("x + FFN(x)")
    expect(page.locator(".ne-verdict")).to_contain_text("about the size")
    scale = page.get_by_role("slider", name="Initial scale")
    scale.press("End")
    expect(scale).to_have_attribute("aria-valuetext", "× 2")
    expect(page.locator(".ne-verdict")).to_contain_text("explodes")
    assert "10" in figures(page)[0]
    assert "⁻" not in figures(page)[0]
    page.get_by_role("radio", name="pre").check()
    expect(page.locator(".ne-formula")).to_have_text("x + FFN(LayerNorm(x))")
    expect(page.locator(".ne-verdict")).to_contain_text("about the size")
    page.get_by_role("radio", name="post").check()
    expect(page.locator(".ne-formula")).to_have_text("LayerNorm(x + FFN(x))")
    assert figures(page)[0] == "1"
    before = figures(page)
    page.get_by_role("slider", name="Dimension d_model").press("Home")
    narrow = figures(page)
    assert narrow[1:] != before[1:]
    page.get_by_role("button", name="Draw again").click()
    assert figures(page)[1:] != narrow[1:]
    marks = page.locator("svg.bw-lines").first.locator(".bw-mark")
    expect(marks).to_have_count(25)
    page.get_by_role("slider", name="Layers").press("Home")
    expect(marks).to_have_count(2)
    expect(page.locator("svg.bw-lines desc").first).to_contain_text("layer 0 ")
    expect(page.get_by_role("status")).to_contain_text("similarity of positions")


def test_read_outs_agree_with_torch(stage, functions):
    state = {"n_layers": 9, "norm": "pre", "residual": True, "scale": 1.2}
    got = functions.evaluate(STACK, [7, 16, 9, state])
    sizes, gradients, similarity = by_torch(got, 16, state)
    page = stage.show(NormExplorer(9, norm="pre", residual=True, scale=1.2, d_model=16, seed=7))
    shown = [float(text) for text in figures(page)]
    assert shown == pytest.approx([sizes[-1], gradients[0], similarity], rel=0.05, abs=0.006)


def test_numbers_as_text(functions):
    texts = functions.evaluate("() => [1, 0.0123, 998, 999.6, 0.00012, 3.6e-15].map(own.short)")
    assert texts == ["1", "0.012", "1000", "1.0 · 10³", "1.2 · 10⁻⁴", "3.6 · 10⁻¹⁵"]
    axis = functions.evaluate("() => own.axis('size', [1, 2e-15])")
    assert (axis["min"], axis["max"]) == (-15, 1)
    assert axis["ticks"][0] == [-12, "10⁻¹²"]
    assert [0, "1"] in axis["ticks"]
