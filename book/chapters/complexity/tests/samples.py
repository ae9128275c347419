"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.complexity.complexity_explorer import ComplexityExplorer

SAMPLES = {
    "complexity_explorer": lambda: ComplexityExplorer(96, 64, k=5, radius=4, pick="restricted"),
}
