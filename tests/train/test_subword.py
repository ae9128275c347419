"""Sub-words: tokens come back whole, rare words fall into pieces, and each mistake has its text."""

import builtins
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.data import BOS, EOS, PAD, UNK, Vocabulary
from tests.helpers import unchecked
from tests.paths import BOOK
from train.subword import END, SubwordVocabulary, labels, vocabulary_from_json, vocabulary_to_json

TEXT = "the newest low tower is lower than the new one ."
SENTENCES = [tuple(TEXT.split())] * 5


@pytest.fixture(scope="module")
def vocab():
    return SubwordVocabulary.from_sentences(SENTENCES, 40)


def test_numbers_are_bounded_and_special_ones_come_first(vocab):
    assert len(vocab) == len(vocab.tokens) == 40
    assert vocab.tokens[:4] == Vocabulary(()).tokens
    assert repr(vocab) == "SubwordVocabulary(40 pieces)"


def test_known_sentences_come_back(vocab):
    for sentence in SENTENCES:
        assert vocab.decode(vocab.encode(sentence)) == list(sentence)


def test_frequent_words_are_whole_and_new_words_are_not_unknown(vocab):
    assert len(vocab.encode(["the"])) == 1
    pieces = vocab.encode(["lowest"])
    assert len(pieces) > 1
    assert UNK not in pieces
    assert vocab.decode(pieces) == ["lowest"]


def test_merges_make_the_pieces(vocab):
    """Each merge joins pieces that are there, or were made before, to one that is there."""
    assert vocab.merges
    made = {token for token in vocab.tokens if len(token.removesuffix(END)) == 1}
    for left, right in vocab.merges:
        assert {left, right} <= made
        made.add(left + right)
    assert made == set(vocab.tokens[4:])


def test_labels_show_where_a_word_goes_on(vocab):
    shown = labels(vocab)
    assert shown[:4] == vocab.tokens[:4]
    assert len(set(shown)) == len(shown) == len(vocab)
    for label, token in zip(shown[4:], vocab.tokens[4:], strict=True):
        assert label == (token.removesuffix(END) if token.endswith(END) else f"{token}-")
    assert labels(Vocabulary(["a", "b-"])) == (*vocab.tokens[:4], "a", "b-")


@given(st.lists(st.text("thenwslor", min_size=1, max_size=9), max_size=5))
def test_any_words_of_known_letters_come_back(words):
    letters = [tuple("thenwslor"), tuple(f"{a}{b}" for a in "thenwslor" for b in "thenwslor")]
    made = SubwordVocabulary.from_sentences([*SENTENCES, *letters], 60)
    assert made.decode(made.encode(words)) == words


@pytest.mark.parametrize("word", ["quiz", "laz", "<pad>", "<eos>", "<unk>", "é"])
def test_a_word_with_an_unknown_letter_is_unknown_as_a_whole(vocab, word):
    assert vocab.encode(["the", word, "new"]) == [
        *vocab.encode(["the"]),
        UNK,
        *vocab.encode(["new"]),
    ]
    assert vocab.decode(vocab.encode(["the", word])) == ["the", "<unk>"]


def test_decode_stops_at_eos_and_leaves_out_padding(vocab):
    the, low = vocab.encode(["the"]), vocab.encode(["low"])
    assert vocab.decode([BOS, *the, PAD, *low, EOS, *the]) == ["the", "low"]


def test_an_unfinished_word_ends_at_unk_or_at_the_end(vocab):
    start = vocab.tokens.index("t")
    assert vocab.decode([start, UNK, start]) == ["t", "<unk>", "t"]


LEARN = """
import sys
from train.subword import SubwordVocabulary
words = "zoo cat dog elf fig gnu hen ibex jay koi lynx mule newt owl pig quail rat seal".split()
sentences = [tuple(words[i:] + words[:i]) for i in range(len(words))]
for size in (45, 60, 1000):
    print(SubwordVocabulary.from_sentences(sentences, size).to_text())
"""


