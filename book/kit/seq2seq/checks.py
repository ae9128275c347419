"""Properties of recurrent parts: for the exercises of the chapter on sequence to sequence."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.shared.checks import (
    Steps,
    check,
    close,
    expect_pair,
    expect_tensor,
    normals,
    require,
    require_close,
)
from kit.shared.sequence_checks import LENGTHS
from lib.data import BOS, EOS, PAD


@check("last states")
def check_last_states(pick: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check pick(states, lengths), the state of each sequence at its last real token.

    Shapes: states (batch, time, d_hidden), lengths (batch,); returns (batch, d_hidden).
    """
    rows, lengths = range(5), torch.tensor(LENGTHS)
    states = normals((5, 7, 2))[0].requires_grad_()
    last = expect_tensor(pick(states, lengths), (5, 2))
    late = states[rows, lengths.clamp(max=6)]
    mistakes = {
        "this is the state at the end of the padding: a sequence "
        "of length 3 ends at index 2, however long the batch is": states[:, -1],
        "this is one too late: the last of n tokens has index n - 1": late,
    }
    expected = states[rows, lengths - 1]
    require_close(last, expected, "row b must be states[b, lengths[b] - 1]", mistakes)
    yield "the state at each true length"

    (gradient,) = torch.autograd.grad(last.sum(), states)
    touched = gradient.abs().sum(-1) > 0
    where = torch.arange(7) == lengths[:, None] - 1
    require(torch.equal(touched, where), "a gradient must reach the last real state, no other")
    yield "a gradient reaches that state and no other"


@check("shift right")
def check_shift_right(shift: Callable[[Tensor], Tensor]) -> Steps:
    """Check shift(target_out), which makes what the decoder reads from what it must say.

    Shapes: target_out (batch, target_time), each row ends with EOS, then PAD; returns the same.
    """
    target_out = torch.tensor(
        [[7, 5, 9, 11, EOS], [8, 6, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]
    )
    target_in = expect_tensor(shift(target_out), (3, 5))
    rows, first = target_in.tolist(), [BOS, 7, 5, 9, 11]
    expected = [first, [BOS, 8, 6, PAD, PAD], [BOS, PAD, PAD, PAD, PAD]]
    yield {
        "not shifted: the decoder would read at each "
        "step the very word that it must say": torch.equal(target_in, target_out),
        f"every row must start with BOS, which is {BOS}": (target_in[:, 0] != BOS).any(),
        f"expected {first} from [7, 5, 9, 11, 2], got {rows[0]}": rows[0] != first,
        "EOS must not be read: nothing is to be said after it. In a shorter row it is followed by "
        "padding, so it is not at the end that "
        "you cut off; put PAD in its place": (target_in == EOS).any(),
        f"expected rows {expected}, got {rows}": rows != expected,
    }
    yield from ("each row starts with BOS", "each word comes one step later", "no EOS is read")


@check("LSTM step")
def check_lstm_step(step: Callable[..., tuple[Tensor, Tensor]]) -> Steps:
    """Check step(x, h, c, W, U, b) -> (h, c) against nn.LSTMCell, whose weights it is given.

    Shapes: x (batch, d_in), h and c (batch, d_hidden), W (4 d_hidden, d_in),
        U (4 d_hidden, d_hidden), b (4 d_hidden,): input, forget, candidate and output gate.
    Source: torch's documentation of nn.LSTMCell.
    """
    for d_in, d_hidden in ((3, 5), (5, 3), (1, 1)):
        torch.manual_seed(d_in)
        cell = nn.LSTMCell(d_in, d_hidden).double()
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)
        x, h, c = normals((7, d_in), (7, d_hidden), (7, d_hidden))
        right_h, right_c = cell(x, (h, c))
        result = expect_pair(step(x, h, c, *weights), "two tensors, the new h and the new c")
        new_h, new_c = (expect_tensor(part, (7, d_hidden)) for part in result)
        swapped = close(new_h, right_c) and close(new_c, right_h)
        require(not swapped, "h and c are swapped: h is what other layers see")
        require_close(
            new_c,
            right_c,
            "c is wrong: c' = forget * c + input * candidate; the rows of W come as input, forget, "
            "candidate, output; the gates use sigmoid, the candidate tanh",
        )
        is_c = {"h is not c: it is the output gate times tanh(c')": right_c}
        require_close(new_h, right_h, "c is right, h is wrong: h' = output * tanh(c')", is_c)
    yield from ("c equals nn.LSTMCell", "h equals nn.LSTMCell", "three sizes")
