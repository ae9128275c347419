"""The page that leads from the paper to the book names only what is there."""

import importlib
import re

import pytest

from tests.paths import BOOK

TEXT = (BOOK / "paper_map.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:kit\.\w+\.)?\w+\.\w+)`", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_name_exists(name):
    module, _, attribute = name.rpartition(".")
    full = module if module.startswith("kit.") else f"lib.{module}"
    assert hasattr(importlib.import_module(full), attribute)


def test_every_chapter_that_builds_a_part_is_named():
    named = set(re.findall(r"\((\d\d_\w+)\.ipynb\)", TEXT))
    assert {path.stem for path in BOOK.glob("[0-9]*.ipynb")} <= named


# Attention Is All You Need, as arXiv has it: what is numbered there.
PAPER = {
    "section": "1 2 3 3.1 3.2 3.2.1 3.2.2 3.2.3 3.3 3.4 3.5 4 5 5.1 5.2 5.3 5.4 6 6.1 6.2 6.3 7",
    "equation": "1 2 3",
    "figure": "1 2 3 4 5",
    "table": "1 2 3 4",
}


@pytest.mark.parametrize("kind", PAPER)
def test_everything_that_is_numbered_in_the_paper_has_its_row(kind):
    left = " ".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| "))
    lists = re.findall(rf"\b{kind}s? (\d[\d.]*(?:(?:, | and )\d[\d.]*)*)", left)
    named = {number for numbers in lists for number in re.findall(r"\d+(?:\.\d+)*", numbers)}
    assert named == set(PAPER[kind].split())
