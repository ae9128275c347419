"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.positions.position_explorer import PositionExplorer

SAMPLES = {
    "position_explorer": lambda: PositionExplorer(
        "sinusoidal", 16, length=19, base=100, position=5, shift=3, pair=2
    ),
}
