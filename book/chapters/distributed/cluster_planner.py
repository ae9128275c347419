"""A planner of training runs: what a step costs on any number of GPUs, and how many still help."""

from traitlets import Bool, Enum

from measure.costs import Collective, Link, Step, bytes_of_step, data_parallel, plan, sharded
from widgets.base import BookWidget, static_table

GPUS = tuple(2**i for i in range(13))
PARAMETERS = (65, 213, 1000, 7000, 70_000)  # millions; the first two are the paper's models
COMPUTE = tuple(100 * 2**i for i in range(11))  # milliseconds
BANDWIDTHS = tuple(2**i for i in range(10))  # GB/s
LATENCIES = (1, 2, 5, 10, 20, 50, 100)  # microseconds
OVERLAPS = (0, 33, 67, 100)  # percent
STATE_BYTES = 16  # of each parameter: itself, its gradient and Adam's two moments, in float32


class ClusterPlanner(BookWidget):
    """Set a model, a link and a number of GPUs; see the step, its efficiency, and what is sent.

    Args: gpus, one of `GPUS`; parameters in millions, one of `PARAMETERS`; compute, milliseconds
        that one GPU needs for the batch, one of `COMPUTE`; bandwidth in GB/s, one of `BANDWIDTHS`;
        latency in microseconds, one of `LATENCIES`; overlap, per cent of the computing during which
        the links can work, one of `OVERLAPS`; same_batch, all GPUs divide the batch, otherwise each
        has one as large; fsdp, parameters are sharded.
    Errors: ValueError for a start that the controls cannot reach.
    Source: `measure.costs`.
    """

    _module = "cluster_planner"
    _positional = 1
    gpus = Enum(GPUS, 8)
    parameters = Enum(PARAMETERS, 65)
    compute = Enum(COMPUTE, 3200)
    bandwidth = Enum(BANDWIDTHS, 16)
    latency = Enum(LATENCIES, 20)
    overlap = Enum(OVERLAPS, 67)
    same_batch = Bool()
    fsdp = Bool()

    def operations(self) -> list[Collective]:
        """What the ranks exchange in a step."""
        return (sharded if self.fsdp else data_parallel)(self.parameters * 10**6)

    def step(self) -> Step:
        """The step of this plan, from `measure.costs`."""
        return plan(
            self.compute / 1000,
            self.operations(),
            self.gpus,
            Link(self.latency * 1e-6, self.bandwidth * 1e9),
            overlap=self.overlap / 100,
            same_batch=self.same_batch,
        )

    def summary(self) -> str:
        how = "FSDP" if self.fsdp else "DDP"
        return f"ClusterPlanner: {self.gpus} GPUs, {how}, {self.parameters:,} million parameters"

    def static_html(self) -> str:
        step = self.step()
        kept = STATE_BYTES * self.parameters / 1000 / (self.gpus if self.fsdp else 1)
        sent = bytes_of_step(self.operations(), self.gpus) / 1e9
        rows = [
            ("Each GPU holds", f"{kept:.3g} GB"),
            (
                "Each GPU sends",
                f"{sent:.3g} GB a step",
            ),
            ("Computing", f"{1000 * step.compute:.3g} ms"),
            ("Communication", f"{1000 * step.communication:.3g} ms"),
            ("of it not hidden", f"{1000 * step.exposed:.3g} ms"),
            ("A step", f"{1000 * step.total:.3g} ms"),
            ("Efficiency", f"{step.efficiency:.0%}"),
        ]
        return static_table(f"A step, planned. {self.summary()}", ("", "planned"), rows)
