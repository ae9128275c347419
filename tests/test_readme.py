"""What README shows works as it stands there."""

import re
import subprocess
import sys

import pytest

from chapters.mistakes.properties import MODEL
from tests.paths import ROOT
from train.options import parse

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(
    r"^(make [^\n#]*)", "\n".join(re.findall(r"```console\n(.*?)```", README, re.S)), re.M
)


def test_python_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
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
    assert len(MODEL) == 15, "README says fifteen"


@pytest.mark.parametrize("command", COMMANDS)
def test_make_knows_each_command(command):
    asked = subprocess.run(
        f"{command.strip()} --dry-run", shell=True, cwd=ROOT, capture_output=True
    )
    assert asked.returncode == 0, asked.stderr
    for given in re.findall(r'ARGS="([^"]*)"', command):
        parse(given.split())


def test_help_shows_the_whole_text():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = dict(re.findall(r"^([a-z-]+):.*## (.*)$", (ROOT / "Makefile").read_text(), re.M))
    shown = dict(re.findall(r"^make (\S+)\s+(.*)$", done.stdout, re.M))
    assert shown == texts
    assert any(": " in text for text in texts.values())
