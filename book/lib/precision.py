"""Training in 16 bits: large products in a smaller type, and what that asks of attention."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def low_precision(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Compute the large products in `dtype`; with None, change nothing.

    On a processor attention takes its plain kernel meanwhile: at the length of a sentence the
    fused one's backward pass takes several times longer in 16 bits than in 32.

    Source: torch.autocast; ours. Chapter: 11 (Training).
    """
    on_processor = dtype is not None and device.type == "cpu"
    kernel = sdpa_kernel(SDPBackend.MATH) if on_processor else nullcontext()
    with torch.autocast(device.type, dtype, enabled=dtype is not None), kernel:
        yield
