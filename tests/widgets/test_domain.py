"""The domain of every trait of every widget: held at each assignment, and not only at the start."""

import inspect

import numpy as np
import pytest
import torch
import traitlets

from chapters.attention_layer.softmax_scale import SoftmaxScaleExplorer
from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.tests.samples import bins, sentences
from chapters.complexity.complexity_explorer import ComplexityExplorer
from chapters.decoding.beam_explorer import BeamExplorer
from chapters.decoding.tests.samples import ROWS
from chapters.embeddings.tied_softmax import TiedSoftmaxExplorer
from chapters.families.families_explorer import FamiliesExplorer
from chapters.families.tests.samples import rows_of_families
from chapters.masking.mask_builder import MaskBuilder
from chapters.mistakes.tests.samples import hunted
from chapters.multi_head.tests.samples import measured
from chapters.positions.position_explorer import PositionExplorer
from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer
from chapters.seq2seq.tests.samples import recorded_runs
from chapters.training.learning_rate import LearningRateExplorer
from chapters.transformer.tests.samples import traced
from engine.laboratory import Laboratory
from lib.data import Pair
from tests.packed import packed
from tests.widget_domains import inside, outside, traits
from tests.widget_samples import SAMPLES

TRAITS = [(name, trait) for name, make in sorted(SAMPLES.items()) for trait in traits(make())]


@pytest.mark.parametrize(("module", "name"), TRAITS)
def test_what_is_outside_the_domain_is_refused_and_changes_nothing(module, name):
    widget = SAMPLES[module]()
    before, heard = widget.data_json(), []
    widget.observe(heard.append)
    for value in outside(widget, name):
        with pytest.raises(ValueError, match=r": expected .*, got "):
            setattr(widget, name, value)
        assert widget.data_json() == before, value
    assert heard == []


@pytest.mark.parametrize(("module", "name"), TRAITS)
def test_what_is_inside_the_domain_is_held(module, name):
    widget = SAMPLES[module]()
    for value in inside(widget, name):
        setattr(widget, name, value)
        assert getattr(widget, name) == value
        assert type(getattr(widget, name)) is type(value) or isinstance(value, int)
        widget.data_json()
        assert widget.summary()
        assert "<table>" in widget.static_html()


def test_the_named_ways_past_the_constructor_are_closed():
    explorer = SoftmaxScaleExplorer(16)
    for value in (48, True, "16", None, np.int64(16), torch.ones(2)):
        with pytest.raises(ValueError, match=r"d_k: expected one of 1, 2, 4, .*, 1024, got "):
            explorer.d_k = value
    explorer.d_k = 32.0
    assert (type(explorer.d_k), explorer.d_k) == (int, 32), "as the list has it"
    player = AlignmentPlayer(sentences())
    with pytest.raises(ValueError, match="step: expected a whole number from 0 to 1, got -3"):
        player.step = -3


def test_a_number_is_kept_as_the_browser_can_hold_it():
    explorer = SoftmaxScaleExplorer()
    explorer.temperature = 2
    assert explorer.data_json().count('"temperature":2.0') == 1
    beam = BeamExplorer({"sample": ROWS})
    beam.alpha = 1
    assert beam.data_json().count('"alpha":1.0') == 1


def test_data_are_fixed_once_the_widget_is_built():
    player = AlignmentPlayer(sentences())
    with pytest.raises(ValueError, match="sentences: expected what the widget was built with, got"):
        player.sentences = sentences()[:1]
    assert len(player.sentences) == 2


# --- values that depend on one another ----------------------------------------------------------


def test_a_place_must_lie_within_what_is_chosen():
    rates = LearningRateExplorer(total=500)
    with pytest.raises(ValueError, match="step: expected a whole number from 0 to 499, got 500"):
        rates.step = 500
    rates.total = 1000
    rates.step = 500
    families = FamiliesExplorer(rows_of_families())
    families.shown = 4
    with pytest.raises(ValueError, match="shown: expected a whole number from 1 to 4, got 5"):
        families.shown = 5
    positions = PositionExplorer(d_model=16)
    with pytest.raises(ValueError, match="pair: expected a whole number from 0 to 7, got 8"):
        positions.pair = 8


def test_a_place_past_the_end_follows_the_end():
    rates = LearningRateExplorer(total=1000, step=800)
    rates.total = 500
    assert rates.step == 499
    rates.total = 1000
    assert rates.step == 499, "only as far as it must"
    words = {"red": [1.0, 0.5], "fox": [-0.25, 1.5]}
    explorer = SelfAttentionExplorer(words, "red fox fox", query=2, key=1)
    explorer.sentence = "fox red"
    assert (explorer.query, explorer.key) == (1, 1)
    assert PositionExplorer(d_model=4).pair == 1, "the usual start, within a narrow width"


