"""The tables of benchmarks/README.md are what the records say."""

import pytest

from benchmarks import report


def test_the_readme_is_what_the_records_say():
    text = report.README.read_text(encoding="utf-8")
    written = report.written(text)
    first = next(
        (a for a, b in zip(text.split("\n"), written.split("\n"), strict=False) if a != b), ""
    )
    assert written == text, f"run python benchmarks/report.py; the first line that differs: {first}"


def test_every_table_stands_in_the_readme_once():
    named = report.MARKED.findall(report.README.read_text(encoding="utf-8"))
    assert sorted(name for _, name, _, _ in named) == sorted(report.TABLES)


def test_a_table_that_was_changed_by_hand_is_written_again():
    marked = "before\n<!-- record: head_counts -->\n| typed | 1 |\n<!-- end -->\nbehind\n"
    text = report.written(marked)
    assert "typed" not in text
    assert text.startswith("before\n<!-- record: head_counts -->\n| heads | exact match, mean |")
    assert text.endswith("|\n<!-- end -->\nbehind\n")


def test_a_mark_that_names_no_table_is_refused():
    with pytest.raises(
        ValueError, match=r"expected the name of a table .*head_counts.* got 'heads'"
    ):
        report.written("<!-- record: heads -->\n<!-- end -->")


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.5, 0.25], ".250 to .500"), ([0.9999, 1.0], "1.000"), ([0.12344, 0.12341], ".123")],
)
def test_values_that_are_written_alike_stand_once(values, text):
    assert report.span(values) == text
