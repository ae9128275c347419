"""What more heads cost on the clock: layers of one d_model, with 1 to 64 heads.

    python experiments/head_times.py                                  (a minute of one core)

Layers of one d_model have the same parameters and matrix multiplications. In turn each reads the
same sentences, forward only, once with torch's fused kernel, which stores no attention map, and
once with its plain one, which writes every map out. Recorded are, for a small d_model and for the
paper's, the medians of the ratios to one head, in seconds of the processor. Beside them stand the
milliseconds of each of the three steps that make and use the maps of the small layer.
"""

import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.attention import MultiHeadAttention
from lib.notebook import seed_everything
from measure.experiments import command_line
from measure.records import write_results

D_MODELS = (64, 512)
POSITIONS, SENTENCES, TURNS = 256, 4, 15
HEADS = (1, 4, 16, 64)
KERNELS = {"fused": SDPBackend.FLASH_ATTENTION, "maps written out": SDPBackend.MATH}


@torch.no_grad()
def seconds(layer: MultiHeadAttention, x: torch.Tensor, kernel: SDPBackend) -> float:
    begun = time.process_time()
    with sdpa_kernel(kernel):
        layer(x)
    return time.process_time() - begun


def ratios(d_model: int, kernel: SDPBackend) -> dict[str, float]:
    """How many times as long as one head each number of heads takes."""
    layers = [MultiHeadAttention(d_model, n_heads).eval() for n_heads in HEADS]
    x = torch.randn(SENTENCES, POSITIONS, d_model)
    turns = [[seconds(layer, x, kernel) for layer in layers] for _ in range(TURNS + 1)]
    to_one = [[one / turn[0] for one in turn] for turn in turns[1:]]  # the first warms up
    medians = [round(median(column), 2) for column in zip(*to_one, strict=True)]
    return dict(zip(map(str, HEADS), medians, strict=True))


@torch.no_grad()
def steps(n_heads: int) -> dict[str, float]:
    """Milliseconds of each step with the maps of the smallest d_model: medians."""
    query, key, value = torch.randn(3, SENTENCES, n_heads, POSITIONS, D_MODELS[0] // n_heads)
    turns = []
    for _ in range(TURNS + 1):
        clock = [time.process_time()]
        scores = query @ key.mT
        clock.append(time.process_time())
        weights = scores.softmax(dim=-1)
        clock.append(time.process_time())
        weights @ value
        clock.append(time.process_time())
        turns.append([1000 * (after - before) for before, after in pairwise(clock)])
    medians = [round(median(column), 2) for column in zip(*turns[1:], strict=True)]
    return dict(zip(("scores", "softmax", "averages"), medians, strict=True))


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments)
    torch.set_num_threads(1)
    seed_everything(0)
    times: dict[str, dict[str, dict[str, float]]] = {}
    for d_model in D_MODELS:
        of_kernels = times.setdefault(str(d_model), {})
        for name, kernel in KERNELS.items():
            of_kernels[name] = ratios(d_model, kernel)
            print(d_model, name, of_kernels[name], flush=True)
    of_steps = {str(n_heads): steps(n_heads) for n_heads in HEADS}
    print(of_steps)
    sizes = {"positions": POSITIONS, "sentences": SENTENCES, "turns": TURNS}
    write_results(given.path, {**sizes, "times": times, "milliseconds": of_steps})


if __name__ == "__main__":
    main()
