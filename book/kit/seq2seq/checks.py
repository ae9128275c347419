"""Properties of recurrent parts: for the exercises of the chapter on sequence to sequence."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.shared.checks import Report, close, expect_tensor, require
from kit.shared.sequence_checks import LENGTHS
from lib.data import BOS, EOS, PAD


def check_last_states(pick: Callable[[Tensor, Tensor], Tensor]) -> Report:
    """Check pick(states, lengths), the state of each sequence at its last real token.

    Shapes: states (batch, time, d_hidden), lengths (batch,); returns (batch, d_hidden).
    Errors: CheckFailed, which names the mistake if it is a known one.
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
    Source: torch's documentation of nn.LSTMCell.
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


def _normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)
