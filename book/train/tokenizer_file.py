"""A vocabulary as the file tokenizer.json, which Hugging Face's tokenizers read.

The file does what `tokenise` and `encode` do: the same text gets the same numbers, with EOS behind
them, and the same numbers become the same words.
"""

import json
from collections.abc import Iterable
from typing import Any

from lib.data import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary
from train.subword import END, SubwordVocabulary

# What `tokenise` cuts, for an engine of regular expressions whose \w and \s are others than
# Python's: letters, numbers that are no digits and the underscore make words; a digit stands alone.
WORD, SPACE = r"\p{L}\p{Nl}\p{No}_", r"\t-\r\x{1c}-\x{20}\x{85}\p{Z}"
TOKENS = rf"[{WORD}]+|[^{WORD}{SPACE}]"
# A sigma at the end of a word has a small form of its own, which `str.lower` knows.
LAST_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"
NO_CHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # that no text uses


def tokenizer_json(vocabulary: Vocabulary, *, lowercase: bool) -> str:
    """Write a vocabulary, of words or of sub-words, and what comes before it, as tokenizer.json.

    Args: lowercase, whether the text is turned to lower case first, as in `tokenise`.
    """
    before: list[dict[str, Any]] = []
    if lowercase:
        before += [_replace(LAST_SIGMA, "ς"), {"type": "Lowercase"}]
    before.append({"type": "NFC"})
    if isinstance(vocabulary, SubwordVocabulary):
        model = json.loads(vocabulary.to_text())["model"]
        before.append(_unknown_whole(vocabulary))
        after: dict[str, Any] | None = _words_of_pieces()
    else:
        numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
        model = {"type": "WordLevel", "vocab": numbers, "unk_token": SPECIAL[UNK]}
        after = None
    end = {"id": SPECIAL[EOS], "type_id": 0}
    written = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(number) for number in (PAD, BOS, EOS)],
        "normalizer": {"type": "Sequence", "normalizers": before},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": TOKENS},
            "behavior": "Removed",  # what is between them
            "invert": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": end}],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": end},
            ],
            "special_tokens": {
                SPECIAL[EOS]: {"id": SPECIAL[EOS], "ids": [EOS], "tokens": [SPECIAL[EOS]]}
            },
        },
        "decoder": after,
        "model": model,
    }
    return json.dumps(written, ensure_ascii=False, indent=1)


def _special(number: int) -> dict[str, Any]:
    whole = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": SPECIAL[number], **whole, "special": True}


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _unknown_whole(vocabulary: SubwordVocabulary) -> dict[str, Any]:
    """A token with a letter that was never seen is UNK as a whole: a sign that is in no piece.

    A letter inside a word and the same at its end are two pieces.
    """
    letters = "".join(vocabulary.tokens[len(SPECIAL) :])
    sign = next(sign for sign in NO_CHARACTERS if sign not in letters)
    single = [token for token in vocabulary.tokens if len(token.removesuffix(END)) == 1]
    inside = _one_of(token for token in single if not token.endswith(END))
    last = _one_of(token[0] for token in single if token.endswith(END))
    known = rf"(?:{inside}(?=[{WORD}]))*{last}(?![{WORD}])"
    return _replace(rf"(?<![{WORD}])(?!{known})[{WORD}]+|(?!{last})[^{WORD}{SPACE}]", sign)


def _one_of(letters: Iterable[str]) -> str:
    """A class of these letters; of none, what fits nothing."""
    listed = "".join(f"\\x{{{ord(letter):x}}}" for letter in letters)
    return f"[{listed}]" if listed else "(?!)"


def _words_of_pieces() -> dict[str, Any]:
    """Pieces become words: what is unfinished ends at the next unknown word, as in `decode`."""
    unknown = {"type": "Replace", "pattern": {"String": SPECIAL[UNK]}}
    return {
        "type": "Sequence",
        "decoders": [
            unknown | {"content": END + SPECIAL[UNK] + END},
            {"type": "Replace", "pattern": {"String": END}, "content": " "},
            {"type": "Fuse"},
            _replace(" +", " "),
            _replace("^ | $", ""),
        ],
    }
