"""The alignment: the fewest edits, the most right words, and what position by position loses."""

import itertools
import random

import pytest

from chapters.seq2seq.edits import edits, words_right


@pytest.mark.parametrize(
    ("output", "reference", "kinds"),
    [
        ("a b c", "a b c", "right right right"),
        ("", "a b", "missing missing"),
        ("a b", "", "wrong wrong"),
        ("a x c", "a b c", "right wrong right"),
        ("b c", "a b c", "missing right right"),
        ("a x b", "a b", "right wrong right"),
        ("", "", ""),
    ],
)
def test_edits_of_small_cases(output, reference, kinds):
    found = edits(output.split(), reference.split())
    assert [edit.kind for edit in found] == kinds.split()


def test_one_inserted_word_costs_one_word_and_not_the_rest():
    output, reference = list("xabcd"), list("abcd")
    assert sum(word == right for word, right in zip(output, reference, strict=False)) == 0
    assert words_right(output, reference) == 4


def fewest(output: str, reference: str) -> int:
    """Levenshtein's distance, by its definition."""
    if not output or not reference:
        return len(output) + len(reference)
    if output[0] == reference[0]:
        return fewest(output[1:], reference[1:])
    shorter = ((output[1:], reference), (output, reference[1:]), (output[1:], reference[1:]))
    return 1 + min(itertools.starmap(fewest, shorter))


def test_edits_are_the_fewest_and_give_both_sentences_back():
    rng = random.Random(0)
    for _ in range(200):
        output, reference = ("".join(rng.choices("abc", k=rng.randint(0, 6))) for _ in "12")
        found = edits(list(output), list(reference))
        assert "".join(word for word, kind in found if kind != "missing") == output
        kept = [word for word, kind in found if kind == "right"]
        assert len(kept) == words_right(list(output), list(reference))
        wrong, missing = (sum(kind == k for _, kind in found) for k in ("wrong", "missing"))
        # A word in the place of another is wrong, and its reference is not listed.
        swapped = len(reference) - len(kept) - missing
        assert 0 <= swapped <= wrong
        assert wrong + missing == fewest(output, reference)


def test_of_equally_few_edits_those_with_more_right_words_are_taken():
    assert words_right(["a", "b"], ["b", "c"]) == 1, "insert and delete, not two substitutions"


def test_text_is_refused():
    with pytest.raises(ValueError, match="expected tokens, got the text 'a b'; tokenise it first"):
        edits("a b", ["a", "b"])