def test_every_run_gives_the_same_numbers(monkeypatch):
    """In one process several times over, and in processes with other hashes.

    All words are equally frequent: which pairs are merged is a matter of ties alone.
    """
    told = set()
    for seed in ("0", "random"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        done = subprocess.run(
            [sys.executable, "-c", LEARN + LEARN], cwd=BOOK, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        told |= {tuple(lines[:3]), tuple(lines[3:])}
    assert len(told) == 1


def test_pieces_at_the_end_of_a_word_are_no_special_tokens(vocab):
    """A text that holds one of them as letters is split as any other."""
    assert vocab.tokens[4].endswith("</w>")
    assert vocab.encode([vocab.tokens[4]]) == [UNK]
    assert vocab.encode(["the"]) == vocab.encode(("the",))


def test_it_is_the_same_after_json(vocab):
    again = vocabulary_from_json(vocabulary_to_json(vocab))
    assert isinstance(again, SubwordVocabulary)
    assert again.tokens == vocab.tokens
    assert again.encode(SENTENCES[0]) == vocab.encode(SENTENCES[0])
    assert SubwordVocabulary(vocab.to_text()).tokens == vocab.tokens
    words = Vocabulary(["b", "a"])
    assert vocabulary_from_json(vocabulary_to_json(words)).tokens == words.tokens


@pytest.mark.parametrize("text", ["[]", "{}", "3"])
def test_other_json(text):
    with pytest.raises(ValueError, match="expected what vocabulary_to_json wrote, got"):
        vocabulary_from_json(text)


def test_other_tokenizers(vocab):
    with pytest.raises(ValueError, match="expected a tokenizer that tokenizers wrote"):
        SubwordVocabulary("no tokenizer")
    moved = vocab.to_text().replace("<pad>", "[PAD]")
    with pytest.raises(ValueError, match="expected the numbers 0 to 3 to be"):
        SubwordVocabulary(moved)


def test_too_small_a_size():
    with pytest.raises(ValueError, match=r"at least \d+, got 7"):
        SubwordVocabulary.from_sentences(SENTENCES, 7)


def test_no_sentences_and_uncut_text(vocab):
    with pytest.raises(
        ValueError, match="expected at least one sentence with letters to learn sub-words"
    ):
        SubwordVocabulary.from_sentences([], 50)
    with pytest.raises(ValueError, match="expected a list of tokens, got the text"):
        SubwordVocabulary.from_sentences(["the low tower"], 50)
    with pytest.raises(ValueError, match="expected a list of tokens, got the text"):
        vocab.encode("the low tower")


@pytest.mark.parametrize("number", [40, -1])
def test_a_number_outside(vocab, number):
    with pytest.raises(ValueError, match=rf"expected numbers from 0 to 39, got {number}"):
        vocab.decode([number])


def test_the_missing_package_is_named_with_its_cure(monkeypatch):
    true_import = builtins.__import__

    def missing(name, *rest):
        if name.startswith("tokenizers"):
            raise ImportError(name)
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ModuleNotFoundError, match=r"pip install tokenizers.*or use whole words"):
        SubwordVocabulary.from_sentences(SENTENCES, 40)


@pytest.mark.parametrize(
    "text",
    ["", "[", "[" * 100_000, "null", '{"words": "abc"}', '{"words": null}', '{"words": {"a": 1}}',
     '{"tokenizer": 5}', '{"tokenizer": null}'],
)  # fmt: skip
def test_json_of_every_wrong_kind(text):
    with pytest.raises(ValueError, match="expected what vocabulary_to_json wrote, got"):
        vocabulary_from_json(text)


@pytest.mark.parametrize("words", ["[1]", "[null]", '[["a"]]', '["a", "a"]', '["<pad>"]'])
def test_words_of_every_wrong_kind(words):
    with unchecked(), pytest.raises(ValueError, match=r"expected (words|each token once)"):
        vocabulary_from_json(f'{{"words": {words}}}')


def test_a_tokenizer_that_is_damaged(vocab):
    for old, new in (('"unk_token":"<unk>"', '"unk_token":"none"'), ('"n":', '"n":9')):
        damaged = vocab.to_text().replace(old, new)
        assert damaged != vocab.to_text()
        with pytest.raises(
            ValueError, match=r"expected (a tokenizer that|pieces with the numbers)"
        ):
            SubwordVocabulary(damaged)


def test_a_size_beyond_all_that_can_be_learnt():
    """The package makes room for as many as are asked for, and ends the process if it cannot."""
    most = SubwordVocabulary.from_sentences(SENTENCES, 10**12)
    usual = SubwordVocabulary.from_sentences(SENTENCES, 1000)
    assert most.tokens == usual.tokens
    for size in (-1, 0, 3):
        with pytest.raises(
            ValueError, match=f"a size from 4, got 3 sentences and a size of {size}"
        ):
            SubwordVocabulary.from_sentences(SENTENCES[:3], size)
