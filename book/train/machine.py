"""What the machine offers a run: a device, processors, memory. More is refused before it begins."""

import os

import torch

from lib.notebook import best_device
from lib.transformer import Config

BYTES = 16  # of a parameter in training: itself, its gradient and two moments, in float32


def device(name: str) -> torch.device:
    """The device that is called so, "auto" for the best one, after a trial.

    Errors: ValueError for a device that is not there or that cannot compute.
    """
    try:
        found = best_device() if name == "auto" else torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"expected a device such as cpu or cuda, got {name!r}") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"expected a device that is there, got {name!r}, but torch sees no GPU; "
            "say --device cpu"
        )
    try:
        torch.ones(1, device=found).add(1).item()
    except Exception as error:  # each device has errors of its own
        reason = str(error).split("\n")[0].split(". ")[0]
        raise ValueError(
            f"expected a device that computes, got {name!r} ({reason}); say --device cpu"
        ) from error
    return found


def use_threads(number: int) -> None:
    """Let torch compute with so many threads. Errors: ValueError for more than processors."""
    most = os.cpu_count() or 1
    if number > most:
        raise ValueError(
            f"expected --threads of at most {most}, the processors of this machine, got {number}"
        )
    torch.set_num_threads(number)


def expect_memory(config: Config, where: torch.device, copies: int = 1) -> None:
    """Check that the machine can hold a model in training, before it is built.

    Only matrices are counted, and no activations: what is refused cannot fit.
    Args: `copies`, how many processes have one each, on the processor.
    Errors: ValueError with both sizes.
    """
    memory = _memory(where)
    vocabularies = config.source_vocab + (config.target_vocab or 0)
    attention, feed_forward = 4 * config.d_model**2, 2 * config.d_model * config.d_ff
    layer = 3 * attention + 2 * feed_forward  # of the encoder and of the decoder together
    least = config.n_layers * layer + vocabularies * config.d_model
    needed = BYTES * least * (copies if where.type == "cpu" else 1)
    if memory and needed > memory:
        raise ValueError(
            f"expected a model that fits into the memory of {memory / 2**30:,.0f} GiB, got one of "
            f"{least:,} parameters or more, which need {needed / 2**30:,.0f} GiB in training; "
            "lower --d-model, --d-ff, --layers or the size of the vocabulary"
        )


def _memory(where: torch.device) -> int:
    """The bytes of memory that a device has; 0 where the system does not tell."""
    if where.type == "cuda":
        return torch.cuda.get_device_properties(where).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
