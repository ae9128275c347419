"""The property tests themselves: what right models pass, what findings say, what is refused."""

import copy
import math

import pytest
import torch
from torch import nn

from kit.mistakes.properties import (
    LAYER,
    MODEL,
    QUESTIONS,
    check_attention_layer,
    check_model,
    check_piece,
)
from kit.mistakes.specimen import PlainAttention, Specimen
from kit.shared.checks import CheckFailed, Finding, Findings, Property, asks, gap
from lib.attention import MultiHeadAttention
from lib.decoding import keep_top_k
from lib.metrics import bleu
from lib.positions import sinusoidal_table
from lib.seq2seq import GRUCell, Seq2Seq
from lib.training import label_smoothed_loss
from lib.transformer import Config, Transformer

SIZES = {"d_model": 24, "n_heads": 3, "d_ff": 20, "n_layers": 2, "dropout": 0.0}


def ours(d_in, n_heads, d_out):
    return MultiHeadAttention(d_in, n_heads, d_out=d_out)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "learned"])
def test_the_librarys_transformer_has_every_property(norm, positions):
    config = Config(29, 23, norm=norm, positions=positions, **SIZES)
    found = check_model(lambda: Transformer(config), 29, 23, only=ALL_BUT_LEARNING)
    assert found.caught == []
    assert len(found) == len(ALL_BUT_LEARNING)


ALL_BUT_LEARNING = tuple(p.name for p in MODEL if p.name not in ("count", "copied", "one batch"))


def test_a_model_without_attention_has_them_too():
    found = check_model(lambda: Seq2Seq(29, 23, 13, 17), 29, 23)
    assert found.caught == []


def test_the_librarys_layer_has_every_property():
    found = check_attention_layer(ours, reference=lambda *s: PlainAttention(*s))
    assert [f.name for f in found] == [p.name for p in LAYER]
    assert found.caught == []


def test_copied_sees_a_bias_that_was_forgotten():
    class Forgets(PlainAttention):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            nn.init.zeros_(self.w_o.bias)  # as many begin: what is forgotten is 0 at first

        def output(self, joined):
            return joined @ self.w_o.weight.T

    (found,) = check_attention_layer(Forgets, reference=ours, only=("copied layer",))
    assert not found.held

    class ForgetsToo(Specimen):
        def project(self, x):
            return super().project(x) - self.decoder["layers"][0]["feed_forward"].norm.bias[0]

    reference = Specimen.reference
    found = check_model(lambda: ForgetsToo(29, 23), 29, 23, reference=reference, only=("copied",))
    assert found.caught == ["copied"]


def test_count_and_copied_are_asked_only_with_something_to_compare():
    names = [
        f.name for f in check_model(lambda: Specimen(29, 23), 29, 23, only=("count", "copied"))
    ]
    assert names == []
    found = check_model(
        lambda: Specimen(29, 23), 29, 23, parameters=1, reference=Specimen.reference
    )
    assert found.caught == ["count"]
    assert "copied" in [f.name for f in found]
    assert [f.name for f in check_attention_layer(ours)] == ["sizes", "weights", "spread", "half"]


def test_findings_read_as_lines_and_insist():
    right, wrong = Finding("a", True, 1e-7, "fine"), Finding("b", False, 0.314159, "not fine")
    stopped = Finding("c", False, None, "it stops")
    found = Findings([right, wrong, stopped])
    lines = repr(found).splitlines()
    assert [line.split()[:2] for line in lines] == [["ok", "a"], ["FAIL", "b"], ["FAIL", "c"]]
    assert "< 1e-5" in lines[0]
    assert "0.31" in lines[1]
    assert "stops" in lines[2]
    assert found.caught == ["b", "c"]
    with pytest.raises(CheckFailed, match=r"(?s)2 of 3 properties fail.*not fine.*it stops"):
        found.insist()
    kept = Findings([right])
    assert kept.insist() is kept


def test_an_error_is_a_finding_and_keeps_the_random_numbers():
    @asks("breaks", "Does it break?")
    def breaks(subject):
        torch.manual_seed(5)
        raise RuntimeError("x" * 300)

    assert isinstance(breaks, Property)
    torch.manual_seed(1)
    found = breaks(None)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    assert (found.held, found.number) == (False, None)
    assert found.message.startswith("it stops: RuntimeError: xxx")
    assert len(found.message) < 160


def test_names_of_properties_are_checked():
    with pytest.raises(ValueError, match=r"expected properties out of sizes, .* got \['futur'\]"):
        check_model(lambda: Specimen(29, 23), 29, 23, only=("futur",))
    with pytest.raises(ValueError, match=r"expected properties out of sizes, .* got 'future'"):
        check_model(lambda: Specimen(29, 23), 29, 23, only="future")
    with pytest.raises(ValueError, match=r"expected properties out of shift, .*'future'"):
        check_piece(None, "future")
    assert all(question.endswith("?") for question in QUESTIONS.values())


def test_gap_is_relative_above_one_and_infinite_where_it_must_be():
    one = torch.tensor([1.0, 200.0])
    assert gap(one, one) == 0
    assert gap(one, one + torch.tensor([0.0, 2.0])) == pytest.approx(2 / 202)
    assert gap(one / 1000, one / 1000 + 0.5) == pytest.approx(0.5)
    assert math.isinf(gap(one, one[:1]))
    assert math.isinf(gap(one, torch.tensor([math.nan, 0.0])))


@pytest.mark.parametrize("layout", ["pairs", "halves"])
def test_shift_takes_any_layout_of_sines_and_cosines(layout):
    table = sinusoidal_table(64, 24)
    if layout == "halves":
        table = torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)
    assert check_piece(table, "shift").held
    at_random = torch.rand(64, 24, generator=torch.Generator().manual_seed(0))
    assert not check_piece(at_random, "shift").held


