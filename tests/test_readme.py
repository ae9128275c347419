"""What README, and the pages of the book that it leads to, show works as it stands there."""

import importlib.metadata
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from chapters.mistakes.properties import MODEL
from checks.grading.__main__ import parser
from show import __main__ as show
from tests.paths import BOOK, ROOT
from train import export, translate
from train.__main__ import main as train
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
    for page in (README, TRAIN, CHECK, TEACH)
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
FRONT = 110  # lines that a front page may have
PICTURE = 150_000  # bytes that its picture may have


def test_the_example_runs_with_the_packages_modules(tmp_path):
    """As collected for the package, without the book on the path: what the page shows comes out."""
    spec = importlib.util.spec_from_file_location("backend", ROOT / "package" / "backend.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    assert "lib.data" in backend.collect(tmp_path)
    code, *_ = re.findall(r"```python\n(.*?)```", CHECK, re.S)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "mine.py")],
        cwd=tmp_path,
        env={"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(MODEL) - 3, "three need more than the example gives"
    assert all(line.startswith("ok ") for line in lines)
    assert len(MODEL) == 15, "the page says fifteen"
    (shown,) = re.findall(r"```text\n(.*?)```", CHECK, re.S)
    assert [line[:16] for line in shown.splitlines()] == [line[:16] for line in lines]


def test_the_package_has_the_version_of_the_book():
    (version,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    settings = tomllib.loads((ROOT / "package" / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["version"] == version
    assert f"transformer_checks-{version}-py3" in CHECK


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_package_works_in_a_fresh_environment(tmp_path):
    """Built, installed beside other libraries, run on the page's models, found by pytest."""

    def run(*command):
        done = subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3000,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", ".", ROOT / "package")
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pins = (ROOT / "requirements" / "bench.txt").read_text(encoding="utf-8")
    peers = re.findall(r"^(?:x-)?transformers==\S+", pins, re.M)
    torch_here = f"torch=={importlib.metadata.version('torch')}"
    run(python, "-m", "pip", "install", "-q", f"{wheel}[pytest]", torch_here, *peers)
    *codes, test = re.findall(r"```python\n(.*?)```", CHECK, re.S)
    assert len(codes) == 3
    for code in codes:
        (tmp_path / "mine.py").write_text(code, encoding="utf-8")
        assert re.findall(r"^(\w+)", run(python, "mine.py"), re.M) == ["ok"] * (len(MODEL) - 3)
    model = codes[0].partition("\n\n\nprint")[0].replace("Wrapped", "MyModel")
    (tmp_path / "test_mine.py").write_text(f"{model}\n\n{test}", encoding="utf-8")
    assert "1 passed" in run(python, "-m", "pytest", "-q", "test_mine.py")


@pytest.mark.parametrize("command", COMMANDS)
def test_make_knows_each_command(command):
    asked = subprocess.run(f"{command} --dry-run", shell=True, cwd=ROOT, capture_output=True)
    assert asked.returncode == 0, asked.stderr
    if command.startswith("make show"):
        set_to = dict(word.split("=", 1) for word in shlex.split(command)[2:])
        show.parse([*set_to["RUN"].split(), *set_to.get("ARGS", "").split()])
        return
    run = re.search(r"RUN=(\S+)", command)
    for given in re.findall(r'ARGS="([^"]*)"', command):
        if command.startswith("make export"):
            export.parse([run[1], *given.split()])
        elif run:
            translate.parse([run[1], *given.split()])
        elif command.startswith("make grade"):
            parser().parse_args(["folder", *given.split()])
        else:
            parse(given.split())


def test_the_commands_of_the_front_page_of_training_and_of_grading_are_read():
    told = [re.split(r"[ =]", command)[1] for command in COMMANDS]
    wanted = {"book": 1, "test": 1, "lab": 1, "train": 6, "translate": 4, "grade": 2}
    wanted |= {"show": 3, "export": 1, "package": 1}
    assert {name: told.count(name) for name in told} == wanted


def sessions(page):
    """What is typed on a page, and the lines that it shows below."""
    blocks = re.findall(r"```text\n(.*?)```", page, re.S)
    parts = [
        part.splitlines() for block in blocks for part in re.split(r"^> ", block, flags=re.M)[1:]
    ]
    return [(typed, shown) for typed, *shown in parts]


def test_the_shown_sessions_have_the_form_of_real_ones():
    """On both pages the same sentences, and one whose second line is a score and then a map."""
    front, page = sessions(README), sessions(TRAIN)
    assert page[: len(front)] == front
    assert len(front) == 2
    ((typed, shown),) = page[2:]
    scored, (head, *rows) = shown[:2], shown[2:]
    assert all(re.fullmatch(r" {2}-\d\.\d{3} {2}\S.*", line) for line in scored)
    assert head.split() == [*typed.split(), "<eos>"]
    assert [row.split()[0] for row in rows] == [*scored[0].split()[1:], "<eos>"]
    for row in rows:
        assert len(row) == len(head)
        assert 98 <= sum(map(int, re.findall(r"\d+", row))) <= 102
    told = re.search(r"^([\d,]+) sentences, ([\d,]+) tokens in ([\d.]+) s: (.*)$", TRAIN, re.M)
    sentences, tokens, seconds = (float(told[i].replace(",", "")) for i in (1, 2, 3))
    speeds = [float(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", told[4])]
    assert speeds == pytest.approx([sentences / seconds, tokens / seconds], rel=0.05)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_shown_commands_give_what_is_shown(tmp_path, monkeypatch, capsys):
    """The whole training, then what both pages type: the same words; scores and maps are near."""
    monkeypatch.chdir(tmp_path)
    assert train(["--threads", "1", "--device", "cpu"]) == 0
    said = (tmp_path / "runs/translation/summary.txt").read_text(encoding="utf-8")
    assert float(re.search(r"BLEU ([\d.]+)", said)[1]) > 99
    for typed, shown in sessions(TRAIN):
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed + "\n"))
        best = ["--best", "2", "--show-attention"] if len(shown) > 2 else []
        assert translate.main(["runs/translation", "--device", "cpu", *best]) == 0
        done = capsys.readouterr()
        if best:
            (first, second, *rows), (score, *words) = done.out.splitlines(), shown[0].split()
            assert first.split()[1:] == words
            assert float(first.split()[0]) == pytest.approx(float(score), abs=0.2)
            assert float(second.split()[0]) < float(first.split()[0])
            assert [row.split()[0] for row in rows] == [row.split()[0] for row in shown[2:]]
        elif len(shown) > 1:  # what is made of an unknown word depends on the machine
            assert done.err.splitlines()[-1] == shown[1]
        else:
            assert done.out.splitlines() == shown


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