def assign_together(widget, **values):
    with widget.hold_trait_notifications():
        for name, value in values.items():
            setattr(widget, name, value)


def test_values_that_change_together_are_looked_at_together():
    rates = LearningRateExplorer(total=500, step=3)
    assign_together(rates, step=900, total=1000)
    assert (rates.total, rates.step) == (1000, 900)
    before = rates.data_json()
    with pytest.raises(ValueError, match="step: expected"):
        assign_together(rates, step=700, total=500)
    assert rates.data_json() == before, "all of it is taken back"


def test_a_mistake_is_named_whatever_else_is_taken_back():
    words = {"red": [1.0, 0.5], "fox": [-0.25, 1.5]}
    with pytest.raises(ValueError, match="edited: expected TOKEN= and 2 numbers"):
        TiedSoftmaxExplorer(words, [0, 1], "red", edited="red=9,9")
    with pytest.raises(ValueError, match="query: expected a whole number from 0 to 1, got 2"):
        SelfAttentionExplorer(words, "red fox", edited="fox=1,1", query=2)
    with pytest.raises(ValueError, match=r"lr: expected one of .*, got 2"):
        Laboratory("neighbours", n_heads=2, lr=2)


def test_the_first_of_two_mistakes_is_named():
    for _ in range(3):
        with pytest.raises(ValueError, match="sentence: expected a whole number from 0 to 1"):
            AlignmentPlayer(sentences(), sentence=9, step=99)


def test_the_browser_may_name_a_place_past_the_end():
    """It shows the last one then, and so does the kernel; all else is refused as from Python."""
    player = AlignmentPlayer(sentences(), sentence=1, step=3)
    player.set_state({"sentence": 0})
    assert (player.sentence, player.step) == (0, 1)
    player.set_state({"step": 3})
    assert player.step == 1
    with pytest.raises(ValueError, match="step: expected"):
        player.set_state({"step": "x"})
    with pytest.raises(ValueError, match="step: expected"):
        player.step = 3
    assert player.step == 1


def test_linked_widgets_hold_the_same():
    one, other = PositionExplorer(), PositionExplorer()
    traitlets.link((one, "length"), (other, "length"))
    one.length = 8
    assert other.length == 8
    with pytest.raises(ValueError, match="length: expected a whole number from"):
        one.length = 1000
    assert (one.length, other.length) == (8, 8)


def test_rules_that_the_page_leaves_out_are_left_out_of_the_mask():
    """The reader can switch to cross-attention with the rules on; the page says so, and goes on."""
    widget = MaskBuilder(3, lengths=2, causal=True, radius=1, by_hand={(2, 2): True})
    widget.kind, widget.n_keys = "cross", 2
    assert widget.mask().tolist() == [[True, True]] * 3
    widget.padding, widget.lengths = "queries", "1, 2"  # not one for each of three queries
    assert widget.mask().all()
    widget.lengths = "1, 0, 3"  # more than there are keys
    assert widget.mask().all()
    widget.lengths = "1, 0, 2"
    assert widget.mask().tolist() == [[True, False], [False, False], [True, True]]
    assert "cross-attention, 3 queries, 2 keys" in widget.summary()


def test_a_sentence_of_the_readers_own_can_be_shown_again():
    tracer = SAMPLES["forward_tracer"]()
    tracer.set_state({"own": "six days", "sentence": 2})
    assert "six days &lt;eos&gt;" in tracer.static_html()
    assert tracer._repr_mimebundle_()


# --- constructors -------------------------------------------------------------------------------


def test_constructors_say_what_they_take():
    signature = inspect.signature(ComplexityExplorer)
    assert str(signature).startswith("(n=64, d=512, *, k=3, radius=16, dilated=False")
    assert "lengths" not in signature.parameters, "data of the domain are no choice"
    assert ComplexityExplorer(96, d=64).data()["n"] == 96


@pytest.mark.parametrize("module", sorted(SAMPLES))
def test_unknown_arguments_are_refused(module):
    widget = SAMPLES[module]()
    with pytest.raises(TypeError, match="unexpected"):
        type(widget).__mro__[1](*arguments(module), no_such=1)


def arguments(module):
    words = {"red": [1.0, 0.5], "fox": [-0.25, 1.5]}
    return {
        "alignment_player": [sentences()],
        "run_losses": [[]],
        "beam_explorer": [{"sample": ROWS}],
        "bottleneck_explorer": [bins()],
        "bottleneck_runs": [recorded_runs()],
        "bug_hunt": hunted(),
        "families_explorer": [rows_of_families()],
        "forward_tracer": [*traced()],
        "head_ablation": [packed(), [Pair(("six",), ("six",))], measured()],
        "self_attention_explorer": [words, "red"],
        "tied_softmax": [words, [0, 1], "red"],
    }.get(module, [])
