"""What readers type, as the forward tracer reads it: forgiving, and never in silence wrong."""

import re

import pytest
from num2words import num2words

from lib.data import tokenise
from tasks.translation import NUMBERS, translation_pairs
from tests.widget_samples import SAMPLES
from train.checkpoints import load_published

pytestmark = pytest.mark.browser
READ = "([texts, words]) => texts.map((text) => own.typed.read(text, words))"
UNDERSTOOD = {
    # marks, capitals, blanks
    "Twenty-two dollars.": "twenty two dollars",
    "  SIX   days\tago ?! ": "six days ago",
    "six euros; ten miles": "six euros , ten miles",
    "six euros ,, and ten miles,": "six euros , and ten miles",
    "“two euros”": "two euros",
    "two U.S. dollars": "two us dollars",
    "...": "",
    # figures
    "42 dollars": "forty two dollars",
    "4 2 dollars": "4 2 dollars",
    "in 2 years": "in two years",
    "$5 and €20": "five dollars and twenty euros",
    "20°C, 5km, 10 km/h": "twenty degrees celsius , five kilometers , ten kilometers per hour",
    # dates keep their figures
    "Friday, June 13, 2025": "friday , june 1 3 , 2 0 2 5",
    "june 13,2025": "june 1 3 , 2 0 2 5",
    "Friday the 13th of June 2025 and 13 euros": "friday june 1 3 2 0 2 5 and thirteen euros",
    "friday , june 1 3 , 2 0 2 5": "friday , june 1 3 , 2 0 2 5",
    "in 2025": "in 2 0 2 5",
    # other forms of words that it knows
    "two dollar": "two dollars",
    "2 hour": "two hours",
    "thirty foot": "thirty feet",
    "ten litres": "ten liters",
    "ten miles an hour": "ten miles per hour",
    "ten miles per hour": "ten miles per hour",
}
REFUSED = {  # what is not known, and what is offered instead
    "one": (["one"], "two"),
    "a": (["one"], "two"),
    "an hour": (["one"], "two hours"),
    "in an hour": (["one"], "in two hours"),
    "a hundred dollars": (["one hundred"], "ninety nine dollars"),
    "21 dollars": (["twenty one"], "twenty two dollars"),
    "one hundred and five miles": (["one hundred and five"], "ninety nine miles"),
    "2000 dollars": (["2000"], "ninety nine dollars"),
    "$1,000.50": (["1,000.50"], "ninety nine dollars"),
    "2.5 km": (["2.5"], "three kilometers"),
    "-5 degrees": (["-5"], "two degrees"),
    "0 days": (["zero"], "two days"),
    "twleve dolars": (["twleve", "dolars"], "twelve dollars"),
    "a cat and two dogs": (["one", "cat", "dogs"], None),
    "hello": (["hello"], None),
    "constructor": (["constructor"], None),  # what every object has is no word of a table
    "six __proto__": (["__proto__"], None),
}


@pytest.fixture(scope="module")
def words():
    return list(load_published()[1].tokens[4:])


def read(stage, texts, words):
    page = stage.functions(SAMPLES["forward_tracer"]())
    return dict(zip(texts, page.evaluate(READ, [list(texts), words]), strict=True))


def test_plain_meanings_are_understood(stage, words):
    found = read(stage, UNDERSTOOD, words)
    assert {text: " ".join(one["tokens"]) for text, one in found.items()} == UNDERSTOOD
    assert not any(one["problems"] or one["offer"] for one in found.values())
    assert [text for text, one in found.items() if one["spelled"]] == [
        "42 dollars", "in 2 years", "$5 and €20", "20°C, 5km, 10 km/h",
        "Friday the 13th of June 2025 and 13 euros", "2 hour",
    ]  # fmt: skip


def test_what_is_outside_is_named_and_what_is_offered_works(stage, words):
    found = read(stage, REFUSED, words)
    assert {
        text: ([problem["text"] for problem in one["problems"]], one["offer"])
        for text, one in found.items()
    } == REFUSED
    offers = [offer for _, offer in REFUSED.values() if offer]
    for offer, one in read(stage, offers, words).items():
        assert not one["problems"]
        assert " ".join(one["tokens"]) == offer


def test_every_sentence_of_the_task_is_read_as_it_is_however_it_is_written(stage, words):
    """As tokens, as English is printed, and with figures for words."""
    figures = {num2words(n).replace("-", " "): str(n) for n in NUMBERS}
    spelled = re.compile("|".join(rf"\b{text}\b" for text in sorted(figures, key=len)[::-1]))
    texts = {}
    for pair in translation_pairs(0, 400, seed=3)[1]:
        plain = " ".join(pair.source)
        printed = re.sub(r"(?<=\d) (?=\d)", "", plain).replace(" ,", ",")
        texts |= {plain: plain, f"{printed.capitalize()}.": plain}
        texts[spelled.sub(lambda match: figures[match[0]], printed)] = plain
    found = read(stage, texts, words)
    assert {text: " ".join(one["tokens"]) for text, one in found.items()} == texts


def test_other_vocabularies_are_left_alone(stage):
    """A model of the reader's own: nothing that it knows is changed, no word is made up."""
    words = ["the", "a", "of", "cat", "cats", "4", "2", "-", ".", "$", "katze", "über"]
    for text in ("the cat of a cats - 42 .", "Über Katze $ 2", "$4 2."):
        [one] = read(stage, [text], words).values()
        assert (tuple(one["tokens"]), one["problems"]) == (tokenise(text), [])
