"""What the build adds to the pages: formulas, fonts, lighter pictures."""

import matplotlib.pyplot as plt
import pytest
from PIL import Image
from sphinx.errors import ExtensionError

from build.doctree.mathml import to_mathml
from build.pages.fonts import icon_characters, math_characters
from build.pages.images import lighten


def test_a_formula_becomes_mathml_with_its_source_as_text():
    math = to_mathml(r"\frac{QK^\top}{\sqrt{d_k}}", True)
    assert math.startswith('<math alttext="\\frac{QK^\\top}{\\sqrt{d_k}}"')
    assert "<mfrac>" in math
    assert "<msqrt>" in math
    assert "annotation" not in math


@pytest.mark.parametrize(
    ("latex", "letter"),
    [
        (r"\mathbb{R}", "ℝ"),
        (r"\mathbb{E}", "𝔼"),
        (r"\mathbf{x}", "𝐱"),
        (r"\mathbf{3}", "𝟑"),
        (r"\mathcal{L}", "ℒ"),
    ],
)
def test_styled_letters_are_characters_of_their_own(latex, letter):
    assert f">{letter}<" in to_mathml(latex, False)


def test_columns_of_an_equation_array_meet_at_the_sign():
    math = to_mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", True)
    assert math.count("text-align:right;padding-right:0;") == 2
    assert math.count("text-align:left;padding-left:0;") == 2


def test_a_named_function_stands_off_its_argument():
    assert "mspace" in to_mathml(r"\exp e", False)
    assert "mspace" not in to_mathml(r"\exp(e)", False)


@pytest.mark.parametrize("latex", [r"\frac{a}", r"\unknowncommand", r"\mathfrak{g}"])
def test_what_cannot_be_set_stops_the_build(latex):
    with pytest.raises(ExtensionError, match="formula"):
        to_mathml(latex, False)


def test_the_maths_font_holds_the_italic_letters_that_a_browser_puts_in():
    characters = math_characters(["<p>z</p><math><mi>x</mi><mi>h</mi><mi>Ω</mi><mi>ε</mi></math>"])
    assert {"x", "𝑥", "ℎ", "√", "𝛺", "𝜀"} <= characters
    assert "z" not in characters


def test_icons_are_found_by_code_and_as_characters():
    styles = ['a:after{content:"\\f105"}', ':root{--icon:"\uf0f3"}']
    assert icon_characters(styles) == {"\uf105", "\uf0f3"}


def test_a_picture_gets_lighter_and_stays_the_same_size(tmp_path):
    path = tmp_path / "picture.png"
    axes = plt.subplots()[1]
    axes.plot([0, 1, 0, 1], label="a line")
    axes.legend()
    axes.figure.savefig(path)
    plt.close(axes.figure)
    with Image.open(path) as drawn:
        size = drawn.size
    before = path.stat().st_size
    lighten(path)
    assert path.stat().st_size < before
    with Image.open(path) as lighter:
        assert lighter.size == size
    assert list(tmp_path.iterdir()) == [path]
