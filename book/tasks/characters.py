"""Text as single characters, for language models: a text, training on it, loss by position.

The text is Python's own reference on its statements and types, which every Python carries as
`pydoc_data.topics` (licence: Python Software Foundation). It is long enough to learn spelling and
the forms of phrases from, and much too short for more.
"""

import string
from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lib.data import Vocabulary
from lib.layers import in_mode
from lib.training import Loss, cosine, token_loss, train

_ALPHABET = "\n" + "".join(c for c in string.printable if c.isprintable())  # 96 characters


def character_vocabulary() -> Vocabulary:
    """Line end and the 95 printable characters of ASCII, whatever the text holds."""
    return Vocabulary(_ALPHABET)


def python_topics(*, held_out: float = 0.05) -> tuple[str, str]:
    """Python's reference on its statements and types, split into a training and a held-out text.

    The topics quote each other at length, so a paragraph that has stood before is left out: none
    stands in both texts. So are characters outside `character_vocabulary`.

    Errors: ValueError for a fraction `held_out` that is not between 0 and 1.
    Source: ours; text: Python Software Foundation.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"expected held_out between 0 and 1, got {held_out}; it is a fraction")
    paragraphs = "\n\n".join(topics[name] for name in sorted(topics)).split("\n\n")
    known = set(_ALPHABET)
    text = "\n\n".join(
        "".join(c for c in paragraph if c in known) for paragraph in dict.fromkeys(paragraphs)
    )
    cut = round(len(text) * (1 - held_out))
    return text[:cut], text[cut:]


def _windows(text: Tensor, length: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Batches of random windows of the text, (batch, length + 1), without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(text) - length, (batch_size, 1), generator=generator)
        yield text[starts + torch.arange(length + 1)]


def next_token(
    model: nn.Module, rows: Int[Tensor, "batch window"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the losses of a model that predicts the next token, and their number."""
    target = rows[:, 1:]
    total = token_loss(model(rows[:, :-1]), target, reduction="sum")
    return total, torch.tensor(target.numel())


def train_on_text(
    model: nn.Module,
    text: Int[Tensor, " characters"],
    steps: int,
    lr: float,
    *,
    length: int,
    batch_size: int = 32,
    warmup: int = 20,
    seed: int = 0,
    loss: Loss = next_token,
) -> list[float]:
    """Train model(tokens) -> logits to predict the next token, on windows of `length` tokens.

    It is `lib.training.train` with a cosine schedule; `loss` is as there, of a batch of windows
    (batch, length + 1). Returns: the loss of every step.
    Errors: ValueError for a text that is not longer than a window; those of `train`.
    """
    if not 0 < length < len(text):
        raise ValueError(
            f"expected windows of at least 1 token and a longer text, got length={length} and "
            f"{len(text)} tokens; shorten the windows"
        )
    stream = _windows(text, length, batch_size, seed)
    return train(model, stream, steps, lr, loss=loss, schedule=cosine(steps, warmup))


@torch.no_grad()
def loss_by_position(
    model: nn.Module,
    text: Int[Tensor, " characters"],
    length: int,
    *,
    stride: int | None = None,
    batch_size: int = 32,
) -> Float[Tensor, " {length}"]:
    """Mean loss at each position of a window, in nats: entry t has seen t + 1 tokens.

    A window starts every `stride` tokens, every `length` unless given. Each stretch of `stride`
    positions then judges nearly the same text, and only where it stands in the window differs.

    Errors: ValueError for a text that is not longer than a window, or a stride below 1.
    """
    stride = length if stride is None else stride
    if not 0 < length < len(text) or stride < 1:
        raise ValueError(
            "expected a stride of at least 1 and a text longer than a window, got "
            f"stride={stride}, length={length} and {len(text)} tokens"
        )
    device = next(model.parameters()).device
    windows = text.unfold(0, length + 1, stride)  # (windows, length + 1)
    losses = []
    with in_mode(model, training=False):
        for batch in windows.split(batch_size):
            batch = batch.to(device)
            logits = model(batch[:, :-1])
            losses.append(F.cross_entropy(logits.mT, batch[:, 1:], reduction="none").cpu())
    return torch.cat(losses).mean(0)  # (windows, length) -> (length,)
