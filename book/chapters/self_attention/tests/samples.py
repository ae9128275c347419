"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer

SAMPLES = {
    "self_attention_explorer": lambda: SelfAttentionExplorer(
        {"red": [1.0, 0.5], "fox": [-0.25, 1.5], "runs": [0.0, -1.0]},
        "red fox runs",
        query=1,
        projections=([[1, 0, 2], [0, 4, 0]], [[0, 1, 0], [3, 0, 0]], [[1, 0], [0.5, -1]]),
        features=("colour", "life"),
    ),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("self_attention_explorer", "sentence"): (
        ["fox", "red red runs fox"],
        ["", "cat", "red cat", " ".join(["red"] * 65)],
    ),
    ("self_attention_explorer", "edited"): (
        ["", "red=1,-2", "fox=0,0.125;red=2,2"],
        ["red", "red=", "red=1", "red=1,2,3", "red=1,2.5", "red=1,nan", "cat=1,1", "red=1,1;"],
    ),
}
