"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.decoding.beam_explorer import BeamExplorer

# Greedy takes "no"; the likeliest sentence is "yes"; with a penalty the longest one wins.
ROWS = {
    (): {"no": 0.45, "yes": 0.4, "<b>": 0.15},
    ("no",): {"<eos>": 0.5, "no": 0.3, "yes": 0.2},
    ("no", "no"): {"<eos>": 1.0},
    ("no", "yes"): {"<eos>": 1.0},
    ("yes",): {"<eos>": 0.6, "yes": 0.4},
    ("yes", "yes"): {"no": 1.0},
    ("yes", "yes", "no"): {"<eos>": 0.95, "yes": 0.05},
    ("yes", "yes", "no", "yes"): {"<eos>": 1.0},
    ("<b>",): {"<eos>": 1.0},
}


SAMPLES = {
    "beam_explorer": lambda: BeamExplorer({"yes or no": ROWS}, beam=2, alpha=0.6),
}
