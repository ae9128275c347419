"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.masking.mask_builder import MaskBuilder

SAMPLES = {
    "mask_builder": lambda: MaskBuilder(7, lengths=5, causal=True, by_hand={(1, 4): True}),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("mask_builder", "lengths"): (["3", "1, 2,3", "0,0,99"], ["", "1,", "-1", "1.5", "a", "१२"]),
    ("mask_builder", "by_hand"): (["", "2.4t", "0.0f_63.1t"], ["2.4", "2.4t_", "-1.2t", "2,4t"]),
}
