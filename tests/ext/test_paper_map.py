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
