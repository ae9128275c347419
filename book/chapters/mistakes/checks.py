"""The checks of the exercises: broken code, in which every mistake must be fixed."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chapters.mistakes.in_attention import HeadsByReshape, MaskedAfterSoftmax, RootOfDModel
from chapters.mistakes.in_model import AndForOr, MaskInTrainingOnly, NoTargetMask
from chapters.mistakes.layer_properties import normal
from chapters.mistakes.model_properties import ModelSubject
from chapters.mistakes.properties import check_attention_layer, check_piece
from chapters.mistakes.specimen import VOCABULARIES, PlainAttention, Specimen
from checks.framework import (
    CLOSE,
    CheckFailed,
    Steps,
    check,
    expect,
    expect_tensor,
    gap,
    require,
    require_close,
    short,
)
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask
from lib.positions import sinusoidal_table


@check("fixed map")
def check_fixed_map(weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check weigh(query, key, mask) -> weights, by the properties "weights", "spread" and "half".

    Shapes: query (batch, heads, query, d_k), key (batch, heads, key, d_k), mask (batch, 1, query,
        key), True = may attend; returns (batch, heads, query, key).
    """

    class Around(PlainAttention):
        def scores(self, query, key):
            return query, key  # the answer compares them itself

        def weigh(self, pair, mask):
            query, key = pair
            sizes = len(query), 1, query.shape[-2], key.shape[-2]
            mask = torch.ones(sizes) > 0 if mask is None else mask.expand(sizes)
            try:
                weights = expect(weigh(query, key, mask), Tensor, "a tensor of weights")
            except CheckFailed as failed:
                raise (failed.__cause__ or failed) from None  # a finding tells what stopped it
            if weights.dtype != query.dtype:
                raise TypeError(f"query is {query.dtype}, and the weights {weights.dtype}")
            return weights

    query, key = torch.ones(1, 1, 1, 4), torch.tensor([-5e4, 0.0])[:, None].expand(1, 1, 2, 4)
    alone = weigh(query, key, torch.tensor([[[[True, False]]]]))
    check_attention_layer(Around, only=("weights", "spread", "half")).insist()
    told = "weights: one key is allowed, its score is -100,000: expected 1 and 0, got "
    told += f"{short(alone[0, 0, 0])}; the filler must lie below every score"
    require_close(alone, torch.eye(2)[None, None, :1], told)
    yield from ("weights", "spread", "half")


class _JoinedByReshape(PlainAttention):
    def join(self, heads):
        return heads.reshape(len(heads), heads.shape[2], -1)


class _ByReshape(_JoinedByReshape, HeadsByReshape):
    pass


class _NotDivided(PlainAttention):
    def scores(self, query, key):
        return query @ key.mT


class _OneHead(PlainAttention):
    def split(self, x):
        return x.unsqueeze(1)


class _QueryForValue(PlainAttention):
    def forward(self, *inputs, **named):
        self.w_v = self.w_q
        return super().forward(*inputs, **named)


MISTAKEN_LAYERS = {
    "its heads are split by reshape alone: transpose (batch, time, heads, d_k)": HeadsByReshape,
    "its heads are merged by reshape alone: transpose them back": _JoinedByReshape,
    "its heads are split and merged by reshape alone: transpose between": _ByReshape,
    "its scores are divided by the root of d_in, not of d_k": RootOfDModel,
    "its scores are not divided by the root of d_k": _NotDivided,
    "it has one head only: split into n_heads": _OneHead,
    "its values are the queries: use w_v": _QueryForValue,
}


@check("fixed layer")
def check_fixed_layer(make: Callable[[int, int, int], nn.Module]) -> Steps:
    """Check make(d_in, n_heads, d_out), self-attention whose matrices are w_q, w_k, w_v and w_o."""
    torch.manual_seed(0)
    x, right = normal(2, 5, 12), MultiHeadAttention(12, 3, d_out=20)
    layer = expect(make(12, 3, 20), nn.Module, "a module")
    with torch.no_grad():
        first, second = (expect_tensor(layer(x), (2, 5, 20)) for _ in range(2))
    yield "sizes"
    require(gap(first, second) < CLOSE, "repeat: the same input gives two outputs")
    yield "repeat"
    wanted = {name: tuple(p.shape) for name, p in right.named_parameters()}
    got = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    unlike = [name for name in wanted | got if wanted.get(name) != got.get(name)]
    each = (f"{name}: expected {wanted.get(name)}, got {got.get(name)}" for name in unlike)
    require(not unlike, f"count: {'; '.join(each)}")
    yield "count"
    outputs = []
    for other in (right, *(wrong(12, 3, 20) for wrong in MISTAKEN_LAYERS.values())):
        other.load_state_dict(layer.state_dict())
        outputs.append(other(x).detach())
    told = f"copied: the same parameters give another output, by {gap(first, outputs[0]):.2g}"
    named = (f"{told}; {meaning}" for meaning in MISTAKEN_LAYERS)
    require_close(first, outputs[0], told, dict(zip(named, outputs[1:], strict=True)), CLOSE)
    yield "copied"


