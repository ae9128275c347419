"""Some thirty mistakes that people made in Transformers, each in a re-creation of our own.

`MISTAKES` lists them. Each one in a model replaces one method of `specimen.PlainAttention` or of
`specimen.Specimen`, which are right; `mistake_matrix` asks every property of every one.
"""

import torch

from lib.checks.findings import Finding
from lib.checks.properties import check_attention_layer, check_model
from lib.checks.properties_parts import found_in
from lib.mistakes.mistake import Mistake
from lib.mistakes.records import MISTAKES
from lib.mistakes.specimen import PlainAttention, Specimen

__all__ = ["COLUMNS", "MISTAKES", "Mistake", "find_mistake", "findings_of", "mistake_matrix"]

VOCABULARIES = 29, 23  # of the models that are tested
COLUMNS = (
    *("sizes", "weights", "spread", "half", "shift", "future", "padding", "alone", "felt", "order"),
    *("stepwise", "repeat", "saved", "moves", "learns", "count", "first loss", "one batch"),
    "copied",
)


def find_mistake(name: str) -> Mistake:
    """The mistake whose broken class or function has this name.

    Errors: ValueError for a name that none has. Source: ours. Chapter: 15 (Mistakes in the wild).
    """
    for mistake in MISTAKES:
        if mistake.name == name:
            return mistake
    raise ValueError(f"expected the name of a mistake, such as NoTargetMask, got {name!r}")


def findings_of(mistake: Mistake | None) -> dict[str, Finding]:
    """What each property finds in the model with this mistake, or in the right one for None.

    Source: ours. Chapter: 15 (Mistakes in the wild).
    """
    if mistake is not None and not mistake.in_a_model:
        found = found_in(mistake.broken, mistake.property)
        return {found.name: found}
    make = Specimen if mistake is None else mistake.make
    layer = PlainAttention if mistake is None else mistake.attention
    torch.manual_seed(0)
    right = type("Right", (Specimen,), {"tied": make(*VOCABULARIES).tied})(*VOCABULARIES)
    shift = found_in(make(*VOCABULARIES).table, "shift")
    of_layer = check_attention_layer(layer)
    of_model = check_model(
        lambda: make(*VOCABULARIES),
        *VOCABULARIES,
        parameters=sum(p.numel() for p in right.parameters()),
        reference=lambda model: model.reference(),
    )
    found = {finding.name: finding for finding in (shift, *of_layer)}
    for finding in of_model:  # "sizes" is asked of both: what fails is kept
        if finding.name not in found or found[finding.name].held:
            found[finding.name] = finding
    return {name: found[name] for name in COLUMNS}


def mistake_matrix() -> dict[str, dict[str, Finding]]:
    """The findings for every mistake in a model, by name and property: 20 seconds or less.

    Source: ours. Chapter: 15 (Mistakes in the wild).
    """
    return {mistake.name: findings_of(mistake) for mistake in MISTAKES if mistake.in_a_model}
