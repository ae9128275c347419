"""Each scheme against loops in float64, its defining property, its offset, and its errors."""

import cmath
import math

import pytest
import torch

from checks.shifts import shift_matrix
from lib.positions import (
    SCHEMES,
    ALiBi,
    Learned,
    Positions,
    Rotary,
    Sinusoidal,
    make_positions,
    sinusoidal_table,
)
from tests.helpers import assert_close, normal, unchecked


@pytest.fixture
def float64():
    """Modules made meanwhile compute their tables in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


FLOAT64 = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("d_model", [1, 2, 3, 6, 7, 64])
@pytest.mark.parametrize("base", [10_000.0, 7.0])
def test_table_by_loops(d_model, base):
    table = sinusoidal_table(11, d_model, base=base, dtype=torch.float64)
    assert table.shape == (11, d_model)
    for pos in range(11):
        for column in range(d_model):
            angle = pos / base ** ((column - column % 2) / d_model)
            wanted = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[pos, column].item() == pytest.approx(wanted, abs=1e-12)


def test_table_rounds_once():
    """Position 5,000 in float32 throughout would be off by 1e-4."""
    exact = sinusoidal_table(5001, 64, dtype=torch.float64)
    assert_close(sinusoidal_table(5001, 64), exact, 1e-7)


def test_wavelengths_run_from_two_pi_to_base_times_two_pi():
    d_model, base = 512, 100.0
    table = sinusoidal_table(3, d_model, base=base, dtype=torch.float64)
    first, last = (math.atan2(*table[1, i : i + 2].tolist()) for i in (0, d_model - 2))
    assert 2 * math.pi / first == pytest.approx(2 * math.pi)
    assert 2 * math.pi / last == pytest.approx(2 * math.pi * base ** (1 - 2 / d_model))


def test_dot_product_of_two_positions_depends_on_their_distance_alone():
    table = sinusoidal_table(50, 30, dtype=torch.float64)
    products = table @ table.T
    for k in (0, 1, 7, 31):
        diagonal = products.diagonal(k)
        assert_close(diagonal, diagonal[:1].expand(50 - k), 1e-12)
    assert products[0, 0].item() == pytest.approx(15.0)
    assert products[0, 1] < products[0, 0] - 0.1


@FLOAT64
def test_rotary_by_loops():
    """Each pair, as a complex number, times exp(j pos w)."""
    x = normal(2, 3, 5, 8)
    turned = Rotary(8, base=100.0).rotate(x, offset=4)
    for b in range(2):
        for h in range(3):
            for t in range(5):
                for i in range(4):
                    w = 100.0 ** (-2 * i / 8)
                    pair = complex(*x[b, h, t, 2 * i : 2 * i + 2].tolist())
                    pair *= cmath.exp(1j * (t + 4) * w)
                    got = complex(*turned[b, h, t, 2 * i : 2 * i + 2].tolist())
                    assert abs(got - pair) < 1e-12


@FLOAT64
def test_rotary_scores_depend_on_the_distance_alone():
    rotary = Rotary(6)
    query, key = normal(6), normal(6, seed=1)

    def score(i, j):
        at_i, at_j = (rotary.rotate(x.view(1, 6), offset=at) for x, at in ((query, i), (key, j)))
        return (at_i @ at_j.T).item()

    assert score(7, 3) == pytest.approx(score(207, 203), abs=1e-10)
    assert score(0, 0) == pytest.approx((query @ key).item(), abs=1e-12)
    assert abs(score(7, 3) - score(3, 7)) > 1e-2


@FLOAT64
def test_rotary_turns_as_the_shift_matrix_does_backwards():
    """A table row lists (sin, cos), so its shift forwards is a turn the other way round."""
    x = normal(1, 10)
    assert_close(Rotary(10).rotate(x, offset=7), x @ shift_matrix(7, 10), 1e-12)


def test_rotary_keeps_lengths_and_passes_gradients():
    rotary = Rotary(6)
    x = normal(2, 3, 5, 6, dtype=torch.float32).requires_grad_()
    turned = rotary.rotate(x)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), 1e-5)
    turned.square().sum().backward()
    assert_close(x.grad, 2 * x.detach(), 1e-5)


def test_rotary_takes_the_layout_of_split_heads():
    x = normal(2, 5, 3 * 6, dtype=torch.float32)
    heads = x.unflatten(-1, (3, 6)).transpose(1, 2)
    assert_close(Rotary(6).rotate(heads), Rotary(6).rotate(heads.contiguous()), 1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("whole_module", [False, True])
def test_rotary_in_half_precision(dtype, whole_module):
    x = normal(2, 5, 6, dtype=torch.float32)
    rotary = Rotary(6).to(dtype) if whole_module else Rotary(6)
    got = rotary.rotate(x.to(dtype))
    assert got.dtype == dtype
    assert_close(got, Rotary(6).rotate(x), 0.03)


@pytest.mark.parametrize("scheme", [Rotary, Sinusoidal])
def test_a_table_in_float64_is_exact_and_back_in_float32_the_same(scheme):
    exact = sinusoidal_table(29, 6, dtype=torch.float64)
    if scheme is Rotary:
        exact = exact.unflatten(-1, (-1, 2)).flip(-1)
    layer = scheme(6, max_length=11)
    before = layer.table.clone()
    # A sine's last bit may depend on where it is computed: 1e-16, and 6e-8 once it is rounded.
    assert_close(before, exact[:11], 1e-7)
    assert_close(layer.double().table, exact[:11], 1e-15)
    layer.rotate(normal(17, 6))  # one of the two grows the table to 2 * 17
    layer.add(normal(17, 6))
    assert_close(layer.table[:29], exact, 1e-15)
    assert layer.half().table.dtype == torch.float32
    assert_close(layer.table[:11], before, 1e-7)
    assert_close(layer.float().table[:11], before, 1e-7)


@pytest.mark.parametrize("n_heads", [1, 3, 8])  # of the paper's formula
@pytest.mark.parametrize(("n_queries", "n_keys"), [(5, 5), (1, 7), (2, 7)])
def test_alibi_by_loops(n_heads, n_queries, n_keys):
    bias = ALiBi(n_heads, paper_formula=True).bias(n_queries, n_keys)
    assert bias.shape == (n_heads, n_queries, n_keys)
    for h in range(n_heads):
        for i in range(n_queries):
            for j in range(n_keys):
                distance = abs(i + n_keys - n_queries - j)
                wanted = -distance * 2.0 ** (-8 * (h + 1) / n_heads)
                assert bias[h, i, j].item() == pytest.approx(wanted, abs=1e-6)


def test_alibi_slopes_of_the_paper():
    assert ALiBi(8).slopes.tolist() == pytest.approx([1 / 2**n for n in range(1, 9)])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_offset_continues_where_the_first_call_stopped(scheme):
    """What a cache relies on: the whole at once equals part by part."""
    positions = make_positions(scheme, 12, 2, max_length=13)
    x, heads = (
        normal(2, 11, 12, dtype=torch.float32),
        normal(2, 2, 11, 6, dtype=torch.float32),
    )
    parts = [positions.add(x[:, :4]), positions.add(x[:, 4:5], 4), positions.add(x[:, 5:], 5)]
    assert_close(torch.cat(parts, 1), positions.add(x), 1e-6)
    parts = [positions.rotate(heads[:, :, :4]), positions.rotate(heads[:, :, 4:], 4)]
    assert_close(torch.cat(parts, 2), positions.rotate(heads), 1e-6)
    if scheme == "alibi":
        assert torch.equal(positions.bias(3, 11), positions.bias(11, 11)[:, -3:])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_scheme_acts_in_one_place_only(scheme):
    positions = make_positions(scheme, 12, 2)
    x, heads = (
        normal(2, 11, 12, dtype=torch.float32),
        normal(2, 2, 11, 6, dtype=torch.float32),
    )
    acts = {
        "add": not torch.equal(positions.add(x), x),
        "rotate": not torch.equal(positions.rotate(heads), heads),
        "bias": positions.bias(11, 11) is not None,
    }
    places = {"none": None, "rotary": "rotate", "alibi": "bias"}
    assert [place for place in acts if acts[place]] == [
        place for place in acts if place == places.get(scheme, "add")
    ]


@pytest.mark.parametrize("make", [Sinusoidal, Rotary])
def test_table_grows_beyond_its_end(make):
    short, long = make(6, max_length=3), make(6, max_length=100)
    x = normal(2, 5, 6, dtype=torch.float32)
    apply = "add" if make is Sinusoidal else "rotate"
    for offset in (0, 1, 40, 2):
        got, wanted = (getattr(one, apply)(x, offset) for one in (short, long))
        assert_close(got, wanted, 1e-6)  # a sine's last bit may depend on where it is computed


@pytest.mark.parametrize("make", [Sinusoidal, Rotary])
def test_table_moves_with_the_module_and_is_not_saved(make):
    module = make(6, max_length=3)
    assert module.state_dict() == {}
    assert list(module.parameters()) == []
    apply = module.add if make is Sinusoidal else module.rotate
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        assert apply(normal(2, 5, 6, dtype=dtype), 40).dtype == dtype
    assert module.double().table.dtype == torch.float64
    assert module.half().table.dtype == torch.float32
    assert module.to("meta").table.is_meta


@pytest.mark.parametrize("make", [Sinusoidal, Rotary])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_keeps_its_angles(make, dtype):
    """A table rounded to 16 bits would turn far positions by wrong angles: 0.05 in bfloat16."""
    exact, rounded = make(64, max_length=3), make(64, max_length=3).to(dtype)
    x = normal(2, 5, 64, dtype=torch.float32)
    apply = "add" if make is Sinusoidal else "rotate"
    wanted = getattr(exact, apply)(x, 2000)
    assert torch.equal(getattr(rounded, apply)(x, 2000), wanted)


def test_learned_positions_are_learned_and_end():
    learned = Learned(6, max_length=7)
    assert [p.shape for p in learned.parameters()] == [(7, 6)]
    x = torch.zeros(2, 4, 6)
    learned.add(x, 3).sum().backward()
    assert learned.weight.grad.tolist() == [[0.0] * 6] * 3 + [[2.0] * 6] * 4
    with pytest.raises(ValueError, match="at most max_length=7 positions, got 8"):
        learned.add(x, 4)


def test_no_positions_change_nothing():
    x = normal(2, 3, 5)
    positions = Positions()
    assert positions.add(x, 3) is x
    assert positions.rotate(x, 3) is x
    assert positions.bias(3, 5) is None


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="out of none, sinusoidal, learned, rotary, alibi"):
        make_positions("rope", 12, 2)
    with pytest.raises(ValueError, match="even d_k, got 7"):
        Rotary(7)
    with unchecked(), pytest.raises(ValueError, match="at least 1 and a base above 0"):
        sinusoidal_table(0, 4)
    with pytest.raises(ValueError, match="got 3, 4 and 0"):
        sinusoidal_table(3, 4, base=0.0)


@pytest.mark.parametrize("base", [7.0, 10_000.0])
def test_a_scheme_made_by_name_has_the_base(base):
    made = make_positions("sinusoidal", 6, 1, base=base), make_positions("rotary", 18, 3, base=base)
    for one, wanted in zip(made, (Sinusoidal(6, base=base), Rotary(6, base=base)), strict=True):
        assert torch.equal(one.table, wanted.table)


@pytest.mark.parametrize("base", [0.5, 1.0])
def test_a_base_of_one_or_less_turns_no_slower(base):
    table = sinusoidal_table(5, 4, base=base, dtype=torch.float64)
    wanted = torch.arange(5, dtype=torch.float64) / base**0.5
    assert_close(table[:, 2], wanted.sin(), 1e-12)
    assert_close(table[:, 3], wanted.cos(), 1e-12)


@pytest.mark.parametrize(
    ("scheme", "method"), [("sinusoidal", "add"), ("learned", "add"), ("rotary", "rotate")]
)
def test_no_position_is_negative(scheme, method):
    positions, x = make_positions(scheme, 6, 1, max_length=7), normal(2, 3, 6)
    with pytest.raises(ValueError, match="an offset of 0 or more, got -1"):
        getattr(positions, method)(x, -1)
    getattr(positions, method)(x, 0)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("queries", "keys"), [(5, 3), (-1, 3), (1, 0)])
def test_queries_are_the_last_of_the_keys(scheme, queries, keys):
    with pytest.raises(ValueError, match=f"got {queries} queries and {keys} keys"):
        make_positions(scheme, 6, 1).bias(queries, keys)


def test_vectors_of_another_dimension_and_no_head():
    for scheme in (Sinusoidal(6), Learned(6)):
        with unchecked(), pytest.raises(ValueError, match=r"time, 6\), got \(2, 3, 1\)"):
            scheme.add(normal(2, 3, 1))
    with unchecked(), pytest.raises(ValueError, match=r"time, 6\), got \(2, 3, 2\)"):
        Rotary(6).rotate(normal(2, 3, 2))
    with unchecked(), pytest.raises(ValueError, match=r"time, 6\), got \(6,\)"):
        Rotary(6).rotate(normal(6))
    with pytest.raises(ValueError, match="n_heads of 1 or more, got 0"):
        ALiBi(0)


@pytest.mark.parametrize(
    ("n_heads", "exponents"),
    [
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes_for_a_number_of_heads_that_is_no_power_of_two(n_heads, exponents):
    """Those of the power of two below, and every second one of twice as many, as published."""
    assert ALiBi(n_heads).slopes.tolist() == pytest.approx([2**-e for e in exponents])
    formula = [2 ** (-8 * h / n_heads) for h in range(1, n_heads + 1)]
    assert ALiBi(n_heads, paper_formula=True).slopes.tolist() == pytest.approx(formula)
    assert torch.equal(make_positions("alibi", 12, n_heads).slopes, ALiBi(n_heads).slopes)


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16])
def test_for_a_power_of_two_code_and_formula_agree(n_heads):
    assert torch.equal(ALiBi(n_heads).slopes, ALiBi(n_heads, paper_formula=True).slopes)


def test_a_table_of_any_length_takes_little_room_at_first():
    for scheme in (Sinusoidal(6, max_length=10**12), Rotary(6, max_length=10**12)):
        assert scheme.table.numel() < 10**5
    far = Sinusoidal(6, max_length=7).add(normal(1, 1, 6), 5000)
    assert_close(far, Sinusoidal(6, max_length=6000).add(normal(1, 1, 6), 5000), 0.0)


def test_rotation_of_vectors_however_they_lie_in_memory():
    rotary = Rotary(6)
    apart = normal(2, 3, 6, 5).transpose(-1, -2)
    shifted, wide = normal(2, 3, 5, 8)[..., 1:7], normal(2, 3, 5, 7)[..., :6]
    odd_rows = normal(2, 4, 5, 7)[..., :6]
    for x in (apart, shifted, wide, odd_rows, normal(2, 3, 1).expand(2, 3, 6)):
        plain = x.clone(memory_format=torch.contiguous_format)
        assert torch.equal(rotary.rotate(x, 4), rotary.rotate(plain, 4))


def test_learned_positions_begin_at_half_the_spread_of_the_tokens():
    torch.manual_seed(0)
    assert Learned(64, max_length=101).weight.std().item() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("make", [lambda: Learned(0), lambda: Learned(4, max_length=0)])
def test_sizes_below_one_are_refused(make):
    with pytest.raises(ValueError, match=r"expected (d_model|max_length) of 1 or more, got 0"):
        make()
    with pytest.raises(ValueError, match="n_heads of 1 or more, got 0"):
        make_positions("rotary", 4, 0)


def test_learned_positions_are_512_unless_told():
    assert len(make_positions("learned", 6, 3).weight) == 512


def test_tables_have_512_rows_unless_told():
    assert len(Sinusoidal(6).table) == len(Rotary(6).table) == 512


@pytest.mark.parametrize("scheme", ["rotary", "alibi"])
def test_schemes_of_the_attention_layers_say_so(scheme):
    assert make_positions(scheme, 8, 2).in_attention
    assert not make_positions("learned", 8, 2).in_attention


def test_no_query_at_all_gets_no_bias():
    assert Positions().bias(0, 3) is None
    assert ALiBi(2).bias(0, 3).shape == (2, 0, 3)
