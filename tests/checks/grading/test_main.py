"""`make grade`: a line for each exercise, whatever a notebook does; nothing else is touched."""

import csv
import hashlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from checks.grading.__main__ import COLUMNS, Grade, harmless, main, notebooks, parser, write_table
from tests.checks.grading.handing_in import chapter, from_lists, hand_in, solved, worn
from tests.paths import ROOT

HANGS = "def {name}(*given):\n    while True:\n        pass\n"
SLEEPS = "import time\n\n\ndef wait():\n    time.sleep(10_000)\n\n\n{name} = wait()\n"
FILLS = "def {name}(*given):\n    rows = []\n    while True:\n        rows.append(bytes(10**7))\n"
FILLS_TORCH = "def {name}(*given):\n    return torch.ones(10**11)\n"
LEAVES = "import os\n\n\ndef {name}(*given):\n    os._exit(0)\n"
CRASHES = "import ctypes\n\n\ndef {name}(*given):\n    ctypes.string_at(1)\n"
SYNTAX = "def {name}(*given:\n    return given\n"
OWN_CHECK = "def {check}(answer):\n    return 'all properties hold'\n\n\n{check}({name})\n"
WRONG_AXIS = """def masked_softmax(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=0)
"""
NOTHING = "def {name}(*given):\n    return None\n"


FOLDER = "hand-ins"


class Room:
    """A folder of notebooks, and a home and a folder for temporary files beside it."""

    def __init__(self, root: Path):
        self.root = root
        self.folder, self.home, self.scratch = (root / n for n in (FOLDER, "home", "tmp"))
        for path in (self.folder, self.home, self.scratch):
            path.mkdir()
        (self.home / "letter.txt").write_text("Dear reader", encoding="utf-8")
        # By the notebook's name: the result of each exercise, and a piece of its message.
        self.expected: dict[str, list[tuple[str, str]]] = {}

    def add(self, name, notebook, lines):
        hand_in(notebook, self.folder / name)
        self.expected[name] = lines

    def add_spoilt(self, name, asked, text, result, message):
        """The first exercise is answered by `text`, the others as printed."""
        first = asked.exercises[0]
        text = text.format(name=first.name, check=first.check)
        lines = [(result, message)] + [("passed", "")] * (len(asked.exercises) - 1)
        self.add(name, solved(asked, **{first.name: text}), lines)

    def add_listed(self, name, asked, seed, wear=False):
        notebook, told = from_lists(asked, seed)
        lines = [("passed", "") if says is None else ("failed", says) for says in told]
        self.add(name, worn(notebook) if wear else notebook, lines)

    def state(self):
        """All files below the root by what is in them, and the folders."""
        return {
            str(path): path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
        }

    def grade(self, *arguments):
        """Run the command, and hold its table against what is expected and what was there."""
        before = self.state()
        table = self.folder / "grades.csv"
        done = subprocess.run(
            [sys.executable, "-m", "checks.grading", FOLDER, *arguments],
            cwd=self.root,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT / "book"),
                "HOME": str(self.home),
                "TMPDIR": str(self.scratch),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        after = self.state()
        assert after.pop(str(table), None)
        assert after == before
        with table.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert tuple(header) == COLUMNS
        grades = [Grade(*row) for row in rows]
        found = {
            name: [(one.result, one.message) for one in grades if one.who == name]
            for name in self.expected
        }
        problems = [
            f"{name}: expected {lines}, got {found[name]}"
            for name, lines in self.expected.items()
            if len(lines) != len(found[name])
            or not all(
                wanted == result and (piece in message if piece else not message)
                for (wanted, piece), (result, message) in zip(lines, found[name], strict=True)
            )
        ]
        assert not problems, "\n".join(problems)
        assert len(grades) == sum(map(len, self.expected.values()))
        return grades, done.stdout


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


def writes(*places):
    """An answer that tries to write, also past Python, to delete and to start a program."""
    return (
        "import ctypes, os, shutil, subprocess\n\n\ndef {name}(*given):\n"
        f"    for path in {[str(place) for place in places]!r}:\n"
        "        for act in (\n"
        "            lambda: open(path, 'w').write('x'),\n"
        "            lambda: os.open(path, os.O_WRONLY | os.O_CREAT),\n"
        "            lambda: os.remove(path),\n"
        "            lambda: shutil.rmtree(os.path.dirname(path)),\n"
        "            lambda: subprocess.run(['touch', path]),\n"
        "            lambda: os.system('touch ' + path),\n"
        "            lambda: PAST_PYTHON and ctypes.CDLL(None).creat(path.encode(), 0o600),\n"
        "            lambda: PAST_PYTHON and ctypes.CDLL(None).unlink(path.encode()),\n"
        "        ):\n"
        "            try:\n"
        "                act()\n"
        "            except OSError:\n"
        "                pass\n"
        "    open('mine.txt', 'w').write('in the scratch folder')\n"
        "    open('../notes.txt', 'w')\n\n\n"
        f"PAST_PYTHON = {has_namespaces()}\n"
    )


def calls(port):
    return (
        "import socket\n\n\ndef {name}(*given):\n"
        f"    socket.create_connection(('127.0.0.1', {port}), timeout=3)\n"
    )


def has_namespaces():
    """Whether this system lets a process have its own."""
    script = (
        "import pathlib, sys, tempfile\nfrom checks.grading.confined import confine\n"
        "sys.exit(bool(confine(pathlib.Path(tempfile.mkdtemp()))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "book", env={"PATH": os.environ["PATH"]}
    )
    return done.returncode == 0


