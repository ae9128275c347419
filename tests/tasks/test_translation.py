"""The generated task: unique answers, right words, the same pairs from the same seed."""

import random
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from lib.data import tokenise
from tasks import translation
from tasks.translation import DATES, NUMBERS, _Item, _sentences, translation_pairs

LOCALES = ["fr", "de", "es", "pt_BR", "ru", "fr_CH"]


@pytest.fixture(scope="module")
def split():
    return translation_pairs()


def phrases(locale):
    """Every number with every noun, as tokens, English to the other language."""
    *counted, _ = translation._items(locale)
    return [
        (" ".join(tokenise(item.source)), " ".join(tokenise(item.target)))
        for kind in counted
        for item in kind
    ]


def test_sizes_and_lengths(split):
    train, test = split
    assert (len(train), len(test)) == (20_000, 1_500)
    lengths = [len(pair.source) for pair in train + test]
    assert min(lengths) == 2
    assert 30 <= max(lengths) <= 35
    assert all(pair.target for pair in train + test)


def test_no_source_occurs_twice(split):
    train, test = split
    assert len({pair.source for pair in train + test}) == 21_500


def test_training_and_test_have_the_same_mix_of_lengths(split):
    def shares(pairs):
        counts = Counter((len(pair.source) - 1) // 5 for pair in pairs)
        return [counts[k] / len(pairs) for k in range(7)]

    train, test = map(shares, split)
    assert max(abs(a - b) for a, b in zip(train, test, strict=True)) < 0.05
    assert train[0] > 0.1  # short ones are not rare


def test_every_word_of_the_test_set_is_in_training(split):
    train, test = split
    for side in ("source", "target"):
        known = {token for pair in train for token in getattr(pair, side)}
        assert {token for pair in test for token in getattr(pair, side)} <= known
        assert 100 < len(known) < 300


@pytest.mark.parametrize("locale", LOCALES)
def test_an_answer_is_unique(locale):
    """The sentences are lists of these, so a phrase with two answers would show here."""
    sources = [source for source, _ in phrases(locale)]
    *_, dates = translation._items(locale)
    sources += [" ".join(tokenise(item.source)) for item in dates]
    assert len(sources) == len(set(sources))


def test_items_of_a_list_cannot_be_confused():
    """No item contains " and ", so where one ends and the next begins is never in doubt."""
    assert not [source for source, _ in phrases("fr") if " and " in source or "," in source]


@pytest.mark.parametrize(
    ("locale", "source", "target"),
    [
        ("fr", "forty two canadian dollars", "quarante deux dollars canadiens"),
        ("fr", "ninety seven square miles", "quatre vingt dix sept milles carrés"),
        ("fr", "eighty us dollars", "quatre vingts dollars des états unis"),
        ("fr", "three weeks ago", "il y a trois semaines"),
        ("fr", "in ninety days", "dans quatre vingt dix jours"),
        ("fr_CH", "ninety seven euros", "nonante sept euros"),
        ("de", "forty two square miles", "zwei und vierzig quadratmeilen"),
        ("de", "seventeen years ago", "vor siebzehn jahren"),
        ("es", "twenty two miles", "veintidós millas"),
        ("ru", "two swiss francs", "два швейцарских франка"),
        ("ru", "five swiss francs", "пять швейцарских франков"),
    ],
)
def test_phrases(locale, source, target):
    assert dict(phrases(locale))[source] == target


def test_dates_and_lists():
    *_, dates = translation._items("fr")
    assert translation._Item("Wednesday, June 28, 2028", "mercredi 28 juin 2028") in dates
    assert not [item for item in dates if " 1, " in item.source]  # "1er juin" is not "1 juin"
    train, _ = translation_pairs(997, 0)
    lists = [pair for pair in train if ("," in pair.source and "and" in pair.source)]
    assert lists
    assert all("et" in pair.target for pair in lists)


def test_numbers_that_agree_with_their_noun_are_left_out():
    assert 11 in NUMBERS
    assert not {1, 21, 31, 41, 51, 61, 71, 81, 91} & set(NUMBERS)


def test_a_locale_without_some_names_leaves_them_out():
    assert not [target for _, target in phrases("pt_BR") if "light" in target]
    assert "two light years" not in dict(phrases("pt_BR"))
    assert "two light years" in dict(phrases("fr"))


def test_no_code_stands_in_for_a_name():
    for locale in LOCALES:
        words = {word for _, target in phrases(locale) for word in target.split()}
        assert not words & {"length", "area", "volume", "mass", "speed", "temperature", "digital"}
        assert not words & {code.lower() for code in translation.CURRENCIES.split()}


def test_same_seed_same_pairs():
    assert translation_pairs(211, 53, seed=7) == translation_pairs(211, 53, seed=7)
    assert translation_pairs(211, 53, seed=7) != translation_pairs(211, 53, seed=8)


def test_same_pairs_in_another_process():
    """Sets and hashes change between processes; the pairs must not."""
    code = "from tasks.translation import translation_pairs as t; print(t(5, 2, seed=3))"
    book = Path(translation.__file__).parents[1]
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=book, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert runs == {f"{translation_pairs(5, 2, seed=3)}\n"}


def test_one_item_at_most():
    train, test = translation_pairs(503, 101, max_items=1)
    assert not [pair for pair in train + test if "and" in pair.source]
    kinds = Counter(
        "date" if "," in pair.source else "time" if {"in", "ago"} & {*pair.source} else "amount"
        for pair in train + test
    )
    assert min(kinds.values()) > 100
    assert kinds["amount"] > kinds["date"]  # money and measures


def test_other_locale_has_the_same_sources():
    french, _ = translation_pairs(101, 0)
    german, _ = translation_pairs(101, 0, locale="de")
    assert [pair.source for pair in french] == [pair.source for pair in german]
    assert [pair.target for pair in french] != [pair.target for pair in german]


@pytest.mark.parametrize("locale", ["xx", "zz_ZZ", "", "sw", "fr-FR", "kz", "tg"])
def test_unknown_locale(locale):
    with pytest.raises(ValueError, match=r'expected a locale .*; choose one such as "fr"'):
        translation_pairs(3, 2, locale=locale)


def test_more_than_there_are():
    with pytest.raises(ValueError, match=r"ask for fewer sentences or raise max_items"):
        translation_pairs(0, 30_000, max_items=1)


@pytest.mark.parametrize(
    ("counts", "max_items"), [((-1, 2), 3), ((2, -1), 3), ((2, 2), 0), ((2, 2), -1)]
)
def test_impossible_counts(counts, max_items):
    with pytest.raises(ValueError, match="expected counts of at least 0"):
        translation_pairs(*counts, max_items=max_items)


def test_none_asked_for():
    assert translation_pairs(0, 0) == ([], [])


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        ((10**6, 1), {"max_items": 1}),
        ((10**5, 1), {"max_items": 1}),
        ((10**12, 10**12), {}),
        ((5, 5), {"max_items": 10**9}),
    ],
)
def test_more_than_can_be_made_is_refused_at_once(counts, options, monkeypatch):
    translation_pairs(1, 1)  # the tables are made once
    monkeypatch.setattr(translation, "format_list", None)  # not a sentence is written
    with pytest.raises(ValueError, match=r"expected (to find|counts)"):
        translation_pairs(*counts, **options)


