"""The order in which `make notebooks` runs the chapters."""

import json
import subprocess
import sys

from scripts.longest_first import longest_first
from tests.paths import ROOT


def test_the_longest_comes_first_and_before_it_what_was_never_timed(tmp_path):
    taken = {"01_short": 7, "02_new": None, "03_long": 120, "04_middle": 62.5}
    for stem, seconds in taken.items():
        room = tmp_path / "chapters" / stem[3:]
        room.mkdir(parents=True)
        if seconds:
            text = json.dumps({"cpu": {"seconds": seconds}})
            (room / "run.json").write_text(text, encoding="utf-8")
    found = longest_first(tmp_path / f"{stem}.ipynb" for stem in taken)
    assert [path.stem for path in found] == ["02_new", "03_long", "04_middle", "01_short"]


def test_the_command_prints_each_chapter_once():
    names = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("book/[0-9]*.ipynb"))
    done = subprocess.run(
        [sys.executable, "scripts/longest_first.py", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.split()
    assert sorted(printed) == names
    assert printed != names
