"""A planner of training runs: what a step costs on any number of GPUs, and how many still help."""

from typing import TypedDict

from traitlets import Bool, Enum

from measure.costs import (
    Collective,
    Link,
    Step,
    activation_bytes,
    bytes_of_step,
    data_parallel,
    plan,
    sharded,
    state_bytes,
    tokens_that_hide,
    training_flops,
)
from widgets.base import BookWidget, static_table

GPUS = tuple(2**i for i in range(13))
GPUS_PER_MACHINE = 8
SHAPES = {  # millions of parameters: layers, d_model; the first two are the paper's models
    65: (12, 512),
    213: (12, 1024),
    1000: (20, 2048),
    7000: (32, 4096),
    70_000: (80, 8192),
}
PARAMETERS = tuple(SHAPES)
THOUSANDS = (1, 2, 4, 8, 16, 25, 50, 100, 200, 500, 1000, 2000, 4000, 8000, 16_000)  # of tokens
SPEEDS = (3, 10, 30, 100, 200, 400, 800)  # 10^12 FLOPs a second that a GPU does reach
BANDWIDTHS = (1, 2, 4, 8, 16, 25, 50, 100, 200, 400, 800)  # GB/s
LATENCIES = (1, 2, 5, 10, 20, 50, 100)  # microseconds
STAGES = {"DDP": 0, "ZeRO 1": 1, "ZeRO 2": 2, "FSDP": 3}


class Numbers(TypedDict):
    """What the planner shows: tokens and bytes of each GPU, seconds, and a fraction."""

    tokens: float
    needed: float
    held: float
    activations: float
    sent: float
    compute: float
    communication: float
    exposed: float
    total: float
    efficiency: float


class ClusterPlanner(BookWidget):
    """Set a model, its tokens, links and a number of GPUs; see the step, and what it takes.

    Args: gpus, one of `GPUS`; parameters in millions, one of `PARAMETERS`; thousands of tokens that
        the GPUs divide, one of `THOUSANDS`, or with `growing` that each of them gets; speed of a
        GPU in TFLOP/s, one of `SPEEDS`; inside, bandwidth between two GPUs of a machine, and
        between, of all links between two machines together, in GB/s, of `BANDWIDTHS`; latency in
        microseconds, one of `LATENCIES`; sharing, one of `STAGES`; overlap, the links work while
        the GPUs compute; recompute, activations are made twice; mixed, parameters, gradients and
        activations in bfloat16.
    Errors: ValueError for a start that the controls cannot reach.
    Source: `measure.costs`.
    """

    _module = "cluster_planner"
    _positional = 1
    gpus = Enum(GPUS, 8)
    parameters = Enum(PARAMETERS, 65)
    thousands = Enum(THOUSANDS, 25)
    speed = Enum(SPEEDS, 3)
    inside = Enum(BANDWIDTHS, 16)
    between = Enum(BANDWIDTHS, 16)
    latency = Enum(LATENCIES, 20)
    sharing = Enum(tuple(STAGES), "DDP")
    growing = Bool()
    overlap = Bool(True)
    recompute = Bool()
    mixed = Bool()

    def operations(self) -> list[Collective]:
        """What the ranks exchange in a step."""
        count, stage, each = self.parameters * 10**6, STAGES[self.sharing], 2 if self.mixed else 4
        if stage == 0:
            return data_parallel(count, bytes_each=each)
        return sharded(count, stage=stage, bytes_each=each)

    def link(self) -> Link:
        """The slowest link of the ring: one between two machines, as soon as there are two."""
        one = self.gpus <= GPUS_PER_MACHINE
        bandwidth = self.inside if one else min(self.inside, self.between)
        return Link(self.latency * 1e-6, bandwidth * 1e9)

    def step(self) -> Step:
        """The step of this plan, from `measure.costs`."""
        flops = training_flops(
            self.parameters * 10**6, self.thousands * 1000, recompute=self.recompute
        )
        return plan(
            flops / (self.speed * 1e12),
            self.operations(),
            self.gpus,
            self.link(),
            overlap=self.overlap,
            backward=3 / 4 if self.recompute else 2 / 3,
            same_batch=not self.growing,
        )

    def numbers(self) -> Numbers:
        """What the page shows of this plan."""
        count, (layers, d_model) = self.parameters * 10**6, SHAPES[self.parameters]
        tokens = self.thousands * 1000 / (1 if self.growing else self.gpus)
        step = self.step()
        return {
            "tokens": tokens,
            "needed": tokens_that_hide(
                self.operations(),
                count,
                self.speed * 1e12,
                self.link().bandwidth,
                recompute=self.recompute,
            ),
            "held": state_bytes(count, self.gpus, stage=STAGES[self.sharing], mixed=self.mixed),
            "activations": activation_bytes(
                tokens,
                d_model,
                layers,
                bytes_each=2 if self.mixed else 4,
                recompute=self.recompute,
            ),
            "sent": bytes_of_step(self.operations(), self.gpus),
            "compute": step.compute,
            "communication": step.communication,
            "exposed": step.exposed,
            "total": step.total,
            "efficiency": step.efficiency,
        }

    def summary(self) -> str:
        what = f"{self.gpus} GPUs, {self.sharing}, {self.parameters:,} million parameters"
        return f"ClusterPlanner: {what}"

    def static_html(self) -> str:
        found = self.numbers()
        rows = [
            ("Tokens on each GPU", f"{found['tokens']:,.0f}"),
            ("Tokens that would hide the links", f"{found['needed']:,.0f}"),
            ("Parameters, gradients, Adam", f"{found['held'] / 1e9:.3g} GB"),
            ("Activations of the layers", f"{found['activations'] / 1e9:.3g} GB"),
            ("Each GPU sends", f"{found['sent'] / 1e9:.3g} GB a step"),
            ("Computing", f"{1000 * found['compute']:.3g} ms"),
            ("Communication", f"{1000 * found['communication']:.3g} ms"),
            ("of it not hidden", f"{1000 * found['exposed']:.3g} ms"),
            ("A step", f"{1000 * found['total']:.3g} ms"),
            ("Efficiency", f"{found['efficiency']:.0%}"),
        ]
        return static_table(f"A step, planned. {self.summary()}", ("", "planned"), rows)
