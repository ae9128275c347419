"""One notebook in a process of its own: each answer is run, and the book's own check judges it."""

import ast
import contextlib
import gc
import json
import linecache
import os
import sys
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from checks.framework import CheckFailed
from checks.grading.confined import confine, limit_memory, watch
from checks.grading.exercises import Chapter, Exercise, all_chapters
from checks.grading.handed_in import HandedIn, NotAnswered, NotRead, Statement, read_notebook

PASSED, FAILED, NOT_ANSWERED = "passed", "failed", "not answered"
LONGEST = 600  # letters of a message


def prepare() -> None:
    """Read the chapters and import their checks, once for all that is forked from here."""
    for chapter in all_chapters():
        _ = chapter.trees
        for exercise in chapter.exercises:
            check_of(exercise, chapter)


def judge(
    content: bytes, file_name: str, scratch: Path, memory: int, begin: int, told: Connection
) -> None:
    """Judge the exercises of a notebook from number `begin` on, and tell it line by line, as JSON.

    First comes {"refused": why, "lacks": words, "exercises": [...]}; then, if it was not refused,
    for each exercise {"begins": i}, and {"result": ..., "message": ...} once it is judged. Ends the
    process.
    """

    def tell(**line: object) -> None:
        told.send_bytes(json.dumps(line).encode())

    with contextlib.suppress(AttributeError):  # there are no sessions on Windows
        os.setsid()
    quiet(told.fileno())
    lacks = [confine(scratch)]
    torch.set_num_threads(1)
    lacks.append(limit_memory(memory))
    watch(scratch)
    lack = "; ".join(filter(None, lacks))
    try:
        handed_in = read_notebook(content, file_name)
    except NotRead as why:
        tell(refused=one_line(why), lacks=lack, exercises=[])
    else:
        exercises = handed_in.chapter.exercises
        tell(refused="", lacks=lack, exercises=[str(exercise) for exercise in exercises])
        for i in range(begin, len(exercises)):
            tell(begins=i)
            result, message = verdict(handed_in, exercises[i])
            tell(result=result, message=message)
            gc.collect()
    told.close()
    os._exit(0)


def quiet(kept: int) -> None:
    """Close what was inherited but one file, and let nothing be read or printed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    if os.name == "posix":
        os.closerange(3, kept)
        os.closerange(kept + 1, 4096)


def verdict(handed_in: HandedIn, exercise: Exercise) -> tuple[str, str]:
    """The result for one exercise and, if it did not pass, what is to be said."""
    try:
        statements = handed_in.needed_for(exercise)
    except NotAnswered:
        return NOT_ANSWERED, ""
    except SyntaxError as error:
        return FAILED, one_line(f"the cell of your answer is no Python: {error}")
    check = check_of(exercise, handed_in.chapter)  # before any code of the learner's is run
    # A module of its own in the place of the program: so a class in it is found as in a notebook.
    notebook = types.ModuleType("__main__")
    program = sys.modules["__main__"]
    sys.modules["__main__"] = notebook
    try:
        errors = run(statements, handed_in.cells, notebook.__dict__)
        if exercise.name not in notebook.__dict__:
            return FAILED, one_line(errors[-1] if errors else f"no {exercise.name} was defined")
        return check(notebook.__dict__[exercise.name])
    finally:
        sys.modules["__main__"] = program


def run(statements: list[Statement], cells: list[str], namespace: dict) -> list[str]:
    """Run statements one by one, as a notebook goes on behind a cell with an error.

    Returns: what each error was, in words.
    """
    errors = []
    for number, text in enumerate(cells, start=1):
        place = f"<cell {number}>"  # where Python finds the lines that a message shows
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    for one in statements:
        try:
            exec(compile(ast.Module([one.node], []), one.place, "exec"), namespace)
        except BaseException as error:
            line = ast.unparse(one.node).split("\n")[0]
            errors.append(f"your code raised {said(error)}, in the line: {line}")
    return errors


def check_of(exercise: Exercise, chapter: Chapter) -> Callable[[object], tuple[str, str]]:
    """The book's own check cell as a function of the answer."""
    namespace: dict = {"__name__": "check"}
    for node in chapter.lasting:
        if exercise.check in {name.asname or name.name for name in getattr(node, "names", ())}:
            exec(compile(ast.Module([node], []), "<check>", "exec"), namespace)

    def check(answer: object) -> tuple[str, str]:
        try:
            exec(
                compile(exercise.check_cell, "<check>", "exec"), namespace | {exercise.name: answer}
            )
        except CheckFailed as failed:
            return FAILED, one_line(failed)
        except BaseException as error:
            return FAILED, one_line(f"your function raised {said(error)}")
        return PASSED, ""

    return check


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def one_line(words: object) -> str:
    """A message as it stands in a table: on one line, and not without end."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(words)).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