def test_a_few_notebooks(room):
    """Those of the page about teaching, which shows what this prints and writes."""
    masking, layer = chapter("masking"), chapter("attention_layer")
    room.add("anna/06_masking.ipynb", solved(masking), [("passed", "")] * 3)
    answers = {masking.exercises[0].name: "import torch\n\n\n" + WRONG_AXIS}
    given = solved(masking, **answers, packed_mask=masking.exercises[2].stub)
    lines = [("failed", "the softmax runs over the queries"), ("passed", ""), ("not answered", "")]
    room.add("bert/masks (2).ipynb", worn(given), lines)
    room.add_spoilt("carla.ipynb", layer, HANGS, "stopped", "it took more than 5 seconds")
    outside = (room.home / "letter.txt", room.folder / "anna" / "06_masking.ipynb")
    room.add_spoilt("dora.ipynb", layer, writes(*outside), "failed", "may not write ../notes.txt")
    (room.folder / "emil.ipynb").write_bytes(b"")
    room.expected["emil.ipynb"] = [("not read", "this is no notebook: it is empty")]
    (room.folder / "anna" / ".ipynb_checkpoints").mkdir()
    (room.folder / "anna" / ".ipynb_checkpoints" / "06_masking.ipynb").write_text("{}")
    grades, said = room.grade("--seconds", "5")
    assert ("Note: " in said) is not has_namespaces()
    page = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    told = re.sub(r"^Note: .*\n", "", said, flags=re.MULTILINE)
    assert shown == told
    rows = re.findall(
        r"^\| (\S+\.ipynb|.*\(2\)\.ipynb) \| (.*) \| (.*) \| (.*) \|$", page, re.MULTILINE
    )
    assert [tuple(map(str.strip, row)) for row in rows] == grades


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_notebooks(room):
    for number, name in enumerate(("seq2seq", "attention_seq2seq", "multi_head", "positions")):
        room.add_listed(f"anna/{chapter(name).stem}.ipynb", chapter(name), number)
    for number, name in enumerate(("embeddings", "transformer", "training"), start=1):
        room.add_listed(f"bert/hand-in {number}.ipynb", chapter(name), number, wear=True)
    room.add("carla.ipynb", solved(chapter("self_attention")), [("passed", "")] * 3)
    masking, layer = chapter("masking"), chapter("attention_layer")
    unanswered = solved(layer, **{e.name: e.stub for e in layer.exercises})
    room.add("unanswered.ipynb", unanswered, [("not answered", "")] * 2)
    late = "it took more than 10 seconds"
    room.add_spoilt("hangs.ipynb", layer, HANGS, "stopped", late)
    room.add_spoilt("sleeps.ipynb", masking, SLEEPS, "stopped", late)
    room.add_spoilt("fills.ipynb", layer, FILLS, "failed", "raised MemoryError")
    room.add_spoilt("fills with torch.ipynb", layer, FILLS_TORCH, "failed", "can't allocate memory")
    outside = (room.home / "letter.txt", room.folder / "carla.ipynb", room.root / "new.txt")
    outside += (room.scratch / "new.txt", ROOT / "_build" / "new.txt")
    room.add_spoilt("writes.ipynb", masking, writes(*outside), "failed", "PermissionError")
    room.add_spoilt("syntax.ipynb", masking, SYNTAX, "failed", "is no Python: '(' was never closed")
    room.add("empty.ipynb", nbformat.v4.new_notebook(), [("not read", "has no code")])
    room.add_spoilt("own check.ipynb", masking, NOTHING + OWN_CHECK, "failed", "expected")
    room.add_spoilt("leaves.ipynb", masking, LEAVES, "stopped", "ended by itself (code 0)")
    room.add_spoilt("crashes.ipynb", masking, CRASHES, "stopped", "ended by itself (SIGSEGV)")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        spoilt = calls(server.getsockname()[1])
        room.add_spoilt("calls.ipynb", masking, spoilt, "failed", "may not use the network")
        assert len(room.expected) == 20
        room.grade("--seconds", "10", "--memory", "700")
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_folder_without_notebooks_is_said(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"expected notebooks in {tmp_path}, found none\n"
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "x.ipynb").write_text("{}")
    (tmp_path / "folder.ipynb").mkdir()
    assert notebooks(tmp_path) == []


@pytest.mark.parametrize("out", ["folder", "nowhere/grades.csv", "notes.txt/grades.csv"])
def test_a_place_without_room_for_the_table_is_said_before_grading(tmp_path, out, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "x.ipynb").write_text("{}", encoding="utf-8")
    assert main([str(tmp_path), "--out", str(tmp_path / out)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "expected the name of a file for the table, in a folder that is there" in told.err
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the following arguments are required: folder"),
        (["x", "--seconds", "0"], "--seconds: expected a number above 0, got '0'"),
        (["x", "--seconds", "nan"], "--seconds: expected a number above 0, got 'nan'"),
        (["x", "--memory", "1.5"], "--memory: expected a whole number of at least 1, got '1.5'"),
        (["x", "y"], "unrecognized arguments: y"),
    ],
)
def test_a_wrong_command_line_is_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        main(given)
    assert message in capsys.readouterr().err


def test_the_table_holds_no_formula(tmp_path):
    write_table(tmp_path / "t.csv", [Grade("=1+1.ipynb", "6.1 A, b", "failed", '@x "y"')])
    text = (tmp_path / "t.csv").read_text(encoding="utf-8")
    assert text.splitlines()[1] == '\'=1+1.ipynb,"6.1 A, b",failed,"\'@x ""y"""'
    assert harmless("your function") == "your function"


def test_the_options_have_defaults():
    given = parser().parse_args(["folder"])
    assert (given.seconds, given.memory, given.out) == (60, 1024, None)
