"""What `make check` runs for a chapter, and what it says when a part fails."""

import sys
from pathlib import Path

import pytest

from scripts import check_chapter
from scripts.check_chapter import Step, chapters, chosen, run_of_notebook, steps
from tests.paths import BOOK, ROOT

KNOWN = chapters()


def words(step: Step) -> list[str]:
    return list(map(str, step.command))


def test_every_chapter_is_known_with_its_room_and_widgets():
    assert [chapter.notebook.name for chapter in KNOWN.values()] == sorted(
        path.name for path in BOOK.glob("[0-9]*.ipynb")
    )
    assert all((ROOT / chapter.room).is_dir() for chapter in KNOWN.values())
    assert KNOWN["multi_head"].widgets == ("head_ablation",)


@pytest.mark.parametrize("name", ["multi_head", "05_multi_head", "book/05_multi_head.ipynb"])
def test_a_chapter_is_found_by_its_name_and_by_its_notebook(name):
    assert chosen(name, KNOWN).room == Path("book/chapters/multi_head")


@pytest.mark.parametrize("name", ["", "5", "heads", "constructor"])
def test_another_name_is_refused_in_one_line(name, capsys):
    assert check_chapter.main([name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"expected the name of a chapter, got {name!r}; use seq2seq, ")
    assert said.count("\n") == 1


def test_a_chapter_is_linted_tested_built_and_opened():
    chapter = KNOWN["multi_head"]
    commands = [words(step) for step in steps(chapter)]
    tools = [Path(command[0]).name for command in commands]
    assert {"ruff", "codespell", "eslint", "mypy", "jupyter-book"} <= set(tools)
    tested = {word for command in commands if "pytest" in command for word in command}
    assert {
        "book/chapters/multi_head/tests",
        "book/chapters/multi_head/tests/browser",
        "tests/notebooks",
        "tests/browser/test_pages.py",
        "tests/browser/test_touch.py",
        "multi_head or 05_multi_head",
        "multi_head or 05_multi_head or head_ablation",
    } <= tested
    assert "--nbval" in words(run_of_notebook(chapter))
    (terms,) = [command for command in commands if "scripts/terms.py" in command]
    assert {"book/05_multi_head.ipynb", "book/chapters/multi_head/checks.py"} <= set(terms)
    assert not any("chapters/masking" in word for word in terms)


def test_the_tests_of_a_step_are_there():
    for chapter in KNOWN.values():
        for step in steps(chapter):
            for word in words(step):
                if word.endswith((".py", ".ipynb")) or word.startswith(("tests/", "book/")):
                    assert (ROOT / word).exists(), (step.title, word)


def test_a_chapter_without_widgets_has_no_step_for_them():
    plain = next(chapter for chapter in KNOWN.values())._replace(widgets=())
    assert not any("tests/browser/test_touch.py" in words(step) for step in steps(plain))


def test_a_tool_that_is_not_installed_is_a_step_that_fails(monkeypatch, capsys):
    plain = Step("notebook", [sys.executable, "-c", "pass"])
    monkeypatch.setattr(check_chapter, "run_of_notebook", lambda chapter: plain)
    monkeypatch.setattr(check_chapter, "steps", lambda chapter: [Step("first", ["/no/tool"])])
    assert check_chapter.main(["multi_head"]) == 1
    assert "/no/tool is not there: make check installs it" in capsys.readouterr().out


def test_what_fails_is_shown_and_stops_nothing(monkeypatch, capsys):
    def python(code: str) -> list[str]:
        return [sys.executable, "-c", code]

    made = [
        Step("first", python("print('a line'); raise SystemExit(1)")),
        Step("second", python("print('silent')")),
    ]
    monkeypatch.setattr(check_chapter, "steps", lambda chapter: made)
    monkeypatch.setattr(
        check_chapter, "run_of_notebook", lambda chapter: Step("notebook", python("pass"))
    )
    assert check_chapter.main(["multi_head"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["FAILED", "a", "ok", "ok", "0"]
    assert lines[-1].endswith("s in all: 1 failed: first")
    made.pop(0)
    assert check_chapter.main(["multi_head"]) == 0
    assert "silent" not in capsys.readouterr().out
