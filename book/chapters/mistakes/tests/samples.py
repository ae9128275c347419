"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.mistakes.bug_hunt import BugHunt
from checks.framework import Finding


def hunted() -> tuple[dict, dict, dict]:
    """Three mistakes by three properties, two cases, and a right model, all by hand."""

    def row(name: str, held: bool, number: float | None, message: str) -> tuple[str, Finding]:
        return name, Finding(name, held, number, message)

    held = row("padding", True, 0.0, "no logit moved")
    future = row("future", False, 0.31, "an earlier logit sees a later token")
    matrix = {
        "NoTargetMask": dict([future, held, row("copied", False, 0.25, "other logits")]),
        "MinusBillion": dict(
            [row("future", True, 0.0, "unseen"), held, row("copied", True, 0.0, "same")]
        ),
        "UsedBeforeAssigned": dict(
            row(name, False, None, "it stops: UnboundLocalError: <b>embedded</b>")
            for name in ("future", "padding", "copied")
        ),
    }
    shown = {
        "losses": [5.25, 2.5, 0.125],
        "validation": 0.25,
        "source": ["two", "<b>euros</b>", "<eos>"],
        "wanted": ["deux", "euros", "<eos>"],
        "said": ["deux", "deux"],
        "map": [[0.75, 0.25, 0.0], [0.125, 0.875, 0.0], [0.0, 0.0, 1.0]],
    }
    cases = {"NoTargetMask": shown, "MinusBillion": shown | {"said": [], "validation": 1.5}}
    return matrix, cases, shown | {"losses": [5.0, 3.0, 1.0], "said": ["deux", "euros"]}


SAMPLES = {
    "bug_hunt": lambda: BugHunt(*hunted(), case=1),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("bug_hunt", "asked"): (["", "0", "2.0.1"], ["3", "0.", "-1", "a", "0,1"]),
}
