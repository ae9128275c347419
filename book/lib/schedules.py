"""Learning-rate schedules: functions of the number of the update, counted from 0.

A schedule has no state of its own: whoever knows the number of the update knows the rate. So a run
that is resumed needs nothing but that number to go on with the right rate.
"""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def cosine(steps: int, warmup: int = 0) -> Schedule:
    """A schedule: the factor on the learning rate rises over `warmup` steps, then falls to 0.

    factor(step) = (step + 1) / warmup                                 for step < warmup
                   (1 + cos(pi (step - warmup) / (steps - warmup))) / 2   after it
    Errors: ValueError unless 0 <= warmup < steps. Source: ours. Chapter: 11 (Training).
    """
    if not 0 <= warmup < steps:
        raise ValueError(
            f"expected 0 <= warmup < steps, got warmup={warmup} and steps={steps}: "
            "leave steps in which the rate can fall"
        )

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (steps - warmup))))

    return factor


def warm_up(warmup: int) -> Schedule:
    """A schedule: the factor rises to 1 over `warmup` steps and stays there.

    factor(step) = min(1, (step + 1) / warmup)

    Errors: ValueError for a negative warmup.
    Source: ours. Chapter: 11 (Training).
    """
    if warmup < 0:
        raise ValueError(f"expected a warmup of 0 or more steps, got {warmup}")
    return lambda step: min(1.0, (step + 1) / warmup) if warmup else 1.0


def paper_schedule(d_model: int, warmup: int = 4000) -> Schedule:
    """The paper's schedule: the rate itself, so it is used with lr=1.

    rate(step) = d_model^-0.5 min(n^-0.5, n warmup^-1.5)   with n = step + 1

    It rises in a straight line to (d_model warmup)^-0.5 at n = warmup, then falls as 1 / sqrt(n).

    Errors: ValueError for d_model or warmup below 1.
    Source: Attention Is All You Need, section 5.3, equation 3. Chapter: 11 (Training).
    """
    for name, value in (("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"expected {name} of at least 1, got {value}; the paper has 512, 4000")
    return lambda step: d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)
