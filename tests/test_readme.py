"""What README, and the pages of the book that it leads to, show works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chapters.mistakes.properties import MODEL
from checks.grading.__main__ import parser
from tests.paths import BOOK, ROOT
from train.options import parse

README, TRAIN, CHECK, TEACH = (
    path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        *(BOOK / f"{name}.md" for name in ("train_your_own", "check_your_model", "teaching")),
    )
)
COMMANDS = [
    command.strip()
    for page in (README, TRAIN, TEACH)
    for block in re.findall(r"```console\n(.*?)```", page, re.S)
    for command in re.findall(r"^(make [^\n#]*)", block, re.M)
] + re.findall(r"`(make grade [^`]*)`", README)
# The guides stand beside what they are about.
GUIDES = [
    path
    for pattern in ("*.md", ".github/*.md", "book/**/README.md", "*/README.md")
    for path in sorted(ROOT.glob(pattern))
    if "_reader" not in path.parts
]
FRONT = 100  # lines that a front page may have
PICTURE = 150_000  # bytes that its picture may have


def test_python_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", CHECK, re.S)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "mine.py")],
        cwd=ROOT,
        env={"PYTHONPATH": "book", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(MODEL) - 3, "three need more than the example gives"
    assert all(line.startswith("ok ") for line in lines)
    assert len(MODEL) == 15, "the page says fifteen"


@pytest.mark.parametrize("command", COMMANDS)
def test_make_knows_each_command(command):
    asked = subprocess.run(f"{command} --dry-run", shell=True, cwd=ROOT, capture_output=True)
    assert asked.returncode == 0, asked.stderr
    for given in re.findall(r'ARGS="([^"]*)"', command):
        if command.startswith("make grade"):
            parser().parse_args(["folder", *given.split()])
        else:
            parse(given.split())


def test_the_commands_of_the_front_page_of_training_and_of_grading_are_read():
    told = [re.split(r"[ =]", command)[1] for command in COMMANDS]
    assert {name: told.count(name) for name in told} == {
        **{"book": 1, "test": 1, "lab": 1, "train": 4},
        "grade": 2,
    }


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_file_that_a_guide_links_is_there(guide):
    text = re.sub(r"`[^`]*`", "", guide.read_text(encoding="utf-8"))  # code may show a link
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [name for name in linked if not (guide.parent / name).exists()] == []


def test_the_table_of_the_front_page_names_every_folder():
    table = README.partition("## What is here")[2].partition("\n## ")[0]
    named = {name.removeprefix("book/") for name in re.findall(r"`([\w/]+)/`", table)}
    listed = subprocess.run(
        ["git", "ls-files", "*/*"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    tops = {Path(name).parts[0] for name in listed if not name.startswith(".")} - {"book"}
    rooms = {Path(name).parts[1] for name in listed if re.match(r"book/\w+/", name)}
    unnamed = {"figures", "static", "templates"}  # what the pages are made of
    assert named - {"chapters/name"} | {"chapters"} == (tops | rooms) - unnamed


def test_the_front_page_is_short_and_has_a_light_picture_with_a_description():
    assert len(README.splitlines()) <= FRONT
    ((description, name),) = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", README)
    assert len(description.split()) > 20
    assert (ROOT / name).stat().st_size < PICTURE


def test_help_shows_the_whole_text():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = dict(re.findall(r"^([a-z-]+):.*## (.*)$", (ROOT / "Makefile").read_text(), re.M))
    shown = dict(re.findall(r"^make (\S+)\s+(.*)$", done.stdout, re.M))
    assert shown == texts
    assert any(": " in text for text in texts.values())