def test_the_librarys_pieces_have_their_properties():
    def rates(schedule, updates, accumulate):
        return [schedule(step) for step in range(updates)]

    def smoothed(logits, target):
        return label_smoothed_loss(logits[None, :, 1:], target[None] - 1)

    pieces = {"updates": rates, "forbidden": smoothed, "cut": keep_top_k}
    pieces["brevity"] = lambda said, truth: bleu(said, truth).score
    for name, piece in pieces.items():
        finding = check_piece(piece, name)
        assert finding.held, finding


class Leaking(Specimen):
    """Right, but for a number that its last batch left behind."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, source, source_lengths, target_in):
        self.seen += 1
        return super().forward(source, source_lengths, target_in) + self.seen


def test_a_model_that_remembers_its_batches_is_found():
    found = check_model(lambda: Leaking(29, 23), 29, 23, only=("repeat", "learns", "felt"))
    assert found.caught == ["repeat", "learns"]


def test_an_embedding_that_nobody_uses_is_found():
    class Idle(Specimen):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.idle = nn.Linear(3, 2)

    (found,) = check_model(lambda: Idle(29, 23), 29, 23, only=("learns",))
    assert (found.held, found.number) == (False, 8.0)
    assert "idle.weight" in found.message


def test_a_module_in_a_dictionary_stays_behind():
    class Kept(Specimen):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.extra = {"cells": [GRUCell(3, 5)]}

    (found,) = check_model(lambda: Kept(29, 23), 29, 23, only=("moves",))
    assert not found.held
    assert "Kept.extra" in found.message


def test_a_table_that_is_moved_where_it_is_used_does_not_stay_behind():
    class Moves(Specimen):
        def keep_table(self, table):
            self.table = table

        def embed(self, tokens, embedding, start=0):
            self.table = self.table.to(tokens.device)
            return super().embed(tokens, embedding, start)

    check_model(lambda: Moves(29, 23), 29, 23, only=("moves",)).insist()


class Cancels(Specimen):
    """Right, with a parameter whose gradient is exactly 0."""

    def __init__(self, source_vocab, target_vocab, *shape):
        super().__init__(source_vocab, target_vocab)
        self.extra = nn.Parameter(torch.ones(shape))

    def project(self, x):
        return super().project(x) + 0 * self.extra.sum()


def test_a_vector_whose_gradient_is_0_is_reached_and_a_matrix_is_not():
    """As of a bias of the keys, which softmax takes away: how it rounds may not decide."""
    check_model(lambda: Cancels(29, 23, 1), 29, 23, only=("learns",)).insist()
    (found,) = check_model(lambda: Cancels(29, 23, 5, 2), 29, 23, only=("learns",))
    assert (found.held, found.number) == (False, 10.0)
    assert "no gradient reaches extra" in found.message


def test_a_last_bit_that_differs_is_no_other_output():
    class Noisy(Specimen):
        def project(self, x):
            return super().project(x) + 1e-7 * torch.rand(())

    assert check_model(lambda: Noisy(29, 23), 29, 23, only=("repeat",)).caught == []


FINISHED = Specimen(29, 23)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (FINISHED, "got a finished Specimen; write it as lambda"),
        (lambda: FINISHED, "got one that gives the same Specimen.* copy.deepcopy"),
        (lambda: nn.Sequential(FINISHED), "or the same parameters, twice"),
        (lambda: None, "got one that makes None"),
    ],
)
def test_a_model_that_is_not_made_anew_is_refused_and_left_as_it_was(make, message):
    before = {name: value.clone() for name, value in FINISHED.state_dict().items()}
    with pytest.raises(ValueError, match=f"expected a function that makes a new module.*{message}"):
        check_model(make, 29, 23)
    with pytest.raises(ValueError, match=message):
        check_attention_layer(make if isinstance(make, nn.Module) else lambda *_: make())
    assert FINISHED.training
    assert all(torch.equal(before[name], value) for name, value in FINISHED.state_dict().items())


def test_a_copied_model_is_left_as_it_was():
    model = Transformer(Config(29, 23, **SIZES))
    before, numbers = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    only = ("future", "moves", "learns", "one batch", "copied")
    given = {"reference": lambda m: Transformer(m.config), "only": only}
    assert check_model(lambda: copy.deepcopy(model), 29, 23, **given).caught == []
    assert model.training
    assert torch.equal(numbers, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_vocabularies_of_two_words_are_enough_and_of_one_refused():
    only = ("sizes", "future", "felt", "order", "stepwise")
    assert check_model(lambda: Specimen(5, 5), 5, 5, only=only).caught == []
    with pytest.raises(ValueError, match=r"at least 5 tokens.* got 29 and 4"):
        check_model(lambda: Specimen(29, 4), 29, 4)


def test_a_model_that_returns_more_than_logits_is_told_so():
    class Pair(Specimen):
        def forward(self, *inputs):
            return super().forward(*inputs), None

    (found,) = check_model(lambda: Pair(29, 23), 29, 23, only=("sizes",))
    assert found.message == "expected finite logits (5, 3, 23), got a tuple"


@pytest.mark.parametrize(
    "changes", [{}, {"d_model": 128, "n_heads": 8, "d_ff": 512, "n_layers": 3}]
)
def test_right_models_of_any_size_learn_by_heart(changes):
    """Dropout and width may not be mistaken for a mistake."""
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2} | changes
    check_model(lambda: Transformer(Config(29, 31, **sizes)), 29, 31, only=["one batch"]).insist()
