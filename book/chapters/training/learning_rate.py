"""An explorer of learning-rate schedules: the paper's, a cosine, and a constant rate."""

from collections.abc import Iterator
from typing import Any

import traitlets
from traitlets import Enum

from lib.training import cosine, paper_schedule, warm_up
from widgets import domain
from widgets.base import BookWidget, static_table

D_MODELS = (32, 64, 128, 256, 512, 1024, 2048)
WARMUPS = (1, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 4000, 8000, 16_000)
TOTALS = (300, 500, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 300_000)
PEAKS = (1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 2e-3, 3e-3, 4e-3, 6e-3, 8e-3, 1e-2, 2e-2, 3e-2)
SCHEDULES = ("paper", "cosine", "constant")


class LearningRateExplorer(BookWidget):
    """Set the numbers of three schedules; see their curves, their peak, the rate at any step.

    Args: schedule, "paper", "cosine" or "constant", the one that is read out; d_model, one of
        `D_MODELS`, which the paper's schedule reads; warmup, one of `WARMUPS`, for all three (1 is
        none); total, the steps of the run, one of `TOTALS`; peak, one of `PEAKS`, the largest rate
        of the other two; step, counted from 0, the one that is marked, or None for the peak's.
    Errors: ValueError for a start that the controls cannot reach.
    Source: Attention Is All You Need, equation 3, made to move; and `lib.training`.
    """

    _module = "learning_rate"
    schedule = Enum(SCHEDULES, "paper")
    d_model = Enum(D_MODELS, 512)
    warmup = Enum(WARMUPS, 4000)
    total = Enum(TOTALS, 100_000)
    peak = Enum(PEAKS, 7e-4)
    step = domain.Place()

    def __init__(self, schedule: str = "paper", *, step: int | None = None, **numbers: Any):
        marked = {} if step is None else {"step": step}
        super().__init__(schedule=schedule, **numbers, **marked)

    @traitlets.default("step")
    def _peak_step(self) -> int:
        return min(self.warmup, self.total) - 1

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "step", self.total - 1

    def rate(self, schedule: str, step: int) -> float | None:
        """The rate of one of the three at a step, from `lib.training`; None if there is none.

        A cosine has none where the warm-up fills the run.
        """
        if schedule == "paper":
            return paper_schedule(self.d_model, self.warmup)(step)
        if schedule == "constant":
            return self.peak * warm_up(self.warmup)(step)
        if self.warmup >= self.total:
            return None
        return self.peak * cosine(self.total, self.warmup)(step)

    def summary(self) -> str:
        return (
            f"LearningRateExplorer: {self.schedule}, d_model {self.d_model}, "
            f"warm-up {self.warmup}, {self.total} steps, peak {self.peak:g}"
        )

    def static_html(self) -> str:
        last = self.total - 1
        steps = sorted({0, min(self.warmup, self.total) - 1, self.step, last // 2, last})
        rows = [
            (f"{step:,}", *("none" if rate is None else f"{rate:.2e}" for rate in rates))
            for step in steps
            for rates in [[self.rate(name, step) for name in SCHEDULES]]
        ]
        caption = (
            f"Learning rate by step, of {self.total:,}: d_model {self.d_model}, "
            f"warm-up {self.warmup:,}, peak {self.peak:g}"
        )
        return static_table(caption, ("step, from 0", "paper", "cosine", "constant"), rows)
