"""The book's translation task, made from public tables: no download, and each answer is unique.

Names of currencies and units, dates and lists come from Unicode's CLDR, through Babel; numbers in
words come from num2words. The source is always English.
"""

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import cache
from math import inf
from typing import NamedTuple

from babel import Locale, UnknownLocaleError
from babel.dates import TIMEDELTA_UNITS, format_date, format_timedelta
from babel.lists import format_list
from babel.numbers import get_currency_name
from babel.units import format_unit
from num2words import num2words

from lib.data import Pair, tokenise

# Left out: 21, 31, ... 91, which in many languages agree in gender with their noun.
NUMBERS = tuple(n for n in range(2, 100) if n < 20 or n % 10 != 1)
CURRENCIES = (
    "USD CAD AUD NZD HKD SGD EUR GBP EGP TRY CHF JPY CNY KRW INR IDR RUB BRL MXN ARS CLP COP ZAR "
    "SEK NOK DKK PLN CZK HUF MAD TND AED SAR ILS THB"
)
UNITS = (
    "length-kilometer length-meter length-centimeter length-millimeter length-mile length-foot "
    "length-inch length-nautical-mile length-light-year area-square-kilometer area-square-meter "
    "area-square-mile area-square-foot area-hectare volume-cubic-kilometer volume-cubic-meter "
    "volume-cubic-foot volume-cubic-inch volume-liter volume-milliliter mass-kilogram mass-gram "
    "mass-pound mass-ounce speed-kilometer-per-hour speed-meter-per-second speed-mile-per-hour "
    "temperature-celsius temperature-fahrenheit digital-megabyte"
)
# Left out: the first of each month, an ordinal in some languages.
DATES = [d for n in range(50 * 365) if (d := date(2000, 1, 1) + timedelta(days=n)).day > 1]
MOST_PAIRS, MOST_ITEMS = 1_000_000, 100
Phrase = Callable[[int, str, str], str]  # from a number, a noun's code and a locale


class _Item(NamedTuple):
    """One thing to translate, as text in English and in the target language."""

    source: str
    target: str


def translation_pairs(
    n_train: int = 20_000,
    n_test: int = 1_500,
    *,
    seed: int = 0,
    locale: str = "fr",
    max_items: int = 3,
) -> tuple[list[Pair], list[Pair]]:
    """Make sentence pairs for training and for testing; no sentence stands in both, or twice.

    A sentence lists one to `max_items` items: an amount of money, a measure, a time from now or
    a date; a unit that the locale has no name for is left out. Each source has one right target.

    Args: how many pairs; the seed that fixes them all; a locale that both Babel and num2words
    know, such as "fr", "de", "es" or "fr_CH".
    Errors: ValueError for an unknown locale, for more sentences than can be made, for more than a
    million, and for max_items above 100.
    Source: ours, from CLDR and num2words.
    """
    counts_fit = min(n_train, n_test) >= 0 and n_train + n_test <= MOST_PAIRS
    if not counts_fit or not 1 <= max_items <= MOST_ITEMS:
        raise ValueError(
            f"expected counts of at least 0, of {MOST_PAIRS:,} in all, and 1 to {MOST_ITEMS} "
            f"items, got n_train {n_train}, n_test {n_test}, max_items {max_items}"
        )
    pairs = _sentences(n_train + n_test, _items(locale), max_items, random.Random(seed), locale)
    return pairs[:n_train], pairs[n_train:]


