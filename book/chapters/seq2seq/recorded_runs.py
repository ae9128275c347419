"""What `experiments/bottleneck.py` has recorded, as a chapter's cell reads it."""

from typing import Any

from measure.records import read_results

POINT = ("model", "d_hidden", "steps", "lr")


def measured(model: str, d_hidden: int, steps: int, lr: float) -> list[dict[str, Any]]:
    """The measurements of the runs with these settings after `steps` steps, one for each seed.

    Errors: ValueError for settings that are not recorded; it lists those that are.
    """
    found: dict[tuple, list[dict[str, Any]]] = {}
    for run in read_results("bottleneck")["runs"]:
        for point in run["checkpoints"]:
            settings = (run["model"], run["d_hidden"], point["step"], run["lr"])
            found.setdefault(settings, []).append(point)
    wanted = (model, d_hidden, steps, lr)
    if wanted not in found:
        known = ", ".join(map(str, found))
        raise ValueError(f"expected recorded settings {POINT} ({known}), got {wanted}")
    return found[wanted]
