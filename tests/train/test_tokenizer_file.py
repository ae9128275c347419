"""tokenizer.json against the book's own tokens and vocabularies, for texts in many alphabets."""

import random
import unicodedata

import pytest
from tokenizers import Tokenizer

from lib.data import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary, tokenise
from train.subword import SubwordVocabulary
from train.tokenizer_file import NO_CHARACTERS, tokenizer_json

WRITTEN = [
    "The two weeks, 42.5 %: it's so.",
    "Οδός ΟΔΟΣ Σ ΑΣ' Α'Σ ΣΑ ΑΣ.Α",  # a sigma at the end is another letter
    "İSTANBUL naïve nai\u0308ve STRASSE straße ŒUVRE",
    "हिन्दी में, ไทย, 日本語 한국어",  # marks of vowels are no letters to Python
    "foo_bar ½ ² Ⅷ x² ٣٤",
    "a\x85b\u2028c\x1cd\ufeffe\u00a0f\u200bg",
    "x < y <unk> <pad> <bos>",
    "",
    " \t ",
]


def random_texts(n, seed):
    """Texts of letters, marks and signs below U+3000 that Unicode has had for long."""
    draw = random.Random(seed)
    known = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) not in "CnCs"]
    known = [one for one in known if unicodedata.ucd_3_2_0.category(one) != "Cn"]
    frequent = [*known[:600], *"ΣΣΣ '.-αβ  " * 20]
    return ["".join(draw.choices(some, k=17)) for _ in range(n) for some in (known, frequent)]


def vocabularies(lowercase):
    texts = [*WRITTEN, *random_texts(300, 0)[1::2]]  # those of frequent letters
    seen = [tokenise(text, lowercase=lowercase) for text in texts]
    return Vocabulary.from_sentences(seen), SubwordVocabulary.from_sentences(seen, 2500)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", [0, 1], ids=["words", "sub-words"])
def test_the_same_text_gets_the_same_numbers(lowercase, kind):
    vocabulary = vocabularies(lowercase)[kind]
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary, lowercase=lowercase))
    unknown = 0
    for text in [*WRITTEN, *random_texts(300, 0), *random_texts(300, 1)]:
        wanted = vocabulary.encode(tokenise(text, lowercase=lowercase))
        tokenizer.encode_special_tokens = True  # a text that says <pad> means these letters
        assert tokenizer.encode(text).ids == [*wanted, EOS], text
        unknown += UNK in wanted
    assert unknown > 100, "words with letters that were never seen are among them"


@pytest.mark.parametrize("kind", [0, 1], ids=["words", "sub-words"])
def test_the_same_numbers_become_the_same_words(kind):
    vocabulary = vocabularies(True)[kind]
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary, lowercase=True))
    draw = random.Random(2)
    for _ in range(300):
        some = [draw.choice([UNK, draw.randrange(UNK, len(vocabulary))]) for _ in range(9)]
        wanted = " ".join(vocabulary.decode(some))
        assert tokenizer.decode([BOS, *some, EOS, PAD, PAD]) == wanted
    assert tokenizer.decode([BOS, EOS]) == ""


def test_the_special_tokens_have_their_numbers_and_unknown_words_are_shown():
    vocabulary = Vocabulary(["a", "b"])
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary, lowercase=True))
    assert [tokenizer.token_to_id(token) for token in SPECIAL] == [PAD, BOS, EOS, UNK]
    assert tokenizer.get_vocab_size() == len(vocabulary)
    assert tokenizer.decode(tokenizer.encode("A wombat b").ids) == "a <unk> b"


def test_a_sign_for_unknown_words_that_is_itself_a_piece_is_not_used():
    """Whatever stands in the training data: the sign must be in no piece."""
    text = [[NO_CHARACTERS[0], "ab"], ["ba", "a", "b"]]
    vocabulary = SubwordVocabulary.from_sentences(text, 20)
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary, lowercase=True))
    for text in (f"ab {NO_CHARACTERS[0]} xyz", "xyz", f"a{NO_CHARACTERS[0]}b"):
        assert tokenizer.encode(text).ids == [*vocabulary.encode(tokenise(text)), EOS]


def test_no_letters_at_all_are_unknown_signs():
    vocabulary = SubwordVocabulary.from_sentences([["."]], 10)
    tokenizer = Tokenizer.from_str(tokenizer_json(vocabulary, lowercase=False))
    assert tokenizer.encode(". ab 1 .").ids == [4, UNK, UNK, 4, EOS]
