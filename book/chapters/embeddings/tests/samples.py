"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.embeddings.tied_softmax import TiedSoftmaxExplorer

SAMPLES = {
    "tied_softmax": lambda: TiedSoftmaxExplorer(
        {"un": [1.0, 0.5], "deux": [-0.25, 1.5], "<i>": [0.0, -1.0]},
        [0.5, 1.0],
        "deux",
        temperature=0.5,
        smoothing=0.1,
    ),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("tied_softmax", "edited"): (
        ["", "un=3,-3", "deux=0.5,0;<i>=1,1"],
        ["un=1", "un=4,0", "un=0,inf", "cinq=1,1", "un=x,1"],
    ),
}
