"""Properties of recurrent parts: for the exercises of the chapter on sequence to sequence."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from checks.framework import (
    Steps,
    check,
    close,
    expect,
    expect_pair,
    expect_tensor,
    normal,
    normals,
    require_close,
    require_gradients,
)
from checks.sequences import LENGTHS
from lib.data import BOS, EOS, PAD

LONGEST = 9  # tokens that a translation of `check_translate` may have


class Parts(nn.Module):
    """The layers of a translator for one sentence, with random parameters, large ones.

    Large, so that each translation depends on everything that is read.
    """

    def __init__(self, seed: int, d_embed: int = 3, d_hidden: int = 5):
        super().__init__()
        self.d_hidden = d_hidden
        self.embed_x = nn.Embedding(11, d_embed)
        self.embed_y = nn.Embedding(7, d_embed)
        self.f = nn.GRUCell(d_embed, d_hidden)
        self.g = nn.GRUCell(d_embed + d_hidden, d_hidden)
        self.output = nn.Linear(d_hidden, 7)
        for number, parameter in enumerate(self.parameters()):
            parameter.data = 2.0 * normal(*parameter.shape, seed=100 * seed + number).float()


def written(
    parts: Parts,
    source: Tensor,
    *,
    backwards: bool = False,
    forgets: bool = False,
    from_zero: bool = False,
    always_first: bool = False,
    first: int = BOS,
    goes_on: bool = False,
) -> list[int]:
    """What a translator writes, and what one with a usual mistake would."""
    zero = h = torch.zeros(parts.d_hidden)
    for x in parts.embed_x(source.flip(0) if backwards else source):
        h = parts.f(x, zero if forgets else h)
    context, s = h, zero if from_zero else h
    read = first
    tokens: list[int] = []
    while len(tokens) < LONGEST and (goes_on or EOS not in tokens):
        s = parts.g(torch.cat([parts.embed_y(torch.tensor(read)), context]), s)
        tokens.append(int(parts.output(s).argmax()))
        read = first if always_first else tokens[-1]
    return tokens


@check("translator")
@torch.no_grad()
def check_translate(translate: Callable[[Any, Tensor, int], Any]) -> Steps:
    """Check translate(parts, source, longest), greedy decoding of one sentence.

    Shapes: source (source_time,), EOS included; returns a list of at most `longest` tokens.
    """
    pairs = []
    for seed in range(12):
        draw = torch.Generator().manual_seed(seed)
        words = torch.randint(EOS + 1, 11, (seed % 5 + 1,), generator=draw)
        pairs.append((Parts(seed), torch.cat([words, torch.tensor([EOS])])))
    right = [written(*pair) for pair in pairs]
    got = []
    for parts, source in pairs:
        tokens = translate(parts, source, LONGEST)
        tokens = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        got.append([int(token) for token in expect(tokens, list, "a list of tokens")])

    def same_as(**mistake: Any) -> bool:
        return got == [written(*pair, **mistake) for pair in pairs]

    yield {
        "BOS is only read: it is no word of the translation": got
        == [[BOS, *tokens][: len(one)] for one, tokens in zip(got, right, strict=True)]
        and all(got),
        "nothing may be written after EOS": same_as(goes_on=True),
        "EOS was written, so it belongs into the list": got
        == [[token for token in tokens if token != EOS] for tokens in right],
        f"with longest = {LONGEST}, {max(map(len, got))} tokens were written": max(map(len, got))
        > LONGEST,
        "each step of the encoder must read the state of the step before": same_as(forgets=True),
        "the source was read backwards": same_as(backwards=True),
    }
    yield {
        "the decoder's first state is the context, not zero": same_as(from_zero=True),
        "the first word that the decoder reads is BOS": any(
            same_as(first=token) for token in range(7) if token != BOS
        ),
        "the decoder must read the word that it has just written": same_as(always_first=True),
    }
    at = next((i for i, pair in enumerate(zip(got, right, strict=True)) if pair[0] != pair[1]), 0)
    yield {f"expected {right[at]} for sentence {at}, got {got[at]}": got != right}
    yield from ("the same words as the chapter's translator", "it stops at EOS", "or at `longest`")


@check("last states")
def check_last_states(pick: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check pick(states, lengths), the state of each sequence at its last real token.

    Shapes: states (batch, time, d_hidden), lengths (batch,); returns (batch, d_hidden).
    """
    states, lengths, rows = normal(5, 7, 2), torch.tensor(LENGTHS), range(5)
    otherwise = "row b must be states[b, lengths[b] - 1]"
    late = states[rows, lengths.clamp(max=6)]
    mistakes = {
        "this is the state at the end of the padding: a sequence "
        "of length 3 ends at index 2, however long the batch is": states[:, -1],
        "this is one too late: the last of n tokens has index n - 1": late,
        "this is one too early: the last of n tokens has index n - 1": states[rows, lengths - 2],
    }
    picked = expect_tensor(pick(states, lengths), (5, 2))
    require_close(picked, states[rows, lengths - 1], otherwise, mistakes)
    fewer = expect_tensor(pick(states[:3], lengths[:3]), (3, 2))
    require_close(fewer, picked[:3], otherwise)
    yield "the state at each true length"

    require_gradients(
        lambda states: pick(states, lengths),
        lambda states: states[rows, lengths - 1],
        states=states,
    )
    yield "a gradient reaches that state and no other"


