"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.feed_forward_norm.norm_explorer import NormExplorer

SAMPLES = {
    "norm_explorer": lambda: NormExplorer(
        7, norm="pre", residual=True, scale=1, d_model=16, seed=3
    ),
}
