"""What depends on the published model is found, and made again in the order in which it is read."""

import ast
import json
import subprocess

import pytest

from scripts import publish_model
from tests.paths import BOOK, ROOT


def notebook(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [{"cell_type": kind, "source": [source]} for kind, source in cells]
    path.write_text(json.dumps({"cells": made}))


def called(code: str) -> set[str]:
    """The functions that some code calls by their names."""
    calls = (node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_every_chapter_and_experiment_that_loads_the_model_is_found():
    found = {path.name for path in publish_model.chapters(ROOT)}
    loading = set()
    for path in BOOK.glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            code = "".join(cell["source"])
            if cell["cell_type"] == "code" and "load_published" in code:
                loading |= {path.name} if "load_published" in called(code) else set()
    assert len(loading) >= 3
    assert loading <= found
    experiments = {
        path
        for path in BOOK.glob("chapters/*/experiments/*.py")
        if "load_published" in called(path.read_text(encoding="utf-8"))
    }
    assert {path.stem for path in experiments} >= {"head_ablation", "head_roles"}
    assert set(publish_model.experiments(ROOT)) == experiments


def test_no_room_loads_the_model_behind_its_chapter():
    """Else a chapter would depend on it without a call of its own."""
    rooms = [
        path
        for folder in ("chapters/*", "widgets", "drawing", "checks", "engine", "measure", "tasks")
        for path in BOOK.glob(f"{folder}/*.py")
        if path.name != "answers.py"
    ]
    assert len(rooms) > 50
    assert not [path for path in rooms if "load_published" in called(path.read_text("utf-8"))]


def test_a_chapter_that_reads_a_record_of_the_model_depends_on_it_and_prose_does_not(tmp_path):
    experiments = tmp_path / "book" / "chapters" / "heads" / "experiments"
    experiments.mkdir(parents=True)
    (experiments / "ablation.py").write_text("model = load_published()\n")
    (experiments / "other.py").write_text('"""Like load_published."""\n')
    notebook(tmp_path / "book/01_loads.ipynb", ("code", "model, *_ = load_published()"))
    notebook(tmp_path / "book/02_reads.ipynb", ("code", 'read_results("ablation")["exact"]'))
    notebook(tmp_path / "book/03_tells.ipynb", ("markdown", "`load_published()` is one line"))
    notebook(tmp_path / "book/04_other.ipynb", ("code", 'read_results("other")'))
    assert [p.stem for p in publish_model.experiments(tmp_path)] == ["ablation"]
    assert [p.stem for p in publish_model.chapters(tmp_path)] == ["01_loads", "02_reads"]


def test_the_model_is_trained_first_and_chapters_are_refreshed_last(capsys):
    ran = []
    publish_model.main([], run=lambda command, **how: ran.append(command[1:]))
    assert ran == publish_model.commands(ROOT)
    assert ran[0] == ["scripts/make_checkpoint.py"]
    assert ["book/chapters/multi_head/experiments/head_ablation.py"] in ran[1:-2]
    assert ran[-2] == ["benchmarks/report.py"]
    assert ran[-1][0] == "scripts/refresh.py"
    assert all((ROOT / part).exists() for command in ran for part in command)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["python", command[0]] for command in ran]


def test_a_command_that_fails_ends_it():
    ran = []

    def run(command, **how):
        ran.append(command)
        assert how["check"]
        raise subprocess.CalledProcessError(1, command)

    with pytest.raises(subprocess.CalledProcessError):
        publish_model.main([], run=run)
    assert len(ran) == 1


def test_dry_runs_nothing(capsys):
    publish_model.main(["--dry"], run=None)
    assert "python scripts/make_checkpoint.py" in capsys.readouterr().out
