"""Byte pairs in the page: the rule of chapter 11, a twin in Python, and the package's own."""

import collections
import itertools
import json
import re

import pytest
import tokenizers
import torch

from engine.take import Card, answer
from engine.texts import text_of
from tests.browser.laboratory_page import LaboratoryPage

pytestmark = pytest.mark.browser
WORD = re.compile(r"[^ \n]+ ?|[ \n]")
LEARN = """const found = $byte_pairs.learned(texts, characters, merges);
  return { pieces: found.pieces, cut: cut.map((text) => found.encode(text).map((id) =>
    found.pieces[id])) };"""
TEXTS = {
    "places": text_of("places").split("\n"),
    "poem": [text_of("poem")],
    "runs": ["aaa aaaa aaaaaaa baaab\nabab ababab\n\nb aab"],
    "other letters": ["déjà vu, déjà été: 𝒳𝒴 𝒳𝒴 𝒳𝒴𝒳𝒴 日本語日本"],
}


@pytest.fixture(scope="module")
def lab(browser):
    page = LaboratoryPage(browser)
    yield page
    page.page.close()


def characters(texts: list[str]) -> list[str]:
    """As the task numbers them: the end of a line first."""
    known = {c for text in texts for c in text} - {"\n"}
    return ["\n", *sorted(known, key=lambda c: c.encode("utf-16-be"))]


def replaced(word: list[str], pair: tuple[str, str]) -> list[str]:
    """Each pair as one piece, from left to right."""
    found: list[str] = []
    for piece in word:
        fits = found and (found[-1], piece) == pair
        found[-1:] = [found[-1] + piece] if fits else [*found[-1:], piece]
    return found


def twin(texts: list[str], merges: int) -> list[str]:
    """The rule as it is said: count all pairs of neighbours, merge the most frequent, again."""
    pieces = characters(texts)
    words = [list(word) for text in texts for word in WORD.findall(text)]
    for _ in range(merges):
        counts = collections.Counter(pair for word in words for pair in itertools.pairwise(word))
        often = max(counts.values(), default=0)
        if often < 2:
            break
        first = min(
            (pair for pair, count in counts.items() if count == often),
            key=lambda pair: [pieces.index(piece) for piece in pair],
        )
        words = [replaced(word, first) for word in words]
        pieces.append("".join(first))
    return pieces


def packages(texts: list[str], merges: int) -> tokenizers.Tokenizer:
    """What the package of `train.subword` learns, with a blank as mark of a word's end."""
    known = characters(texts)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(WORD.pattern), "isolated"
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(known) + merges,
        special_tokens=known,  # so that they have their numbers
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())
    learnt["added_tokens"] = []
    return tokenizers.Tokenizer.from_str(json.dumps(learnt))


def learned(lab: LaboratoryPage, texts: list[str], merges: int, cut: list[str] = ()) -> dict:
    known = characters(texts)
    return lab.run(LEARN, texts=texts, characters=known, merges=merges, cut=list(cut))


@pytest.mark.parametrize("name", TEXTS)
def test_the_pieces_are_those_of_the_twin(lab, name):
    texts = TEXTS[name]
    found = learned(lab, texts, 60, texts)
    assert found["pieces"] == twin(texts, 60)
    for text, cut in zip(texts, found["cut"], strict=True):
        assert "".join(cut) == text
        assert not any("\n" in piece for piece in cut if piece != "\n"), "no piece crosses a line"
        assert not any(" " in piece[:-1] for piece in cut), "nor a word"


@pytest.mark.parametrize("name", ["places", "poem", "runs"])
def test_the_pieces_are_those_of_the_package_that_chapter_11_uses(lab, name):
    texts = TEXTS[name]
    found = learned(lab, texts, 200, texts)
    expected = packages(texts, 200)
    number = expected.get_vocab()
    assert found["pieces"] == sorted(number, key=number.__getitem__)
    assert len(found["pieces"]) > len(characters(texts)) + (5 if name == "runs" else 199)
    for text, cut in zip(texts, found["cut"], strict=True):
        assert cut == expected.encode(text).tokens


def test_the_longest_text_is_learnt_as_the_package_learns_it(lab):
    texts = [text_of("chapters")]
    found = learned(lab, texts, 400)
    number = packages(texts, 400).get_vocab()
    assert found["pieces"] == sorted(number, key=number.__getitem__)


def test_without_merges_the_pieces_are_characters(lab):
    found = learned(lab, TEXTS["poem"], 0, ["The raven\n"])
    assert found["pieces"] == characters(TEXTS["poem"])
    assert found["cut"] == [list("The raven\n")]


def test_what_stands_once_is_not_merged(lab):
    assert learned(lab, ["abcdefg hijk"], 9)["pieces"] == characters(["abcdefg hijk"])


@pytest.mark.parametrize("name", TEXTS)
def test_python_cuts_a_text_by_the_vocabulary_alone(lab, monkeypatch, name):
    """As `engine.take` does it for a model out of a file, which has no merges but its pieces."""
    texts = TEXTS[name]
    asked = sorted({word.strip() for text in texts for word in text.split("\n")} - {""})[:200]
    found = learned(lab, texts, 150, asked)
    seen: list[list[int]] = []
    monkeypatch.setattr("engine.take._continued", lambda *given: seen.append(given[2]) or [])
    card = Card("writing", {}, 0, {}, [found["pieces"]])
    for text, cut in zip(asked, found["cut"], strict=True):
        answer(torch.nn.Identity(), card, text)
        assert [found["pieces"][i] for i in seen[-1]] == cut
