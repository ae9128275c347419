"""A chapter's skeleton: it is true, it refuses what is there, and the guards say what it lacks."""

import runpy
import shutil
import subprocess
import sys

import nbformat
import pytest
import yaml

from build.source.rooms import Words, rooms
from checks.framework import CheckFailed
from scripts import new_chapter as script
from scripts.new_chapter import SECTIONS, new_chapter
from tests import test_house
from tests.notebooks import guards, test_exercises
from tests.paths import BOOK, ROOT

NAME, TITLE, STEM = "sparse_attention", "Sparse attention", "05_sparse_attention"


@pytest.fixture
def root(tmp_path):
    """A book of two chapters, in order 1, 4."""
    (tmp_path / "book").mkdir()
    for stem in ("01_seq2seq", "04_self_attention"):
        shutil.copy(BOOK / f"{stem}.ipynb", tmp_path / "book")
    contents = "chapters:\n  - file: book/01_seq2seq\n  - file: book/04_self_attention\n"
    (tmp_path / "_toc.yml").write_text(contents, encoding="utf-8")
    return tmp_path


@pytest.fixture
def written(root):
    return new_chapter(root, NAME, TITLE)


@pytest.fixture
def importable(root, written, monkeypatch):
    """The new room beside the book's."""
    monkeypatch.syspath_prepend(root / "book")
    yield
    for module in [name for name in sys.modules if name.startswith(f"chapters.{NAME}")]:
        del sys.modules[module]


def read(root):
    return nbformat.read(root / "book" / f"{STEM}.ipynb", as_version=4)


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_part_is_written(root, written):
    assert [str(path.relative_to(root)) for path in written] == [
        f"book/{STEM}.ipynb",
        f"book/chapters/{NAME}/checks.py",
        f"book/chapters/{NAME}/plots.py",
        f"book/chapters/{NAME}/answers.py",
        f"book/chapters/{NAME}/words.yml",
        f"book/chapters/{NAME}/tests/test_checks.py",
        f"book/chapters/{NAME}/tests/test_plots.py",
        "_toc.yml",
    ]
    assert all(path.is_file() for path in written)
    for path in written:
        assert "$" not in path.read_text(encoding="utf-8")


def test_its_words_are_those_that_the_build_reads(root, written):
    (root / "_toc.yml").write_text(
        yaml.dump({"root": "book/intro", "parts": [{"chapters": [{"file": f"book/{STEM}"}]}]}),
        encoding="utf-8",
    )
    (room,) = rooms(root)
    assert room.name == NAME
    assert room.words == Words(here="what it is on the map of the book")


def test_notebook_has_the_common_setup_and_the_sections_in_order(root, written):
    notebook = read(root)
    nbformat.validate(notebook)
    cells = [cell.source for _, cell in guards.code_cells(notebook)]
    first = nbformat.read(BOOK / "01_seq2seq.ipynb", as_version=4)
    assert cells[0] == next(guards.code_cells(first))[1].source
    titles = [
        cell.source.splitlines()[0].removeprefix("## ")
        for cell in notebook.cells
        if cell.cell_type == "markdown" and cell.source.startswith("## ")
    ]
    assert titles == [*SECTIONS, "Exercises", "Summary"]
    assert notebook.cells[0].source.startswith(f"# {TITLE}\n")


def test_contents_name_it_behind_the_last_chapter_or_the_one_asked_for(root):
    new_chapter(root, NAME, TITLE)
    new_chapter(root, "early", "Early", after="seq2seq", number=2)
    assert (root / "_toc.yml").read_text(encoding="utf-8").splitlines() == [
        "chapters:",
        "  - file: book/01_seq2seq",
        "  - file: book/02_early",
        "  - file: book/04_self_attention",
        f"  - file: book/{STEM}",
    ]


@pytest.mark.usefixtures("importable")
def test_check_refuses_the_empty_answer_and_accepts_none_yet(root):
    (exercise,) = test_exercises.exercises(root / "book" / f"{STEM}.ipynb")
    assert exercise.name == f"my_{NAME}"
    with pytest.raises(CheckFailed, match="expected a tensor"):
        test_exercises.run(exercise, exercise.stub)
    with pytest.raises(NotImplementedError, match="test what the exercise asks for"):
        test_exercises.run(exercise, function=lambda x: x)
    solution = test_exercises.solution_of(root / "book" / f"{STEM}.ipynb", exercise.name)
    with pytest.raises(NotImplementedError, match="the solution"):
        test_exercises.run(exercise, solution)


