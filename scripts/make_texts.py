"""Make the texts of first names and of places that the laboratory of language models comes with.

    pip install faker==40.54.0
    python scripts/make_texts.py

The book itself needs no Faker, so it is not among what is installed. Nine of its lists of first
names (licence: MIT) give names.txt: those that are written in the letters A to Z alone. places.txt
has the countries and languages of Unicode's CLDR in English, through Babel. The folder has both
licences.
"""

import importlib
import re
import sys
from pathlib import Path

from babel import Locale

TEXTS = Path(__file__).resolve().parent.parent / "book" / "engine" / "texts"
FAKER = "40.54.0"
LISTS = ("en", "de_DE", "fr_FR", "es_ES", "it_IT", "pt_PT", "nl_NL", "sv_SE", "pl_PL")
NAME = re.compile(r"[A-Z][a-z]{1,11}")
PLACE = re.compile(r"[A-Z][A-Za-z' -]{1,28}[a-z]")


def names() -> list[str]:
    """First names in the letters A to Z, each once.

    Errors: SystemExit without Faker, or with another version than the one the text is made of.
    """
    try:
        faker = importlib.import_module("faker")
    except ImportError:
        sys.exit(f"expected Faker, which the book does not install: pip install faker=={FAKER}")
    if faker.VERSION != FAKER:
        sys.exit(f"expected Faker {FAKER}, got {faker.VERSION}")
    found: set[str] = set()
    for name in LISTS:
        provider = importlib.import_module(f"faker.providers.person.{name}").Provider
        for attribute in dir(provider):
            listed = getattr(provider, attribute)
            if attribute.startswith("first_name") and isinstance(listed, list | tuple | dict):
                found.update(filter(NAME.fullmatch, listed))
    return sorted(found)


def places() -> list[str]:
    """Countries and languages in English, without those that need other signs."""
    english = Locale("en")
    countries = [name for code, name in english.territories.items() if code.isalpha()]
    return sorted(set(filter(PLACE.fullmatch, [*countries, *english.languages.values()])))


def main() -> None:
    for name, lines in (("names", names()), ("places", places())):
        (TEXTS / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines):,}")


if __name__ == "__main__":
    main()
