"""Widgets with a model: what the page knows of it beforehand, and what the kernel sends."""

import pytest

from tests.packed import packed
from tests.widget_samples import SAMPLES
from train.run import EXTRA_LENGTH
from train.translator import ROUND
from widgets.model_widget import LONGEST, LONGEST_OF_ANY

NAMES = ("forward_tracer", "head_ablation")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_knows_the_model_and_does_not_hold_it(name):
    widget, model = SAMPLES[name](), packed()
    assert widget.engine == {
        "id": model.id,
        "bytes": len(model.data),
        "words": model.header["source_words"],
        "ready": ["six days", "days"],
        **LONGEST,
    }
    assert str(model.header["tensors"][0][0]) not in widget.data_json()


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_sends_the_model_to_a_page_that_asks_for_it(name, monkeypatch):
    widget, sent = SAMPLES[name](), []
    monkeypatch.setattr(widget, "send", lambda message, buffers: sent.append((message, buffers)))
    for wanted in ("other", packed().id):
        widget._handle_custom_msg({"wanted": wanted}, [])
    assert sent == [({"model": packed().id, "header": packed().header}, [packed().data])]


def test_a_reader_s_model_stops_where_its_translator_does():
    longest = LONGEST_OF_ANY["longest"]
    assert (LONGEST_OF_ANY["round"], LONGEST_OF_ANY["extra"]) == (ROUND, EXTRA_LENGTH)
    assert LONGEST_OF_ANY["max_length"] == -(-longest // ROUND) * ROUND + EXTRA_LENGTH
