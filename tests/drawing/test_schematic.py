"""The drawing library: what it draws, where, and what it refuses."""

import math
import re
from xml.etree import ElementTree

import pytest

from drawing.schematic import Schematic, above, below, left_of, legs, right_of, spans
from tests.helpers import assert_shapes, normal

ALT = "A box with a name, an arrow, and another box beside it."
SVG = "{http://www.w3.org/2000/svg}"


def new(width: float = 400, height: float = 200) -> Schematic:
    return Schematic(width, height, alt=ALT)


def texts(schematic: Schematic) -> list[str]:
    tree = ElementTree.fromstring(schematic.svg())
    return ["".join(node.itertext()) for node in tree.iter(f"{SVG}text")]


def test_it_is_a_picture_with_a_title_and_the_same_bytes_each_time():
    def drawn() -> str:
        s = new()
        a = s.layer("a < b", at=(60.123, 100))
        s.arrow(a, s.token("cat", at=(300, 40), kind="source"), "$h_1$", path="hv")
        return s.svg()

    tree = ElementTree.fromstring(drawn())
    assert tree.get("role") == "img"
    assert tree[0].tag == f"{SVG}title"
    assert tree[0].text == ALT
    assert "a &lt; b" in drawn()
    assert drawn() == drawn()
    assert not re.search(r"\d\.\d{2}[^\d%]*[,;\"}]", drawn().split("</style>")[1])


def test_a_notebook_gets_the_drawing_and_its_description():
    bundle = new()._repr_mimebundle_()
    assert bundle["text/plain"] == ALT
    assert bundle["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize(("width", "height"), [(401, 10), (0, 10), (400, 0)])
def test_a_size_that_no_phone_shows_is_refused(width, height):
    with pytest.raises(ValueError, match="width of at most 400"):
        Schematic(width, height, alt=ALT)


@pytest.mark.parametrize("alt", ["", "A query and its keys."])
def test_a_drawing_needs_a_description(alt):
    with pytest.raises(ValueError, match="alt text of 8 words or more"):
        Schematic(400, 200, alt=alt)


def test_small_letters_are_refused():
    with pytest.raises(ValueError, match=r"letters of 13 units or more.*12 for 'small'"):
        new().text("small", at=(100, 100), size=12)


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.layer("far out", at=(390, 100)),
        lambda s: s.text("far out", at=(5, 100)),
        lambda s: s.vector("a long name far out", at=(60, 100)),
    ],
)
def test_what_leaves_the_drawing_is_named(draw):
    with pytest.raises(ValueError, match=r"expected all parts within 0 to 400.*far out"):
        draw(new())


def test_an_unknown_kind_side_or_path_is_named():
    s = new()
    with pytest.raises(ValueError, match=r"expected a kind of plain, query, key.*'keys'"):
        s.layer("a", at=(100, 100), kind="keys")
    with pytest.raises(ValueError, match="expected a side of left, top, right, bottom, got 'up'"):
        s.vector("a", at=(100, 100), side="up")
    with pytest.raises(ValueError, match="'hh'"):
        s.arrow((0, 0), (10, 10), path="hh")


def test_parts_stand_beside_one_another():
    s = new()
    a = s.layer("a", at=(200, 100), width=40, height=20)
    sized = {"width": 60, "height": 30}
    assert s.layer("b", at=right_of(a, 10), **sized).centre == (260, 100)
    assert s.layer("c", at=left_of(a, 10), **sized).centre == (140, 100)
    assert s.layer("d", at=below(a, 10), **sized).centre == (200, 135)
    assert s.layer("e", at=above(a, 10), **sized).centre == (200, 65)


def test_anchors_lie_outside_the_labels():
    s = new()
    bare = s.vector(at=(200, 100), cells=2)
    named = s.vector("$x$", at=(200, 100), cells=2, shape=("d_k",))
    assert bare.left[0] - named.left[0] > 10
    assert named.bottom[1] - bare.bottom[1] > 15
    assert named.right == bare.right


def test_a_row_is_spread_about_its_middle_and_leaves_out_with_dots():
    s = new()
    row = s.row(s.token, ["the", "…", "sat"], at=(200, 50), step=90, kind="source")
    assert [part.centre for part in row] == [(110, 50), (200, 50), (290, 50)]
    column = s.column(s.layer, ["a", "b"], at=(40, 100), step=50)
    assert [part.centre for part in column] == [(40, 75), (40, 125)]
    assert texts(s) == ["the", "…", "sat", "a", "b"]


