"""The widgets' maths against torch, in a real browser."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.paths import BOOK

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
    script = (BOOK / "lib" / "widgets" / "math.js").read_text(encoding="utf-8")
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
    ],
)
def test_wrong_shapes_say_what_was_expected(run, call):
    message = run(f"{{ try {{ {call}; return 'nothing'; }} catch (e) {{ return e.message; }} }}")
    assert message.startswith("expected ")
    assert ", got " in message
