"""What a right Transformer does whatever its weights: cheap tests of a model or layer of your own.

Each runs a few small batches through a fresh model of the book's interface (`lib.seq2seq`): calling
it is teacher forcing, `start` and `step` decode. No test needs training data, and none asks whether
the loss falls.
"""

from collections.abc import Callable, Sequence

from torch import nn

from kit.mistakes import layer_properties as parts
from kit.mistakes import model_properties as reading
from kit.mistakes import model_properties as weights
from kit.mistakes.model_properties import ModelSubject
from kit.shared.checks import Findings, Property

MODEL = (
    reading.runs_on_all_sizes,
    reading.future_is_unseen,
    reading.padding_is_unread,
    reading.batch_is_unseen,
    reading.tokens_are_felt,
    reading.order_is_felt,
    reading.steps_agree,
    reading.repeats_itself,
    weights.saved_is_the_same,
    weights.all_of_it_moves,
    weights.all_of_it_learns,
    weights.count_is_right,
    weights.first_loss_is_a_guess,
    weights.learns_by_heart,
    weights.copy_agrees,
)
LAYER = (
    parts.layer_runs,
    parts.weights_are_shares,
    parts.spread_is_constant,
    parts.half_is_enough,
    parts.copied_layer_agrees,
)
PIECES = (
    parts.shift_is_linear,
    parts.rate_follows_updates,
    parts.forbidden_is_free,
    parts.cut_is_zero,
    parts.brevity_is_punished,
)
QUESTIONS = {p.name: p.question for p in (*PIECES, *LAYER, *MODEL)}


def check_model(
    make_model: Callable[[], nn.Module],
    source_vocab: int,
    target_vocab: int,
    *,
    parameters: int | None = None,
    reference: Callable[[nn.Module], nn.Module] | None = None,
    only: Sequence[str] | None = None,
) -> Findings:
    """Ask each property of a model, and say whether it held and which number decided.

    Args: make_model, which makes a new model at each call; its vocabularies. parameters, how many
        there should be, and reference, which makes from a model another one that takes its
        state_dict: without them "count" and "copied" are left out. only, some of the names.
    Errors: none for what a model does: a model that stops is a finding. `insist()` raises.
    """
    subject = ModelSubject(make_model, source_vocab, target_vocab, parameters, reference)
    return _ask(MODEL, subject, only)


def check_attention_layer(
    make_layer: Callable[[int, int, int], nn.Module],
    *,
    reference: Callable[[int, int, int], nn.Module] | None = None,
    only: Sequence[str] | None = None,
) -> Findings:
    """Ask each property of an attention layer: layer(x, memory, mask=..., return_weights=...).

    Args: make_layer(d_in, n_heads, d_out); reference, the same for a layer that takes its
        state_dict: without it "copied layer" is left out. only, some of the names.
    Errors: none, as in `check_model`.
    """
    return _ask(LAYER, parts.LayerSubject(make_layer, reference), only)


def _ask(properties: tuple[Property, ...], subject: object, only: Sequence[str] | None) -> Findings:
    names = [p.name for p in properties]
    strange = [name for name in only or () if name not in names]
    if strange:
        raise ValueError(f"expected properties out of {', '.join(names)}, got {strange}")
    found = [p(subject) for p in properties if only is None or p.name in only]
    return Findings(finding for finding in found if finding is not None)
