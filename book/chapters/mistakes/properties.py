"""What a right Transformer does whatever its parameters: cheap tests of your model or layer.

Each runs a few small batches through a fresh model of the book's interface (`lib.seq2seq`): calling
it is teacher forcing, `start` and `step` decode. No test needs training data, and none asks whether
the loss falls.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn

from chapters.mistakes import layer_properties, model_properties, piece_properties
from chapters.mistakes.layer_properties import LayerSubject
from chapters.mistakes.model_properties import ModelSubject
from checks.framework import Finding, Findings, Property
from lib.data import EOS

FEWEST_TOKENS = EOS + 3  # padding, start and end, and two words that can change places


def _properties(module: ModuleType) -> tuple[Property, ...]:
    """All properties of a module, in the order in which they stand."""
    return tuple(value for value in vars(module).values() if isinstance(value, Property))


MODEL = _properties(model_properties)
LAYER = _properties(layer_properties)
PIECES = _properties(piece_properties)
QUESTIONS = {p.name: p.question for p in (*PIECES, *LAYER, *MODEL)}


def check_model(
    make_model: Callable[[], nn.Module],
    source_vocab: int,
    target_vocab: int,
    *,
    parameters: int | None = None,
    reference: Callable[[Any], nn.Module] | None = None,
    only: Sequence[str] | None = None,
) -> Findings:
    """Ask each property of a model, and say whether it held and which number decided.

    The model is called as `model(source, source_lengths, target_in)` and gives logits. If it also
    decodes, `start(source, source_lengths)` gives a state and `step(token, state)` gives the logits
    of the next token, its attention weights or None, and the new state; without these two
    "stepwise" is left out. Token 0 is padding, 1 begins and 2 ends a sentence.
    Shapes: source (batch, source_time), source_lengths (batch,), target_in (batch, time), token
        (batch,); logits (batch, time, target_vocab), of a step (batch, target_vocab).
    Args: make_model, which makes a new model at each call; its vocabularies. parameters, how many
        there should be, and reference, which makes from a model another one that takes its
        state_dict: without them "count" and "copied" are left out. only, some of the names.
    Errors: ValueError for a make_model that makes no new model, too small a vocabulary, or unknown
        names. None for what a model does: a model that stops is a finding. `insist()` raises.
    """
    if min(source_vocab, target_vocab) < FEWEST_TOKENS:
        raise ValueError(
            f"expected vocabularies of at least {FEWEST_TOKENS} tokens, padding, start, end and "
            f"two words, got {source_vocab} and {target_vocab}"
        )
    _require_new(make_model)
    subject = ModelSubject(make_model, source_vocab, target_vocab, parameters, reference)
    return _ask(MODEL, subject, only)


def check_attention_layer(
    make_layer: Callable[[int, int, int], nn.Module],
    *,
    reference: Callable[[int, int, int], nn.Module] | None = None,
    only: Sequence[str] | None = None,
) -> Findings:
    """Ask each property of an attention layer: layer(x, memory, mask=...) gives its output, and
    layer.attention_weights(x, memory, mask=...) its maps.

    Args: make_layer(d_in, n_heads, d_out); reference, the same for a layer that takes its
        state_dict: without it "copied layer" is left out. only, some of the names.
    Errors: as in `check_model`.
    """
    _require_new(make_layer, 24, 3, 24)
    return _ask(LAYER, LayerSubject(make_layer, reference), only)


def check_piece(piece: object, name: str) -> Finding:
    """Ask one property of a single piece: "shift", "updates", "forbidden", "removed" or "brevity".

    Errors: ValueError for another name.
    """
    return _ask(PIECES, piece, [name])[0]


@torch.no_grad()
def _ask(properties: tuple[Property, ...], subject: object, only: Sequence[str] | None) -> Findings:
    """The findings of these properties; those that learn turn gradients on."""
    names = [p.name for p in properties]
    strange = only if isinstance(only, str) else [n for n in only or () if n not in names]
    if strange:
        raise ValueError(f"expected properties out of {', '.join(names)}, got {strange!r}")
    found = [p(subject) for p in properties if only is None or p.name in only]
    return Findings(finding for finding in found if finding is not None)


def _require_new(make: Callable[..., Any], *sizes: int) -> None:
    """Refuse what is not made anew at each call: the tests change and train what they are given."""
    if isinstance(make, nn.Module):
        got = f"a finished {type(make).__name__}"
    else:
        with torch.random.fork_rng(devices=[]):
            one, other = make(*sizes), make(*sizes)
        if not isinstance(one, nn.Module):
            got = f"one that makes {one!r}"
        elif one is other or set(one.parameters()) & set(other.parameters()):
            got = f"one that gives the same {type(one).__name__}, or the same parameters, twice"
        else:
            return
    raise ValueError(
        f"expected a function that makes a new module at each call, got {got}; write it as "
        "lambda: Model(...), or lambda: copy.deepcopy(model) for a model that you have"
    )
