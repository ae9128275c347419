"""What more heads cost on the clock: layers of one d_model, with 1 to 64 heads.

    python experiments/head_times.py                              (half a minute of one core)

All layers have the same d_model, so the same parameters and matrix multiplications. In turn each
reads the same sentences, forward only, once with torch's fused kernel, which stores no attention
map, and once with its plain one, which writes every map out. Recorded are the medians of the ratios
to one head, in seconds of the processor.
"""

import sys
import time
from pathlib import Path
from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.attention import MultiHeadAttention
from lib.notebook import seed_everything
from measure.experiments import command_line
from measure.records import write_results

D_MODEL, POSITIONS, SENTENCES, TURNS = 64, 256, 4, 15
HEADS = (1, 4, 16, 64)
KERNELS = {"fused": SDPBackend.FLASH_ATTENTION, "maps written out": SDPBackend.MATH}


@torch.no_grad()
def seconds(layer: MultiHeadAttention, x: torch.Tensor, kernel: SDPBackend) -> float:
    begun = time.process_time()
    with sdpa_kernel(kernel):
        layer(x)
    return time.process_time() - begun


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments)
    torch.set_num_threads(1)
    seed_everything(0)
    layers = [MultiHeadAttention(D_MODEL, n_heads).eval() for n_heads in HEADS]
    x = torch.randn(SENTENCES, POSITIONS, D_MODEL)
    times = {}
    for name, kernel in KERNELS.items():
        turns = [[seconds(layer, x, kernel) for layer in layers] for _ in range(TURNS + 1)]
        ratios = [[one / turn[0] for one in turn] for turn in turns[1:]]  # the first warms up
        medians = [round(median(column), 2) for column in zip(*ratios, strict=True)]
        times[name] = dict(zip(map(str, HEADS), medians, strict=True))
        print(name, times[name])
    sizes = {"d_model": D_MODEL, "positions": POSITIONS, "sentences": SENTENCES, "turns": TURNS}
    write_results(given.path, {**sizes, "times": times})


if __name__ == "__main__":
    main()
