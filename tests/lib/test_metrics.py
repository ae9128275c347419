"""Scores of translations, against counts made by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.data import Pair
from lib.metrics import LengthBin, accuracy_by_length, bleu, exact_match

WORDS = st.lists(st.sampled_from("abc"), max_size=3)


def pairs_of(*lengths):
    return [Pair(("x",) * n, (str(i), "end")) for i, n in enumerate(lengths)]


class TestExactMatch:
    def test_counts_whole_sentences(self):
        predictions = [["a", "b"], ["a"], [], ["a", "b", "c"], ["b", "a"]]
        references = [("a", "b"), ("b",), (), ("a", "b"), ("a", "b")]
        assert exact_match(predictions, references) == 2 / 5

    def test_tokens_are_compared_not_letters(self):
        assert exact_match([["ab"]], [["a", "b"]]) == 0.0

    @given(st.lists(st.tuples(WORDS, WORDS), min_size=1))
    def test_is_the_mean(self, both):
        predictions, references = map(list, zip(*both, strict=True))
        expected = sum(p == r for p, r in both) / len(both)
        assert exact_match(predictions, references) == pytest.approx(expected)
        assert exact_match(references, references) == 1.0

    @pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 2), (0, 0), (0, 1), (1, 0)])
    def test_unequal_or_none(self, n, m):
        with pytest.raises(ValueError, match=f"got {n} predictions and {m} references"):
            exact_match([["a"]] * n, [["a"]] * m)

    @pytest.mark.parametrize("which", [0, 1])
    def test_uncut_text(self, which):
        sides = [[["a", "b"]], [["a", "b"]]]
        sides[which] = ["a b"]
        with pytest.raises(ValueError, match="expected tokens, got the text 'a b'"):
            exact_match(*sides)


class TestAccuracyByLength:
    def test_bins_include_both_ends(self):
        pairs = pairs_of(1, 5, 6, 10, 11, 13)
        predictions = [pair.target for pair in pairs]
        predictions[1] = predictions[4] = predictions[5] = ()
        assert accuracy_by_length(predictions, pairs, (1, 5, 10, 13)) == [
            LengthBin(1, 5, 2, 0.5),
            LengthBin(6, 10, 2, 1.0),
            LengthBin(11, 13, 2, 0.0),
        ]

    def test_empty_bin_is_nan(self):
        bins = accuracy_by_length([("0", "end")], pairs_of(2), [1, 3, 7])
        assert bins[0] == LengthBin(1, 3, 1, 1.0)
        assert bins[1][:3] == (4, 7, 0)
        assert math.isnan(bins[1].accuracy)

    @given(st.lists(st.tuples(st.integers(1, 23), st.booleans()), min_size=1))
    def test_bins_add_up_to_exact_match(self, cases):
        pairs = pairs_of(*(n for n, _ in cases))
        predictions = [
            pair.target if ok else () for pair, (_, ok) in zip(pairs, cases, strict=True)
        ]
        bins = accuracy_by_length(predictions, pairs, (1, 2, 7, 19, 23))
        assert sum(b.count for b in bins) == len(pairs)
        right = sum(b.count * b.accuracy for b in bins if b.count)
        whole = exact_match(predictions, [pair.target for pair in pairs])
        assert right == pytest.approx(whole * len(pairs))

    @pytest.mark.parametrize("edges", [(), (5,), (1, 5, 5), (5, 1)])
    def test_edges_must_rise(self, edges):
        with pytest.raises(ValueError, match="expected at least two rising edges"):
            accuracy_by_length([("0", "end")], pairs_of(3), edges)

    @pytest.mark.parametrize("length", [1, 11])
    def test_no_sentence_is_left_out(self, length):
        with pytest.raises(ValueError, match=f"to {max(3, length)}; widen the edges"):
            accuracy_by_length([("a",)] * 2, pairs_of(3, length), (2, 5, 10))

    def test_unequal(self):
        with pytest.raises(ValueError, match="got 1 predictions and 2 references"):
            accuracy_by_length([("a",)], pairs_of(3, 3), (1, 5))
        with pytest.raises(ValueError, match="got 0 predictions and 0 references"):
            accuracy_by_length([], [], (1, 5))


class TestBleu:
    def test_by_hand(self):
        """Matches of 1- to 4-grams: 5 of 6, 4 of 5, 3 of 4, 2 of 3; both have six tokens."""
        score = bleu([list("abcdef")], [list("abcdeg")]).score
        assert score == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)

    def test_counts_are_summed_over_the_corpus_and_clipped(self):
        """The second prediction repeats a token that stands once in its reference."""
        predictions = [list("abcdef"), list("aaaaa")]
        references = [list("abcdef"), list("axyzw")]
        precisions = (7 / 11) * (5 / 9) * (4 / 7) * (3 / 5)
        assert bleu(predictions, references).score == pytest.approx(100 * precisions**0.25)

    def test_short_predictions_are_punished(self):
        score = bleu([list("abcde")], [list("abcdefg")]).score
        assert score == pytest.approx(100 * math.exp(1 - 7 / 5))
        assert bleu([list("abcdefg")], [list("abcde")]).score != pytest.approx(score)

    def test_all_right_and_nothing_said(self):
        sentences = [list("abcde"), list("xyzw")]
        assert bleu(sentences, sentences).score == pytest.approx(100)
        assert bleu([[], []], sentences).score == 0

    def test_signature_says_how_the_text_was_cut(self):
        sentences = [["l'", "eau", "douce", "-", "amère", "."]]
        assert "|tok:none|" in bleu(sentences, sentences).signature
        for tokenize in ("13a", "intl", "char"):
            found = bleu(sentences, ["l' eau douce - amère ."], tokenize=tokenize)
            assert f"|tok:{tokenize}|" in found.signature
            assert found.score == pytest.approx(100)

    def test_another_tokeniser_gives_another_score(self):
        predictions = [["one", ",two", "three", "four", "five"]]
        references = [["one", ",", "two", "three", "four", "six"]]
        scores = {bleu(predictions, references, tokenize=t).score for t in ("none", "13a", "char")}
        assert len(scores) == 3

    def test_what_cannot_be_scored(self):
        with pytest.raises(ValueError, match="got 1 predictions and 2 references"):
            bleu([["a"]], [["a"], ["b"]])
        with pytest.raises(ValueError, match="got 0 predictions and 0 references"):
            bleu([], [])
        with pytest.raises(ValueError, match="expected tokens, got the text 'a b'"):
            bleu(["a b"], [["a", "b"]])
        with pytest.raises(ValueError, match="out of none, 13a, intl, char, got 'moses'"):
            bleu([["a"]], [["a"]], tokenize="moses")


def test_scoring_tokenised_text_warns_of_nothing(caplog):
    """sacreBLEU otherwise suspects text whose sentences end in a token of their own."""
    sentences = [["a", "b", "c", "d", "."]] * 101
    assert bleu(sentences, sentences, tokenize="13a").score == pytest.approx(100)
    assert not caplog.records
