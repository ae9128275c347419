"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.modern_block.block_explorer import BlockExplorer

SAMPLES = {
    "block_explorer": lambda: BlockExplorer("Mistral 7B", context=8192, experts=True, bias=True),
}
