"""The pages of the built book, each parsed once."""

from functools import cache

from bs4 import BeautifulSoup

from tests.paths import HTML


@cache
def page(name: str) -> BeautifulSoup:
    """The page of this name in the folder `book`, without `.html`."""
    return BeautifulSoup((HTML / "book" / f"{name}.html").read_text(encoding="utf-8"), "lxml")
