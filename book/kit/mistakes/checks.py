"""The checks of the exercises: broken parts that must be mended, all of them wholly."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.mistakes.in_attention import MaskedAfterSoftmax
from kit.mistakes.in_model import AndForOr, MaskInTrainingOnly, NoTargetMask
from kit.mistakes.layer_properties import normal
from kit.mistakes.model_properties import ModelSubject, all_of_it_moves
from kit.mistakes.properties import check_attention_layer, check_piece
from kit.mistakes.specimen import VOCABULARIES, PlainAttention, Specimen
from kit.shared.checks import CLOSE, Report, Steps, check, expect, gap, guarded, require
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask


def check_mended_map(weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check weigh(query, key, mask) -> weights, by the properties "weights", "spread" and "half".

    Shapes: query (batch, heads, query, d_k), key (batch, heads, key, d_k), mask (batch or 1, 1,
        query, key), True = may attend; returns (batch, heads, query, key).
    Errors: CheckFailed, with the properties that fail.
    """

    class Around(PlainAttention):
        def scores(self, query, key):
            return query, key  # the answer compares them itself

        def weigh(self, pair, mask):
            query, key = pair
            sizes = query.shape[-2], key.shape[-2]
            mask = torch.ones(sizes, dtype=torch.bool) if mask is None else mask
            weights = weigh(query, key, mask.reshape(-1, 1, *sizes))
            require(isinstance(weights, Tensor), f"expected a tensor of weights, got {weights!r}")
            return weights

    asked = ("weights", "spread", "half")
    check_attention_layer(Around, only=asked).insist()
    return Report("mended map", asked)


@check("mended layer")
def check_mended_layer(make: Callable[[int, int, int], nn.Module]) -> Steps:
    """Check make(d_in, n_heads, d_out), self-attention whose matrices are w_q, w_k, w_v and w_o."""
    torch.manual_seed(0)
    x, layer, right = normal(2, 5, 12), make(12, 3, 20), MultiHeadAttention(12, 3, d_out=20)
    with torch.no_grad():
        first, second = guarded(layer)(x), guarded(layer)(x)
    shape = tuple(first.shape) if isinstance(first, Tensor) else first
    require(shape == (2, 5, 20), f"expected (2, 5, 20), got {shape}")
    yield "sizes"
    require(gap(first, second) < CLOSE, "repeat: the same input gives two outputs")
    yield "repeat"
    wanted = {name: tuple(p.shape) for name, p in right.named_parameters()}
    got = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    require(got == wanted, f"count: expected the parameters {wanted}, got {got}")
    yield "count"
    right.load_state_dict(layer.state_dict())
    with torch.no_grad():
        number = gap(layer(x), right(x))
    require(number < CLOSE, f"copied: the same weights give another output, by {number:.2g}")
    yield "copied"


@check("mended positions")
def check_mended_positions(make: Callable[[int, int], nn.Module]) -> Steps:
    """Check make(d_model, max_length), whose forward(x, start=0) adds positions start, start + 1...

    Shapes: x (batch, time, d_model), and so is the result.
    """
    module = expect(make(24, 64), nn.Module, "a module")
    table = guarded(module)(torch.zeros(1, 64, 24))[0].detach()
    later = guarded(module)(torch.zeros(1, 4, 24), start=7)[0].detach()
    require(tuple(table.shape) == (64, 24), f"expected (64, 24), got {tuple(table.shape)}")
    apart = torch.cdist(table, table).fill_diagonal_(torch.inf).min().item()
    require(apart > 0.1, "two positions have the same code")
    require(later.shape == (4, 24) and gap(later, table[7:11]) < 1e-6, "start is not heard")
    shift = check_piece(table, "shift")
    require(shift.held, f"shift: {shift.message} (residual {shift.number:.2g})")
    yield "one matrix shifts all"
    yield "start is heard"
    moves = all_of_it_moves(ModelSubject(lambda: module, *VOCABULARIES))
    assert moves is not None  # it asks for no reference
    require(moves.held, f"moves: {moves.message}")
    yield "it moves"


class _MaskInUseOnly(Specimen):
    def target_mask(self, target_in: Tensor) -> Tensor | None:
        return None if self.training else super().target_mask(target_in)


class _FirstSeesLast(Specimen):
    def __init__(self, *args):
        super().__init__(*args, n_layers=1)  # a second layer would pass it on to all

    def target_mask(self, target_in: Tensor) -> Tensor:
        mask = causal_mask(target_in.shape[1]).clone()
        mask[0, -1] = True
        return mask


class _WithDropout(Specimen):
    def embed(self, tokens: Tensor, embedding: nn.Module, start: int = 0) -> Tensor:
        return F.dropout(super().embed(tokens, embedding, start), 0.2, self.training)


SUSPECTS: dict[str, tuple[Callable[..., nn.Module], bool]] = {  # how it is made, if it leaks
    "a right model": (Specimen, False),
    "a right model with dropout": (_WithDropout, False),
    "no mask at all": (NoTargetMask, True),
    "a mask in training only": (MaskInTrainingOnly, True),
    "a mask in use only": (_MaskInUseOnly, True),
    "two masks joined by &": (AndForOr, True),
    "a first position that sees the last": (_FirstSeesLast, True),
    "weights masked after the softmax": (partial(Specimen, attention=MaskedAfterSoftmax), True),
}


@check("leak finder")
def check_leak_finder(finds: Callable[[nn.Module, Tensor, Tensor, Tensor], bool]) -> Steps:
    """Check finds(model, source, lengths, target_in) -> whether a logit sees a later token.

    It meets right models and leaky ones, in both modes, and must leave model and target alone.
    """
    for name, (make, leaks) in SUSPECTS.items():
        subject = ModelSubject(partial(make, *VOCABULARIES), *VOCABULARIES)
        for training in (True, False):
            model, inputs = subject.model().train(training), subject.batch(6)
            found = expect(finds(model, *inputs), bool, "True or False")
            said = "a leak" if found else "no leak"
            require(found == leaks, f"{name}: {said} was found")
            require(model.training == training, "the model was left in another mode")
        yield name
