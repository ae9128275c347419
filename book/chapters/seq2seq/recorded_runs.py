"""What `experiments/bottleneck.py` has recorded of this chapter's translator."""

from typing import Any

from measure.records import read_results

RECORD = "bottleneck"
MODEL = "last state only"  # the record has another model's runs too, for the next chapter
POINT = ("d_hidden", "steps", "lr")


def recorded() -> dict[str, Any]:
    """The record, with the runs of this chapter's translator alone."""
    record = read_results(RECORD)
    return {**record, "runs": [run for run in record["runs"] if run["model"] == MODEL]}


def measured(d_hidden: int, steps: int, lr: float) -> list[dict[str, Any]]:
    """The measurements of the runs with these settings after `steps` steps, one for each seed.

    Errors: ValueError for settings that are not recorded; it lists those that are.
    """
    found: dict[tuple, list[dict[str, Any]]] = {}
    for run in recorded()["runs"]:
        for point in run["checkpoints"]:
            found.setdefault((run["d_hidden"], point["step"], run["lr"]), []).append(point)
    wanted = (d_hidden, steps, lr)
    if wanted not in found:
        known = ", ".join(map(str, found))
        raise ValueError(f"expected recorded settings {POINT} ({known}), got {wanted}")
    return found[wanted]