@pytest.mark.usefixtures("importable")
def test_its_own_tests_pass(root):
    folder = root / "book" / "chapters" / NAME / "tests"
    checks = runpy.run_path(str(folder / "test_checks.py"))
    for answer in (lambda x: None, lambda x: x[:-1], lambda x: x.T):
        checks["test_what_is_no_answer_is_refused"](answer)
    plots = runpy.run_path(str(folder / "test_plots.py"))
    plots["test_line_and_names_of_the_axes"]()
    plots["test_lists_of_different_lengths_are_refused"]()
    plots["plt"].close("all")


def test_house_is_content_and_the_guards_say_what_is_missing(root, written):
    for path in (root / "book").glob("0[14]_*.ipynb"):
        path.unlink()  # their rooms are not here
    for rule in (
        test_house.notebooks_import_shared_rooms_and_their_own,
        test_house.modules_say_what_they_are,
        test_house.modules_have_tests_beside_them,
        test_house.names_are_concepts,
        test_house.nothing_is_passed_on,
        test_house.chapters_have_their_rooms,
        test_house.rooms_hold_what_is_known,
    ):
        assert rule(root) == []
    problems = [problem for guard in guards.GUARDS for problem in guard(read(root))]
    assert any("run scripts/refresh.py" in problem for problem in problems)
    page = root / "book" / f"{STEM}.ipynb"
    with pytest.raises(AssertionError):
        test_exercises.test_chapter_has_exercises_with_hints_and_solutions(page)
    answers = root / "book" / "chapters" / NAME / "answers.py"
    listed = runpy.run_path(str(answers))
    assert (listed["RIGHT"], listed["WRONG"]) == ({f"my_{NAME}": []}, {f"my_{NAME}": {}})


@pytest.mark.parametrize("name", [NAME, "early"])
def test_what_is_written_is_in_form(root, name):
    new_chapter(root, name, TITLE)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(root)]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([*ruff, *command, *settings], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Sparse", TITLE), "expected a name like sparse_attention, got 'Sparse'"),
        (("16_sparse", TITLE), "expected a name like"),
        (("../up", TITLE), "expected a name like"),
        ((NAME, " "), "expected a title"),
        ((NAME, 'The "best"'), "expected a title without quotation marks"),
        ((NAME, TITLE, "masking"), "expected after one of seq2seq, self_attention, got 'masking'"),
        ((NAME, TITLE, None, 4), r"expected a free number, got 4 \(04_self_attention\); 5 is free"),
        ((NAME, TITLE, None, 100), r"got 100 \(no number of two digits\)"),
        (("self_attention", TITLE), "got 04_self_attention, which is there"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(root, arguments, message):
    before = snapshot(root)
    with pytest.raises(ValueError, match=message):
        new_chapter(root, *arguments)
    assert snapshot(root) == before


@pytest.mark.parametrize("there", ["mine.py", "tests/test_checks.py"])
def test_what_is_there_is_kept(root, there):
    path = root / "book" / "chapters" / NAME / there
    path.parent.mkdir(parents=True)
    path.write_text("mine", encoding="utf-8")
    before = snapshot(root)
    with pytest.raises(ValueError, match="which is there; choose another name"):
        new_chapter(root, NAME, TITLE)
    assert snapshot(root) == before


def test_contents_without_the_chapter_before_are_refused(root):
    (root / "_toc.yml").write_text("chapters: []\n", encoding="utf-8")
    before = snapshot(root)
    with pytest.raises(ValueError, match=r"expected book/04_self_attention in _toc\.yml"):
        new_chapter(root, NAME, TITLE)
    assert snapshot(root) == before


def test_command_line_tells_the_files_and_the_mistake(root, monkeypatch, capsys):
    monkeypatch.setattr(script, "ROOT", root)
    assert script.main([NAME, TITLE, "--after", "seq2seq"]) == 0
    assert f"make refresh CHAPTER=book/{STEM}.ipynb" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script.main([NAME, TITLE])
    assert "which is there" in capsys.readouterr().err
