"""The self-attention explorer's start, and what it refuses."""

import math

import pytest

from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer

WORDS = {"red": [1.0, 0.5], "fox": [-0.25, 1.5], "runs": [0.0, -1.0]}


def test_text_without_scripts_holds_the_embeddings_in_order():
    text = SelfAttentionExplorer(WORDS, "fox runs fox").static_html()
    assert text.count(">fox<") == 2
    assert "-0.25" in text


@pytest.mark.parametrize(
    ("words", "sentence", "message"),
    [
        (WORDS, "", "1 to 64 words, got 0"),
        (WORDS, "red " * 65, "got 65"),
        (WORDS, "red cat", r"got \['cat'\]"),
        ({"red": [1.0]}, "red", "2 to 512 numbers"),
        ({"red": [1.0, 2.0], "fox": [1.0]}, "red", "rows of 2 numbers"),
        ({"red": [1.0, 2.5]}, "red", "from -2 to 2"),
        ({"red": [1.0, 0.5], "a=b": [0.0, 0.0]}, "red", "without spaces"),
    ],
)
def test_bad_words_are_refused(words, sentence, message):
    with pytest.raises(ValueError, match=message):
        SelfAttentionExplorer(words, sentence)


def test_projections_may_make_outputs_of_another_dimension():
    square, wide = [[1, 0], [0, 1]], [[1, 0, 0, 2], [0, 1, 0.5, 0]]
    start = {"projections": (square, square, wide), "projected": True}
    widget = SelfAttentionExplorer(WORDS, "red fox", entry=3, **start)
    assert widget.matrices[2] == wide
    widget.projected = False  # then an output is as wide as a vector
    assert widget.entry == 1
    plain = SelfAttentionExplorer(WORDS, "red fox", projected=True, entry=1)
    assert plain.matrices == []  # nothing to switch on


def test_entries_have_names_if_given():
    text = SelfAttentionExplorer(WORDS, "red", features=("colour", "life")).static_html()
    assert ">life<" in text
    assert "entry" not in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"projections": ([[1], [1]],)}, "projections: expected W.Q, W.K and W.V, or none, got 1"),
        (
            {"projections": ([[1], [1]], [[1, 2], [3, 4]], [[1], [1]])},
            "projections: expected a W.K of 2 x 1, got",
        ),
        ({"projections": ([[1]], [[1]], [[1]])}, "projections: expected a W.Q of 2 x 1, got"),
        ({"projections": ([[1], [1]], [[1], [1]], [[1], [math.nan]])}, "finite"),
        ({"features": ("one",)}, "features: expected 2 names, one for each entry, or none, got 1"),
        ({"projected": 1}, "projected: expected True or False"),
    ],
)
def test_projections_and_names_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SelfAttentionExplorer(WORDS, "red", **settings)


def test_a_place_outside_the_sentence_is_refused():
    with pytest.raises(ValueError, match="query: expected"):
        SelfAttentionExplorer(WORDS, "red fox", query=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random": (65, 8)}, "n_tokens: expected a whole number from 1 to 64, got 65"),
        ({"random": (3, 7)}, "width: expected one of .*, got 7"),
        ({"random": (3, 8), "spread": 0.33}, "spread: expected one of .*, got 0.33"),
        ({"seed": 100}, "seed: expected a whole number from 0 to 99, got 100"),
        ({"random": (3, 8), "key": 3}, "key: expected a whole number from 0 to 2"),
        ({"entry": 2}, "entry: expected a whole number from 0 to 1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SelfAttentionExplorer(WORDS, "red fox", **settings)


def test_random_tokens_are_drawn_in_the_page_and_need_no_data():
    widget = SelfAttentionExplorer(WORDS, "red fox", random=(64, 512), query=63, entry=511)
    assert repr(widget) == "SelfAttentionExplorer: 64 random tokens of dimension 512"
    assert len(widget.data_json()) < 1000


def test_wide_vectors_from_python_are_held_and_cut_in_the_static_table():
    words = {f"w{i}": [0.001 * (i - k % 7) for k in range(512)] for i in range(37)}
    widget = SelfAttentionExplorer(words, " ".join(words), entry=511)
    assert len(widget.data_json()) < 200_000
    html = widget.static_html()
    assert "the first 8 entries; 504 more" in html
    assert html.count("<tr>") == 38
    assert "entry 9" not in html
