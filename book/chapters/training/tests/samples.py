"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.training.learning_rate import LearningRateExplorer

SAMPLES = {
    "learning_rate": lambda: LearningRateExplorer(
        "cosine", d_model=128, warmup=30, total=500, peak=2e-3, step=101
    ),
}