def _sentences(
    count: int, kinds: Sequence[list[_Item]], max_items: int, rng: random.Random, locale: str
) -> list[Pair]:
    """Draw different sentences, each kind of item equally often."""
    pairs: dict[tuple[str, ...], tuple[str, ...]] = {}  # from source to target, in order
    drawn: set[tuple[_Item, ...]] = set()
    n_items = sum(map(len, kinds))
    enough = count <= sum(n_items**n for n in range(1, max_items + 1))
    for _ in range(20 * count * enough):
        if len(pairs) == count:
            break
        items = tuple(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, max_items)))
        if items in drawn:
            continue
        drawn.add(items)
        source, target = zip(*items, strict=True)
        english = tokenise(format_list(source, locale="en"))
        pairs[english] = tokenise(format_list(target, locale=locale))
    if len(pairs) < count:
        fix = "ask for fewer sentences or raise max_items"
        message = f"expected to find {count} different sentences of at most {max_items} items"
        got = f"{len(pairs)} in {20 * count} draws" if enough else f"only {n_items} items to list"
        raise ValueError(f"{message}, got {got}; {fix}")
    sentences = [Pair(*pair) for pair in pairs.items()]
    rng.shuffle(sentences)  # short sentences run out: there are fewer among the last ones
    return sentences


@cache
def _items(locale: str) -> list[list[_Item]]:
    """All items of a locale by kind: amounts of money, measures, times from now, dates."""
    fix = 'choose one such as "fr", "de", "es" or "pt_BR"'
    try:
        Locale.parse(locale)
        numbers = {n: _number_words(n, locale) for n in NUMBERS}
    except (UnknownLocaleError, ValueError, NotImplementedError) as error:
        message = f"expected a locale that both Babel and num2words know, got {locale!r}"
        raise ValueError(f"{message}; {fix}") from error
    english = {n: _number_words(n, "en") for n in NUMBERS}

    def item(phrase: Phrase, n: int, noun: str) -> _Item:
        source = phrase(n, noun, "en").replace(str(n), english[n])
        target = phrase(n, noun, locale).replace(str(n), numbers[n])
        return _Item(_plain(source), _plain(target))

    times = [f"{sign}{unit}" for unit, _ in TIMEDELTA_UNITS for sign in "+-"]
    kinds = ((_money, CURRENCIES.split()), (_measure, UNITS.split()), (_from_now, times))
    counted = [
        [item(phrase, n, noun) for noun in nouns if _named(phrase, noun, locale) for n in NUMBERS]
        for phrase, nouns in kinds
    ]
    if not all(counted):
        message = f"expected a locale with names for currencies and units, got {locale!r}"
        raise ValueError(f"{message}; {fix}")
    dates = [_Item(*(_plain(_date(day, side)) for side in ("en", locale))) for day in DATES]
    return [*counted, dates]


def _named(phrase: Phrase, noun: str, locale: str) -> bool:
    """Whether the locale has a name for it: Babel falls back to the bare code if not."""
    return all(noun not in phrase(n, noun, locale) for n in NUMBERS)


def _money(n: int, currency: str, locale: str) -> str:
    return f"{n} {get_currency_name(currency, count=n, locale=locale)}"


def _measure(n: int, unit: str, locale: str) -> str:
    return format_unit(n, unit, "long", locale=locale)


def _from_now(n: int, time: str, locale: str) -> str:
    sign = time[0]
    unit, length = next(known for known in TIMEDELTA_UNITS if known[0] == time[1:])
    seconds = int(f"{sign}{n * length}")
    # The threshold keeps 90 days from turning into three months.
    return format_timedelta(
        timedelta(seconds=seconds),
        unit,  # type: ignore[arg-type]  # one of Babel's own names, from its own table
        threshold=inf,
        add_direction=True,
        locale=locale,
    )


def _date(day: date, locale: str) -> str:
    return format_date(day, "full", locale=locale)


def _plain(text: str) -> str:
    """Hyphens become spaces: "dix-sept" is two words to learn, not a third."""
    return text.replace("-", " ")


def _number_words(n: int, locale: str) -> str:
    """A number in words; a compound is split into its words, as in "zwei und vierzig"."""
    words = num2words(n, lang=locale)
    if n > 20 and n % 10 and words.isalpha():
        unit, ten = num2words(n % 10, lang=locale), num2words(n - n % 10, lang=locale)
        for first, last in ((unit, ten), (ten, unit)):
            if words.startswith(first) and words.removeprefix(first).endswith(last):
                middle = words.removeprefix(first).removesuffix(last)
                return " ".join(f"{first} {middle} {last}".split())
    return words