def test_nearly_all_that_there_are():
    made, _ = translation_pairs(20_000, 0, max_items=1)
    assert len({pair.source for pair in made}) == 20_000


def test_compounds_of_every_ten_are_split():
    train, _ = translation_pairs(900, 0, locale="de", max_items=1)
    words = {word for pair in train for word in pair.target}
    assert {"und", "zwei", "vierzig"} <= words
    assert not [word for word in words if "und" in word and word.endswith(("zig", "ßig"))]


def test_as_many_pairs_as_are_allowed(monkeypatch):
    monkeypatch.setattr(translation, "MOST_PAIRS", 10)
    train, test = translation_pairs(7, 3)
    assert (len(train), len(test)) == (7, 3)
    with pytest.raises(ValueError, match="10"):
        translation_pairs(8, 3)


def test_every_sentence_that_there_is_can_be_asked_for():
    kinds = [_Item("one euro", "un euro")], [_Item("two miles", "deux milles")]
    found = _sentences(2, kinds, 1, random.Random(0), "fr")
    assert sorted(pair.source for pair in found) == [("one", "euro"), ("two", "miles")]


def test_dates_are_those_of_fifty_times_365_days():
    assert (DATES[0], DATES[-1]) == (date(2000, 1, 2), date(2049, 12, 18))
