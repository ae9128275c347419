"""The self-attention explorer's start, and what it refuses."""

import pytest

from lib.widgets.self_attention_explorer import SelfAttentionExplorer

WORDS = {"red": [1.0, 0.5], "fox": [-0.25, 1.5], "runs": [0.0, -1.0]}


def test_text_without_scripts_holds_the_embeddings_in_order():
    text = SelfAttentionExplorer(WORDS, "fox runs fox").static_html()
    assert text.count(">fox<") == 2
    assert "-0.25" in text


@pytest.mark.parametrize(
    ("words", "sentence", "message"),
    [
        (WORDS, "", "1 to 8 words, got 0"),
        (WORDS, "red " * 9, "got 9"),
        (WORDS, "red cat", r"got \['cat'\]"),
        ({"red": [1.0]}, "red", "2 to 8 numbers"),
        ({"red": [1.0, 2.0], "fox": [1.0]}, "red", "rows of 2 numbers"),
        ({"red": [1.0, 2.5]}, "red", "from -2 to 2"),
        ({"red": [1.0, 0.5], "a=b": [0.0, 0.0]}, "red", "without spaces"),
    ],
)
def test_bad_words_are_refused(words, sentence, message):
    with pytest.raises(ValueError, match=message):
        SelfAttentionExplorer(words, sentence)


def test_a_place_outside_the_sentence_is_refused():
    with pytest.raises(ValueError, match="query: expected"):
        SelfAttentionExplorer(WORDS, "red fox", query=2)
