"""The widgets' maths against torch, in a real browser."""

import math

import pytest
import torch
import torch.nn.functional as F

from lib.attention import attention_weights
from lib.masks import causal_mask, combine_masks, padding_mask, window_mask
from tests.paths import BOOK
from widgets import joiner

pytestmark = pytest.mark.browser
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}
# (query, key, d_k, d_v): distinct primes, so that no two axes can be mixed up; and length 1
SHAPES = [
    (3, 5, 7, 11),
    (13, 2, 17, 3),
    (1, 1, 2, 3),
    (1, 19, 23, 5),
    (7, 1, 3, 2),
    (29, 31, 5, 37),
]


@pytest.fixture(scope="module")
def run(browser):
    """Runs an expression of JavaScript with `math` and an argument `x`; returns its value."""
    script = joiner.join(BOOK / "widgets" / "js" / "math.js") + "const math = $math;"
    page = browser.new_page()
    page.goto("about:blank")
    page.add_script_tag(content=script)

    def evaluate(expression: str, x=None):
        return page.evaluate(f"(x) => {expression}", x)

    yield evaluate
    page.close()


def close(got, expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(got, dtype=torch.float64), expected, **TOLERANCE)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + 7919 * len(shape) + shape[0])
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("length", [1, 2, 3, 17, 101])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e4])
def test_softmax(run, length, scale):
    row = random(length) * scale
    close(run("math.softmax(x)", row.tolist()), row.softmax(-1))


def test_softmax_leaves_masked_entries_at_zero(run):
    row = random(11)
    mask = torch.arange(11) % 3 != 0
    got = run("math.softmax(x.row, x.mask)", {"row": row.tolist(), "mask": mask.tolist()})
    close(got, row.masked_fill(~mask, -torch.inf).softmax(-1))
    assert [value for value, allowed in zip(got, mask, strict=True) if not allowed] == [0] * 4


def test_softmax_of_a_fully_masked_row_is_zero(run):
    assert run("math.softmax([1, 2, 3], [false, false, false])") == [0, 0, 0]
    assert run("math.softmax([-Infinity, -Infinity])") == [0, 0]


@pytest.mark.parametrize("length", [1, 2, 3, 17, 101])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_entropy_and_sensitivity_of_a_softmax(run, length, scale):
    row = random(length) * scale
    weights = row.softmax(-1)
    jacobian = torch.autograd.functional.jacobian(lambda scores: scores.softmax(-1), row)
    close(run("math.entropy(x)", weights.tolist()), torch.special.entr(weights).sum())
    close(run("math.sensitivity(x)", weights.tolist()), jacobian.trace())


def test_entropy_and_sensitivity_at_their_ends(run):
    assert run("math.entropy([0, 1, 0])") == 0
    assert run("math.sensitivity([0, 1, 0])") == 0
    assert run("math.sensitivity([0, 0, 0])") == 0  # a fully masked row
    close(run("math.entropy(Array(7).fill(1 / 7))"), torch.tensor(math.log(7)).double())


@pytest.mark.parametrize(("n", "k", "m"), [(2, 3, 5), (7, 1, 11), (1, 13, 1), (17, 19, 23)])
def test_matmul_linear_and_transpose(run, n, k, m):
    a, b, bias = random(n, k), random(k, m, seed=1), random(m, seed=2)
    x = {"a": a.tolist(), "b": b.tolist(), "bias": bias.tolist()}
    close(run("math.matmul(x.a, x.b)", x), a @ b)
    close(run("math.linear(x.a, x.b, x.bias)", x), a @ b + bias)
    close(run("math.linear(x.a, x.b)", x), a @ b)
    close(run("math.transpose(x.a)", x), a.T)


