"""The checks of chapter 15's exercises: broken parts that must be mended, all of them wholly."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kit.mistakes.in_attention import MaskedAfterSoftmax
from kit.mistakes.in_model import AndForOr, MaskInTrainingOnly, NoTargetMask
from kit.mistakes.layer_properties import shift_is_linear
from kit.mistakes.model_properties import ModelSubject, all_of_it_moves
from kit.mistakes.properties import check_attention_layer
from kit.mistakes.specimen import PlainAttention, Specimen
from kit.shared.checks import Report, gap, require
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask

VOCABULARIES = 29, 23


def check_mended_map(weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check weigh(query, key, mask) -> weights, by the properties "weights", "spread" and "half".

    Shapes: query (batch, heads, query, d_k), key (batch, heads, key, d_k), mask (batch or 1, 1,
        query, key), True = may attend; returns (batch, heads, query, key).
    Errors: CheckFailed, with the properties that fail.
    """

    class Around(PlainAttention):
        def forward(self, x, memory=None, mask=None, *, return_weights=False):
            memory = x if memory is None else memory
            query, key = self.split(self.w_q(x)), self.split(self.w_k(memory))
            if mask is None:
                mask = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool)
            mask = mask if mask.dim() == 3 else mask[None]
            weights = weigh(query, key, mask[:, None])
            require(isinstance(weights, Tensor), f"expected a tensor of weights, got {weights!r}")
            output = self.output(self.join(weights @ self.split(self.w_v(memory))))
            return (output, weights) if return_weights else output

    asked = ("weights", "spread", "half")
    check_attention_layer(Around, only=asked).insist()
    return Report("mended map", asked)


def check_mended_layer(make: Callable[[int, int, int], nn.Module]) -> Report:
    """Check make(d_in, n_heads, d_out), self-attention whose matrices are w_q, w_k, w_v and w_o.

    Errors: CheckFailed, which names what is still broken.
    """
    torch.manual_seed(0)
    x = torch.randn(2, 5, 12)
    try:
        layer, right = make(12, 3, 20), MultiHeadAttention(12, 3, d_out=20)
        with torch.no_grad():
            first, second = layer(x), layer(x)
    except Exception as error:
        require(False, f"it stops: {type(error).__name__}: {error}")
    shape = tuple(first.shape) if isinstance(first, Tensor) else first
    require(shape == (2, 5, 20), f"expected (2, 5, 20), got {shape}")
    require(torch.equal(first, second), "repeat: the same input gives two outputs")
    wanted = {name: tuple(p.shape) for name, p in right.named_parameters()}
    got = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    require(got == wanted, f"count: expected the parameters {wanted}, got {got}")
    right.load_state_dict(layer.state_dict())
    with torch.no_grad():
        number = gap(layer(x), right(x))
    require(number < 1e-5, f"copied: the same weights give another output, by {number:.2g}")
    return Report("mended layer", ("sizes", "repeat", "count", "copied"))


def check_mended_positions(make: Callable[[int, int], nn.Module]) -> Report:
    """Check make(d_model, max_length), whose forward(x, start=0) adds positions start, start + 1...

    Shapes: x (batch, time, d_model), and so is the result.
    Errors: CheckFailed, which names what is still broken.
    """
    try:
        module = make(24, 64)
        table = module(torch.zeros(1, 64, 24))[0].detach()
        later = module(torch.zeros(1, 4, 24), start=7)[0].detach()
    except Exception as error:
        require(False, f"it stops: {type(error).__name__}: {error}")
    require(tuple(table.shape) == (64, 24), f"expected (64, 24), got {tuple(table.shape)}")
    apart = torch.cdist(table, table).fill_diagonal_(torch.inf).min().item()
    require(apart > 0.1, "two positions have the same code")
    require(later.shape == (4, 24) and gap(later, table[7:11]) < 1e-6, "start is not heard")
    shift = shift_is_linear(table)
    require(shift.held, f"shift: {shift.message} (residual {shift.number:.2g})")
    moves = all_of_it_moves(ModelSubject(lambda: module, *VOCABULARIES))
    require(moves.held, f"moves: {moves.message}")
    return Report("mended positions", ("one matrix shifts all", "start is heard", "it moves"))


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


LEAKS = {
    "no mask at all": NoTargetMask,
    "a mask in training only": MaskInTrainingOnly,
    "a mask in use only": _MaskInUseOnly,
    "two masks joined by &": AndForOr,
    "a first position that sees the last": _FirstSeesLast,
}
RIGHT = {"a right model": Specimen, "a right model with dropout": _WithDropout}


def check_leak_finder(finds: Callable[[nn.Module, Tensor, Tensor, Tensor], bool]) -> Report:
    """Check finds(model, source, lengths, target_in) -> whether a logit sees a later token.

    It meets right models and leaky ones, in both modes, and must leave model and target alone.
    Errors: CheckFailed, which names the model that was judged wrongly.
    """
    models = {name: (kind, PlainAttention, False) for name, kind in RIGHT.items()}
    models |= {name: (kind, PlainAttention, True) for name, kind in LEAKS.items()}
    models["weights masked after the softmax"] = (Specimen, MaskedAfterSoftmax, True)
    for name, (kind, attention, leaks) in models.items():
        for training in (True, False):
            subject = ModelSubject(lambda k=kind, a=attention: k(*VOCABULARIES, a), *VOCABULARIES)
            model, (source, lengths, target) = subject.model().train(training), subject.batch(6)
            before = target.clone()
            found = finds(model, source, lengths, target)
            require(isinstance(found, bool), f"expected True or False, got {found!r}")
            said = "a leak" if found else "no leak"
            require(found == leaks, f"{name}: {said} was found")
            require(model.training == training, "the model was left in another mode")
            require(torch.equal(target, before), "target_in was changed: work on a copy")
    return Report("leak finder", tuple(models))