@check("fixed positions")
def check_fixed_positions(make: Callable[[int, int], nn.Module]) -> Steps:
    """Check make(d_model, max_length), whose forward(x, start=0) adds positions start, start + 1...

    Shapes: x (batch, time, d_model), and so is the result.
    """
    module, want = expect(make(24, 64), nn.Module, "a module"), sinusoidal_table(64, 24)
    zero, x = torch.zeros(1, 64, 24), normal(1, 64, 24)
    table = expect_tensor(module(zero), (1, 64, 24)).detach()[0]
    alone = "the output is not x + table and nothing else: no factor, no dropout, and x itself"
    again = expect_tensor(module(x), (1, 64, 24)).detach()[0] - x[0]
    require(gap(again, table) < CLOSE, alone)
    later = module(zero[:, :4], start=7)[0].detach()
    apart = torch.cdist(table, table).fill_diagonal_(torch.inf).min().item()
    same = "two or more positions get the same vector: are the rows taken along x.shape[1]?"
    require(apart > 0.1, same)
    ignored = "start is ignored: the first row of x is position start"
    require(later.shape == (4, 24) and gap(later, table[7:11]) < 1e-6, ignored)
    shift = check_piece(table, "shift")
    require(shift.held, f"shift: {shift.message} (residual {shift.number:.2g})")
    wrong = ~table.isclose(want, 1e-4, 1e-4)
    row, column = divmod(int(wrong.flatten().int().argmax()), 24)  # the first that is wrong
    told = f"sinusoids: position {row}, column {column}: expected {want[row, column]:.4f}, got "
    angle = (
        "; position 0 first, sin in even columns, cos in odd ones; the angle of columns 2i and "
        "2i + 1 is pos / 10000^(2i / d_model)"
    )
    require_close(table, want, f"{told}{table[row, column]:.4f}{angle}", tolerance=1e-4)
    yield "one matrix shifts all"
    yield "start counts"
    trained = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    require(not trained, f"{', '.join(trained)} would be trained: what is fixed is a buffer")
    try:
        module.to("meta").forward(torch.zeros(1, 4, 24, device="meta"), start=7)
    except RuntimeError as error:
        told = f"moves: after .to(device) it stops: {error} Keep the table with register_buffer"
        raise CheckFailed(told) from error
    yield "it moves"


class _MaskInUseOnly(Specimen):
    def target_mask(self, target_in: Tensor) -> Tensor | None:
        return None if self.training else super().target_mask(target_in)


class _FirstSeesFar(Specimen):
    def __init__(self, *args):
        super().__init__(*args, n_layers=1)  # a second layer would pass it on to all

    def target_mask(self, target_in: Tensor) -> Tensor:
        mask = causal_mask(target_in.shape[1]).clone()
        mask[0, -2] = True  # neither the next token nor the last
        return mask


class _WithDropout(Specimen):
    def embed(self, tokens: Tensor, embedding: nn.Module, start: int = 0) -> Tensor:
        return F.dropout(super().embed(tokens, embedding, start), 0.2, self.training)


SUSPECTS: dict[str, tuple[Callable[..., nn.Module], bool]] = {  # how it is made, if it leaks
    "a right model": (Specimen, False),
    "a right model with dropout": (_WithDropout, False),
    "no mask at all": (NoTargetMask, True),
    "a mask in training only": (MaskInTrainingOnly, True),
    "a mask in evaluation mode only": (_MaskInUseOnly, True),
    "two masks of True = hidden, combined by &": (AndForOr, True),
    "a first position that attends to the last but one": (_FirstSeesFar, True),
    "weights masked after the softmax": (partial(Specimen, attention=MaskedAfterSoftmax), True),
}


@check("leak finder")
def check_leak_finder(finds: Callable[[nn.Module, Tensor, Tensor, Tensor], bool]) -> Steps:
    """Check finds(model, source, lengths, target_in) -> whether a logit depends on a later token.

    It meets right models and leaky ones, in both modes, and must leave model and target alone.
    """
    for number, (name, (make, leaks)) in enumerate(SUSPECTS.items()):
        subject, training = (
            ModelSubject(partial(make, *VOCABULARIES), *VOCABULARIES),
            number % 2 == 1,
        )
        model, inputs = subject.model().train(training), subject.batch(6)
        found = expect(finds(model, *inputs), bool, "True or False")
        require(found == leaks, f"{name}: {'a leak' if found else 'no leak'} was found")
        require(model.training == training, "the model was left in another mode")
        yield name