@pytest.mark.parametrize(("query", "key", "d_k", "d_v"), SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_attention(run, query, key, d_k, d_v, masked):
    q, k, v = random(query, d_k), random(key, d_k, seed=1), random(key, d_v, seed=2)
    mask = random(query, key, seed=3) > 0 if masked else None
    got = run(
        "math.attention(x.q, x.k, x.v, x.mask ? { mask: x.mask } : {})",
        {
            "q": q.tolist(),
            "k": k.tolist(),
            "v": v.tolist(),
            "mask": None if mask is None else mask.tolist(),
        },
    )
    scores = q @ k.T / math.sqrt(d_k)
    hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = hidden.softmax(-1).nan_to_num(0.0)  # a row that may attend nowhere
    close(got["scores"], scores)
    close(got["weights"], weights)
    close(got["output"], weights @ v)
    if mask is None:
        fused = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        close(got["output"], fused)


def test_attention_takes_another_scale(run):
    q, k, v = random(3, 5), random(7, 5, seed=1), random(7, 2, seed=2)
    x = {"q": q.tolist(), "k": k.tolist(), "v": v.tolist()}
    got = run("math.attention(x.q, x.k, x.v, { scale: 1 }).weights", x)
    close(got, (q @ k.T).softmax(-1))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (2, 5), (7, 11)])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_masks_are_those_of_the_library(run, queries, keys, number):
    x = {"n": queries, "m": keys, "k": number, "each": [(3 * i) % 7 for i in range(queries)]}
    one = padding_mask(torch.tensor([number]), keys).expand(1, queries, keys)[0]
    each = padding_mask(torch.tensor([x["each"]]), keys)[0]
    causal, window = causal_mask(queries, keys), window_mask(queries, number, keys)
    assert run("math.paddingMask(x.n, x.m, x.k)", x) == one.tolist()
    assert run("math.paddingMask(x.n, x.m, x.each)", x) == each.tolist()
    assert run("math.causalMask(x.n, x.m)", x) == causal.tolist()
    assert run("math.windowMask(x.n, x.k, x.m)", x) == window.tolist()
    x["masks"] = [each.tolist(), causal.tolist(), window.tolist()]
    both = combine_masks(each, causal, window)
    assert run("math.combineMasks(...x.masks)", x) == both.tolist()
    assert run("math.combineMasks(x.masks[0])", x) == each.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_influence_is_the_zero_pattern_of_the_jacobian(run, seed):
    generator = torch.Generator().manual_seed(seed)
    time, layers = 1 + seed % 7, 1 + seed % 3
    share = torch.rand((), generator=generator)
    mask = torch.rand(time, time, generator=generator) < share
    weights = torch.randn(layers, 3, 5, 5, generator=generator, dtype=torch.float64) / 2

    def stack(x):
        for w_q, w_k, w_v in weights:
            x = attention_weights(x @ w_q, x @ w_k, mask) @ x @ w_v
        return x

    jacobian = torch.autograd.functional.jacobian(stack, random(time, 5, seed=seed))
    size = jacobian.abs().amax(dim=(1, 3))
    # Where the same values are mixed the derivatives cancel, but for rounding.
    expected = size > 1e-13 * max(1.0, size.max().item())
    assert run("math.influence(x.mask, x.layers)", {"mask": mask.tolist(), "layers": layers}) == (
        expected.tolist()
    )


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_influence_through_layers_is_a_power_of_the_mask(run, layers):
    """Where each position may attend to itself."""
    mask = (random(11, 11) > 1) | torch.eye(11, dtype=torch.bool)
    power = torch.linalg.matrix_power(mask.double(), layers) > 0
    got = run("math.influence(x.mask, x.layers)", {"mask": mask.tolist(), "layers": layers})
    assert got == power.tolist()


@pytest.mark.parametrize("width", [2, 3, 17, 64])
def test_layer_norm(run, width):
    row, gain, bias = random(width) * 5 + 2, random(width, seed=1), random(width, seed=2)
    x = {"row": row.tolist(), "gain": gain.tolist(), "bias": bias.tolist()}
    close(run("math.layerNorm(x.row)", x), F.layer_norm(row, (width,)))
    got = run("math.layerNorm(x.row, { gain: x.gain, bias: x.bias, eps: 1e-3 })", x)
    close(got, F.layer_norm(row, (width,), gain, bias, eps=1e-3))


@pytest.mark.parametrize(("time", "d_model"), [(1, 2), (7, 6), (53, 64), (5, 7)])
def test_sinusoidal_positions(run, time, d_model):
    position = torch.arange(time, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10000 ** (even / d_model)
    expected = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]
    close(run("math.sinusoidal(x.time, x.d)", {"time": time, "d": d_model}), expected)


def test_random_numbers_are_normal_and_repeat(run):
    draw = "math.matrix(200, 101, math.normal(x))"
    first, again, other = run(draw, 3), run(draw, 3), run(draw, 4)
    assert first == again
    assert first != other
    numbers = torch.tensor(first, dtype=torch.float64).flatten()
    assert abs(numbers.mean()) < 0.03
    assert abs(numbers.std() - 1) < 0.03
    assert abs((numbers**4).mean() - 3) < 0.2  # the tails of a normal, not of a uniform
    pairs = torch.tensor(first, dtype=torch.float64)[:, :100].reshape(-1, 2)
    assert abs(torch.corrcoef(pairs.T)[0, 1]) < 0.03


def test_argmax_is_the_first_of_the_largest(run):
    assert run("math.argmax([1, 5, 2, 5])") == 1


@pytest.mark.parametrize(
    "call",
    [
        "math.matmul([[1, 2]], [[1], [2], [3]])",
        "math.dot([1, 2], [1])",
        "math.softmax([1, 2], [true])",
        "math.attention([[1]], [[1], [2]], [[1]])",
        "math.attention([[1]], [[1], [2]], [[1], [2]], { mask: [[true]] })",
        "math.paddingMask(2, 3, [1, 2, 3])",
        "math.causalMask(3, 2)",
        "math.windowMask(3, 1, 2)",
        "math.combineMasks([[true]], [[true, false]])",
        "math.influence([[true, false]])",
    ],
)
def test_wrong_shapes_say_what_was_expected(run, call):
    message = run(f"{{ try {{ {call}; return 'nothing'; }} catch (e) {{ return e.message; }} }}")
    assert message.startswith("expected ")
    assert ", got " in message
