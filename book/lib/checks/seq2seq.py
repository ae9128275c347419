"""Properties of recurrent parts, and of every model that reads a source and writes a target."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor, nn

from lib.checks import Report, require
from lib.checks.attention import close, expect_tensor
from lib.data import BOS, EOS, PAD

LENGTHS = (3, 7, 1, 5, 2)  # of sources in a padded batch; 7 is the longest


def check_last_states(pick: Callable[[Tensor, Tensor], Tensor]) -> Report:
    """Check pick(states, lengths), the state of each sequence at its last real token.

    Shapes: states (batch, time, d_hidden), lengths (batch,); returns (batch, d_hidden).
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    lengths = torch.tensor(LENGTHS)
    states = _normal(5, 7, 2).requires_grad_()
    last = expect_tensor(pick(states, lengths), (5, 2))
    expected = torch.stack([row[n - 1] for row, n in zip(states, LENGTHS, strict=True)])
    require(
        not close(last, states[:, -1]),
        "this is the state at the end of the padding: a sequence of length 3 ends at index 2, "
        "however long the batch is",
    )
    late = [row[min(n, 6)] for row, n in zip(states, LENGTHS, strict=True)]
    require(
        not close(last, torch.stack(late)),
        "this is one too late: the last of n tokens has index n - 1",
    )
    require(close(last, expected), "row b must be states[b, lengths[b] - 1]")
    last.sum().backward()
    touched = states.grad.abs().sum(-1) > 0
    where = torch.arange(7) == lengths[:, None] - 1
    require(torch.equal(touched, where), "a gradient must reach the last real state, no other")
    return Report(
        "last states",
        ("the state at each true length", "a gradient reaches that state and no other"),
    )


