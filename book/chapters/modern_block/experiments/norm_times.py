"""Chapter 16: how long RMSNorm takes beside layer norm, forward alone and with its gradients.

    python experiments/norm_times.py    (half a minute of one core)

Both are torch's functions. The times are the processor's seconds, measured in turn; a ratio is the
median over rounds, of RMSNorm's time to layer norm's.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from measure.experiments import command_line
from measure.records import write_results

SHAPES = {"small": (16, 128, 64), "large": (4, 256, 4096)}  # (batch, time, d_model)


def ratio(shape: tuple[int, ...], *, backward: bool, rounds: int) -> float:
    """The median of RMSNorm's seconds over layer norm's, for an input of this shape."""
    x, gain, bias = torch.randn(shape), torch.ones(shape[-1]), torch.zeros(shape[-1])
    for tensor in (x, gain, bias):
        tensor.requires_grad_(backward)
    repeats = max(1, 2**22 // x.numel())

    def rms() -> Tensor:
        return F.rms_norm(x, gain.shape, gain, 1e-5)

    def layer() -> Tensor:
        return F.layer_norm(x, gain.shape, gain, bias)

    def seconds(norm: Callable[[], Tensor]) -> float:
        since = time.process_time()
        for _ in range(repeats):
            output = norm()
            if backward:
                output.backward(torch.ones_like(output))
        return time.process_time() - since

    seconds(rms), seconds(layer)  # warm up
    return statistics.median(seconds(rms) / seconds(layer) for _ in range(rounds))


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, None, arguments, rounds=15)
    torch.set_num_threads(1)
    ratios = {
        name: {
            "shape": shape,
            "forward": round(ratio(shape, backward=False, rounds=given.options.rounds), 2),
            "both": round(ratio(shape, backward=True, rounds=given.options.rounds), 2),
        }
        for name, shape in SHAPES.items()
    }
    write_results(given.path, {"complete": True, "ratios": ratios})


if __name__ == "__main__":
    main()
