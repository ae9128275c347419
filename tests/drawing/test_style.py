"""The colours of schematics can be told apart from their ground, in both themes."""

import pytest

from drawing.style import DARK, KINDS, LIGHT, SHADE, TINT, page, standalone
from tests.build.test_figures import channels, contrast


def on_paper(colour: str, paper: str, strength: float) -> tuple[float, ...]:
    """A colour laid on the paper with this opacity."""
    pairs = zip(channels(colour), channels(paper), strict=True)
    return tuple(strength * one + (1 - strength) * other for one, other in pairs)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_text_and_lines_stand_out(kind, theme):
    """WCAG 2.2: 4.5 to 1 for text, so for lines as well; also on the tint of a box."""
    paper = theme["paper"]
    if kind == "lit":  # the other way round: filled, with letters like paper
        assert contrast(channels(paper), channels(theme[kind])) >= 4.5
        return
    ink = theme["ink"] if kind == "plain" else theme[kind]
    for ground in (channels(paper), on_paper(theme[kind], paper, TINT)):
        assert contrast(channels(ink), ground) >= 4.5
        assert contrast(channels(theme[kind]), ground) >= 3


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lit"])
def test_letters_on_a_shaded_cell_can_be_read(kind, theme):
    both = TINT + (1 - TINT) * SHADE
    ground = on_paper(theme[kind], theme["paper"], both)
    assert contrast(channels(theme["ink"]), ground) >= 4.5


def test_a_page_names_each_colour_and_a_file_carries_them():
    for name, colour in LIGHT.items():
        assert f"--sch-{name}:{colour}" in page()
        assert f"var(--sch-{name})" in page()
        assert colour in standalone()
    assert "var(" not in standalone()
    assert all(colour in standalone() for colour in DARK.values())