def test_arrows_leave_on_the_side_that_faces_the_other_part():
    s = new()
    a = s.layer("a", at=(100, 50), width=40, height=20)
    b = s.layer("b", at=(250, 150), width=40, height=20)
    assert legs(a, b, "", 0) == [(120, 50), (230, 150)]
    assert legs(a, b, "hv", 0) == [(120, 50), (250, 50), (250, 140)]
    assert legs(b, a, "vh", 0) == [(250, 140), (250, 50), (120, 50)]
    assert legs(a, b, "hvh", 0) == [(120, 50), (175, 50), (175, 150), (230, 150)]
    assert legs(a, b, "vhv", 2) == [(100, 62), (100, 100), (250, 100), (250, 138)]


def test_a_line_to_a_wide_part_is_upright():
    s = new()
    a = s.layer("a", at=(150, 50), width=40, height=20)
    wide = s.layer("wide", at=(200, 150), width=300, height=20)
    assert legs(a, wide, "", 0) == [(150, 60), (150, 140)]
    assert legs(wide, a, "", 0) == [(150, 140), (150, 60)]


def test_mathematics_has_italic_letters_and_readable_subscripts():
    found = [(span.text, span.style) for span in spans("score $s_{t}^T$", 14)]
    assert found == [("score ", ""), ("s", "m"), ("t", "m"), ("T", "m")]
    plain, s, sub, sup = spans("a $s_1^2$", 14)
    assert sup.shift < 0 == s.shift < sub.shift
    assert min(span.size for span in (plain, s, sub, sup)) >= 13
    assert [span.style for span in spans("$softmax$", 14)] == ["u"]


def test_shapes_are_found_by_name_and_must_agree():
    s = new()
    s.matrix("$Q$", at=(80, 60), shape=("query", "d_k"))
    s.layer("$W_Q$", at=(250, 60), shape=("d_model", "heads*d_k"))
    assert s.shapes == {"Q": ("query", "d_k"), "W_Q": ("d_model", "heads*d_k")}
    assert "(dmodel, heads · dk)" in texts(s)
    s.matrix("$Q$", at=(80, 140), shape=("key", "d_k"))
    with pytest.raises(ValueError, match="one shape for 'Q'"):
        _ = s.shapes


@pytest.mark.parametrize(
    ("size", "message"),
    [((5, 3), "Q is shown as"), ((3,), "Q is shown as"), (None, "for each part")],
)
def test_a_wrong_shape_is_found(size, message):
    s = new()
    s.matrix("$Q$", at=(80, 60), shape=("query", "heads*d_k"))
    sizes = {"query": 3, "heads": 2, "d_k": 5}
    assert_shapes(s, {"Q": normal(3, 10)}, sizes)
    with pytest.raises(AssertionError, match=message):
        assert_shapes(s, {"Q": normal(*size)} if size else {}, sizes)


def test_a_mask_crosses_out_what_may_not_be_attended_to():
    s = new()
    s.mask("mask", [[True, False], [True, True]], at=(100, 100))
    crosses = s.svg().count('<g class="plain"><path class="line thin"')
    assert crosses == 1
    assert s.svg().count('class="shade"') == 3


def test_a_cache_shows_what_it_holds_and_its_room():
    s = new()
    part = s.cache("keys", at=(200, 100), filled=2, cells=5, kind="key", cell=10)
    assert part.width == 50
    boxes = re.findall(r'<rect class="([a-z ]+)"[^>]* width="([\d.]+)"', s.body())
    assert boxes == [("box", "20"), ("line dash", "30")]


def test_the_hand_of_a_dial_turns_from_the_top_with_the_clock():
    for turned, tip in ((0, "50 36"), (math.pi / 2, "64 50"), (math.pi, "50 64")):
        s = Schematic(100, 100, alt="A clock with one hand, which has turned by some angle.")
        s.dial(turned, at=(50, 50))
        assert f'class="head" d="M{tip}' in s.svg()


def test_a_plane_has_its_origin_where_it_was_put_and_y_upwards():
    plane = new().plane(origin=(50, 150), unit=20, x=(-1, 4), y=(0, 3))
    assert plane.at(0, 0) == (50, 150)
    assert plane.at(2, 3) == (90, 90)


def test_a_link_surrounds_what_is_drawn_inside():
    s = new()
    with s.link("a.html?b&c", "Chapter 1: a & b", current=True):
        s.layer("a", at=(100, 100))
    (link,) = ElementTree.fromstring(s.svg()).iter(f"{SVG}a")
    assert link.attrib == {
        "href": "a.html?b&c",
        "aria-label": "Chapter 1: a & b",
        "aria-current": "page",
    }
    assert len(list(link.iter(f"{SVG}rect"))) == 1