def check_shift_right(shift: Callable[[Tensor], Tensor]) -> Report:
    """Check shift(target_out), which makes what the decoder reads from what it must say.

    Shapes: target_out (batch, target_time), each row ends with EOS, then PAD; returns the same.
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    target_out = torch.tensor(
        [[7, 5, 9, 11, EOS], [8, 6, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]
    )
    kept = target_out.clone()
    target_in = expect_tensor(shift(target_out), (3, 5))
    require(torch.equal(target_out, kept), "the input was changed: return a new tensor")
    require(
        not torch.equal(target_in, target_out),
        "not shifted: the decoder would read at each step the very word that it must say",
    )
    require((target_in[:, 0] == BOS).all().item(), f"every row must start with BOS, which is {BOS}")
    require(
        target_in[0].tolist() == [BOS, 7, 5, 9, 11],
        f"expected [1, 7, 5, 9, 11] from [7, 5, 9, 11, 2], got {target_in[0].tolist()}",
    )
    require(
        not (target_in == EOS).any(),
        "EOS must not be read: nothing is to be said after it. In a shorter row it is followed by "
        "padding, so it is not at the end that you cut off; put PAD in its place",
    )
    expected = [[BOS, 7, 5, 9, 11], [BOS, 8, 6, PAD, PAD], [BOS, PAD, PAD, PAD, PAD]]
    require(target_in.tolist() == expected, f"expected rows {expected}, got {target_in.tolist()}")
    return Report(
        "shift right",
        ("each row starts with BOS", "each word comes one step later", "no EOS is read"),
    )


def check_lstm_step(step: Callable[..., tuple[Tensor, Tensor]]) -> Report:
    """Check step(x, h, c, W, U, b) -> (h, c) against nn.LSTMCell, whose weights it is given.

    Shapes: x (batch, d_in), h and c (batch, d_hidden), W (4 d_hidden, d_in),
        U (4 d_hidden, d_hidden), b (4 d_hidden,): input, forget, candidate and output gate.
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: torch's documentation of nn.LSTMCell. Chapter: 1 (Sequence to sequence).
    """
    for d_in, d_hidden in ((3, 5), (5, 3), (1, 1)):
        torch.manual_seed(d_in)
        cell = nn.LSTMCell(d_in, d_hidden).double()
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)
        x, h, c = _normal(7, d_in), _normal(7, d_hidden) + 1, _normal(7, d_hidden) - 1
        result = step(x, h, c, *weights)
        require(
            isinstance(result, tuple) and len(result) == 2,
            f"expected two tensors, the new h and the new c, got {type(result).__name__}",
        )
        new_h, new_c = (expect_tensor(part, (7, d_hidden)) for part in result)
        right_h, right_c = cell(x, (h, c))
        swapped = close(new_h, right_c) and close(new_c, right_h)
        require(not swapped, "h and c are swapped: h is what other layers see")
        require(
            close(new_c, right_c),
            "c is wrong: c' = forget * c + input * candidate; the rows of W come as input, forget, "
            "candidate, output; the gates use sigmoid, the candidate tanh",
        )
        require(not close(new_h, right_c), "h is not c: it is the output gate times tanh(c')")
        require(close(new_h, right_h), "c is right, h is wrong: h' = output * tanh(c')")
    return Report("LSTM step", ("c equals nn.LSTMCell", "h equals nn.LSTMCell", "three sizes"))


def check_sequence_model(
    model: nn.Module, source_vocab: int, target_vocab: int, *, atol: float = 1e-5
) -> Report:
    """Check any model with forward(source, source_lengths, target_in), start and step.

    The model is checked in evaluation mode and put back into its own.
    Errors: CheckFailed, which says what leaks or where the two ways to run it disagree.
    Source: ours. Chapter: 1 (Sequence to sequence), 10 (The Transformer).
    """
    mode = model.training
    model.eval()
    try:
        with torch.no_grad():
            _check_sequence_model(model, source_vocab, target_vocab, atol)
    finally:
        model.train(mode)
    return Report(
        "sequence model",
        (
            "padding is not read",
            "a sentence gets the same logits alone and in a batch",
            "no step sees a later token, and each sees its own and the source",
            "step by step gives the same logits as all at once",
        ),
    )


def _check_sequence_model(model: nn.Module, n_source: int, n_target: int, atol: float) -> None:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor(LENGTHS, device=device)
    real = torch.arange(7, device=device) < lengths[:, None]
    source = torch.randint(EOS + 1, n_source, (5, 7), generator=generator).to(device)
    source = source.masked_fill(~real, PAD)
    target_in = torch.randint(EOS + 1, n_target, (5, 4), generator=generator).to(device)

    logits = expect_tensor(model(source, lengths, target_in), (5, 4, n_target))

    def same(one: Tensor, other: Tensor) -> bool:
        return torch.allclose(one, other, rtol=0, atol=atol)

    noisy = torch.where(real, source, EOS + 1)
    require(same(model(noisy, lengths, target_in), logits), "padding in the source is read")
    for row, length in enumerate(LENGTHS):
        alone = model(source[row, None, :length], lengths[row, None], target_in[row, None])
        require(
            same(alone[0], logits[row]),
            f"a source of length {length} gets other logits alone than in a batch padded to 7",
        )
    other = model(_next(source, n_source), lengths, target_in)
    require(not same(other, logits), "the source was changed and the logits were not")
    for place in range(4):
        changed = target_in.clone()
        changed[:, place] = _next(changed[:, place], n_target)
        after = model(source, lengths, changed)
        require(
            same(after[:, :place], logits[:, :place]), f"a step before {place} sees token {place}"
        )
        require(not same(after[:, place], logits[:, place]), f"step {place} does not see its token")
    state, steps = model.start(source, lengths), []
    for token in target_in.unbind(1):
        step, _, state = model.step(token, state)
        steps.append(step)
    require(same(torch.stack(steps, dim=1), logits), "step by step gives other logits")


def _next(ids: Int[Tensor, "..."], vocab: int) -> Int[Tensor, "..."]:
    """Another word in each place, none of them special."""
    return EOS + 1 + (ids - EOS) % (vocab - EOS - 1)


def _normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)
