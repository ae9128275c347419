"""What was recorded of the first page on a slow line, and whose its bytes are."""

import pytest

from benchmarks import first_page
from measure.records import read_results

RECORD = read_results("first_page")


@pytest.mark.parametrize("screen", first_page.SCREENS)
def test_the_trainer_stands_in_time(screen):
    one = RECORD["screens"][screen]
    assert 0 < one["ms"]["first_paint"] < one["ms"]["trainer"] < first_page.WITHIN
    assert sum(one["parts"].values()) == one["bytes"]


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/book/intro.html", "page"),
        ("/_static/widgets/shared.js?v=34396110", "book"),
        ("/_static/book.css?v=c68f33df", "book"),
        ("/_static/vendor/fontawesome/webfonts/fa-solid-900.woff2", "fonts"),
        ("/_static/styles/sphinx-book-theme.css?v=3c74b3bc", "theme"),
        ("/_static/scripts/bootstrap.js?digest=55c26ed4", "theme"),
    ],
)
def test_each_file_is_counted_for_its_owner(path, owner):
    assert first_page.whose(f"http://127.0.0.1:8000{path}") == owner