@check("shift right")
def check_shift_right(shift: Callable[[Tensor], Tensor]) -> Steps:
    """Check shift(target_out), which makes what the decoder reads from what it must predict.

    Shapes: target_out (batch, target_time), each row ends with EOS, then PAD; returns the same.
    """
    said = [[7, 5, 9, 11, EOS], [8, 6, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]
    expected = [[BOS, 7, 5, 9, 11], [BOS, 8, 6, PAD, PAD], [BOS, PAD, PAD, PAD, PAD]]
    target_out = torch.tensor(said)
    rows = expect_tensor(shift(target_out), (3, 5), like=target_out).tolist()
    i = next((i for i, row in enumerate(rows) if row[0] != BOS), 0)
    yield {
        "not shifted: the decoder would read at each step the very word that it must predict": rows
        == said,
        "shifted to the left: each word must come one step later": all(
            row[:-1] == words[1:] for row, words in zip(rows, said, strict=True)
        ),
        f"row {i} starts with {rows[i][0]}, not with BOS, which is {BOS}": rows[i][0] != BOS,
        f"expected {expected[0]} from {said[0]}, got {rows[0]}": rows[0] != expected[0],
        "EOS must not be read: nothing is to be said after it. In a shorter sequence it is "
        "followed by padding, so dropping the last column does not remove it; "
        "put PAD in its place": any(EOS in row for row in rows),
        f"expected rows {expected}, got {rows}": rows != expected,
    }
    yield from ("each row starts with BOS", "each word comes one step later", "no EOS is read")


@check("LSTM step")
def check_lstm_step(step: Callable[..., tuple[Tensor, Tensor]]) -> Steps:
    """Check step(x, h, c, W, U, b) -> (h, c) against torch's cell.

    Shapes: x (batch, d_in), h and c (batch, d_hidden), W (4 d_hidden, d_in),
        U (4 d_hidden, d_hidden), b (4 d_hidden,): input, forget, candidate and output gate.
    Source: torch's documentation of nn.LSTMCell.
    """
    for d_in, n in ((3, 5), (5, 3), (1, 1)):
        inputs = normals((7, d_in), (7, n), (7, n), (4 * n, d_in), (4 * n, n), (4 * n,))
        x, h, c, W, U, b = inputs
        right_h, right_c = torch.lstm_cell(x, (h, c), W, U, b, 0 * b)
        pair = expect_pair(step(*inputs), "two tensors, the new h and the new c")
        new_h, new_c = (
            expect_tensor(part, (7, n), hint=f" for the new {name}")
            for part, name in zip(pair, "hc", strict=True)
        )
        swapped = close(new_h, right_c) and close(new_c, right_h)
        yield {"h and c are swapped: return the new h first": swapped}
        require_close(
            new_c,
            right_c,
            "c is wrong: c' = forget * c + input * candidate; the rows of W come as input, forget, "
            "candidate, output; the gates use sigmoid, the candidate tanh",
            {"b is missing": torch.lstm_cell(x, (h, c), W, U, 0 * b, 0 * b)[1]},
        )
        is_c = {"h is not c: it is the output gate times tanh(c')": right_c}
        require_close(new_h, right_h, "c is right, h is wrong: h' = output * tanh(c')", is_c)
    yield from ("c equals nn.LSTMCell", "h equals nn.LSTMCell", "three sizes")
