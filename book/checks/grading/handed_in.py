"""A notebook that was handed in: where the answers are, and what of its code each of them needs.

A learner adds cells, moves them, renames them and leaves errors in them. So nothing is known by the
place of a cell, its identity or its tags. The answer to an exercise is what the learner last
defined under the name that the stub has, or else what the learner gave to the exercise's check.

Of all other code, only those statements are run that bind a name which the answer reads, and which
they read in turn. So no training is run that an answer does not need, and what hangs elsewhere does
no harm. A chapter's own imports, functions and classes count as if they stood before all cells.
"""

import ast
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import nbformat

from checks.grading.exercises import Chapter, Exercise, chapter_of, is_named, same

MAGIC = re.compile(r"^\s*(?:[%!?].*|.*\?)$", re.MULTILINE)
TIMED = re.compile(r"\s*%%(?:time|timeit|capture|prun)\b.*\n")  # the rest of the cell is Python
AT_ONCE = {"listcomp", "setcomp", "dictcomp", "genexpr"}  # scopes that run where they stand
COMPOUND = ast.If | ast.For | ast.While | ast.Try | ast.With | ast.Match
STAR = "*"  # the name that stands for all that `from x import *` may bind


class NotRead(ValueError):
    """A file of which nothing can be graded; the message says why."""


class NotAnswered(Exception):
    """The stub is as the book has it, or nothing bears its name."""


@dataclass(frozen=True)
class Statement:
    """A statement of a notebook, or of the chapter it was made from, with the names it touches."""

    node: ast.stmt
    place: str  # the cell, as a message names it
    is_own: bool  # the learner's, and not the book's
    binds: frozenset[str]
    reads: frozenset[str]  # when it is run
    reads_later: frozenset[str]  # when a function in it is called


@dataclass
class HandedIn:
    """The code cells of a notebook beside the chapter that it was made from."""

    chapter: Chapter
    cells: list[str]
    broken: dict[str, SyntaxError] = field(default_factory=dict)  # by the text of the cell

    @cached_property
    def statements(self) -> list[Statement]:
        """The chapter's lasting statements, then those of all cells in their order.

        The stubs are left out. A cell with a syntax error has no statements, as it does nothing
        when it is run.
        """
        found = [statement(node, "the book", is_own=False) for node in self.chapter.lasting]
        stubs = {ast.dump(n) for e in self.chapter.exercises for n in ast.parse(e.stub).body}
        for number, text in enumerate(self.cells, start=1):
            is_own = same(text) not in self.chapter.trees
            try:
                body = [n for n in ast.parse(python_of(text)).body if ast.dump(n) not in stubs]
                found += [statement(node, f"<cell {number}>", is_own) for node in body]
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                self.broken[text] = as_syntax_error(error)
        imported = {
            name
            for one in found
            if isinstance(one.node, ast.Import | ast.ImportFrom)
            for name in one.binds
        }
        return [with_mutations(one, imported) for one in found]

    def needed_for(self, exercise: Exercise) -> list[Statement]:
        """The statements to run, in order, after which the answer bears the exercise's name.

        Errors: NotAnswered, or the SyntaxError of the cell that was to be the answer.
        """
        statements = self.statements
        answers = [i for i, one in enumerate(statements) if is_answer(one, exercise)]
        if answers:
            after = range(answers[-1], len(statements))
            checked = (i for i in after if any(calls(statements[i].node, exercise.check)))
            return chosen(statements, exercise.name, next(checked, len(statements) - 1) + 1)
        for at in reversed(range(len(statements))):
            for given in given_to(statements[at], exercise):
                (node,) = ast.parse(f"{exercise.name} = {ast.unparse(given)}").body
                renamed = statement(node, statements[at].place, is_own=True)
                given_name = [*statements[:at], renamed, *statements[at:]]
                return chosen(given_name, exercise.name, at + 1)
        for text, error in self.broken.items():
            if re.search(rf"^\s*(?:def|class)\s+{exercise.name}\b", text, re.MULTILINE):
                raise error
        raise NotAnswered


def read_notebook(content: bytes, file_name: str) -> HandedIn:
    """The notebook in a file. Errors: NotRead."""
    try:
        notebook = nbformat.reads(content.decode("utf-8-sig"), as_version=4)
        cells = [str(cell["source"]) for cell in notebook.cells if cell["cell_type"] == "code"]
    except Exception as error:  # whatever is wrong with it, it is another's file
        what = "it is empty" if not content.strip() else f"{type(error).__name__}: {error}"
        raise NotRead(f"this is no notebook: {what}") from error
    if not any(map(str.strip, cells)):
        raise NotRead("the notebook has no code")
    chapter = chapter_of(cells, file_name)
    if chapter is None:
        raise NotRead("nothing in it tells which chapter of the book it was made from")
    return HandedIn(chapter, cells)


def python_of(text: str) -> str:
    """The Python of a cell, with its lines where they were; what is for IPython left out."""
    if timed := TIMED.match(text):
        text = "\n" * timed[0].count("\n") + text[timed.end() :]
    if text.lstrip().startswith("%%"):
        return ""
    try:
        ast.parse(text)
    except SyntaxError:
        return MAGIC.sub("", text)
    return text


def as_syntax_error(error: Exception) -> SyntaxError:
    return error if isinstance(error, SyntaxError) else SyntaxError(str(error))


# --- the names that a statement touches -------------------------------------------------------


def statement(node: ast.stmt, place: str, is_own: bool) -> Statement:
    table = symtable.symtable(ast.unparse(node), place, "exec")
    symbols = table.get_symbols()
    binds = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    now = {s.get_name() for s in symbols if s.is_referenced()}
    later: set[str] = set()
    for inner in table.get_children():
        read_in(inner, now, later)
    # What may be bound here, or is only added to, may have been bound before.
    now |= binds if isinstance(node, COMPOUND) else {*added_to(node)}
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        binds = {STAR}
    return Statement(node, place, is_own, frozenset(binds), frozenset(now), frozenset(later))


def added_to(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def read_in(table: symtable.SymbolTable, now: set[str], later: set[str]) -> None:
    """Add the global names that a scope reads: a class and a comprehension are run at once."""
    at_once = table.get_type() == "class" or table.get_name() in AT_ONCE
    into = now if at_once else later
    into |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    for inner in table.get_children():
        read_in(inner, into, later)


def with_mutations(one: Statement, imported: set[str]) -> Statement:
    """The statement that also binds what it changes, as in x[0] = 1, x.y = 1 and x.append(1)."""
    changed = {*mutated(one.node)} - imported
    return Statement(
        one.node, one.place, one.is_own, one.binds | changed, one.reads, one.reads_later
    )


def mutated(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    parts: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        parts = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        parts = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        parts = [node.value.func]
    for part in parts:
        inside = part
        while isinstance(inside, ast.Attribute | ast.Subscript):
            inside = inside.value
        if inside is not part and isinstance(inside, ast.Name):
            yield inside.id
    for child in ast.iter_child_nodes(node):
        yield from mutated(child)


def chosen(statements: Sequence[Statement], name: str, end: int) -> list[Statement]:
    """The statements that bind a name before `end`, and what they read, in their order.

    A name is bound by the last statement before the one that reads it, as in a notebook that is run
    from top to bottom; where there is none, by the first after it, which the learner ran before.
    """
    found = {i for i, one in enumerate(statements[:end]) if STAR in one.binds}
    asked: set[tuple[str, int]] = set()
    open_ = [(name, end)]
    while open_:
        name, before = asking = open_.pop()
        if asking in asked:
            continue
        asked.add(asking)
        order = [*range(before - 1, -1, -1), *range(before, len(statements))]
        at = next((i for i in order if name in statements[i].binds), None)
        if at is None:
            continue
        found.add(at)
        open_ += [(other, at) for other in statements[at].reads]
        open_ += [(other, end) for other in statements[at].reads_later]
    return [statements[i] for i in sorted(found)]


# --- which statement is the answer ------------------------------------------------------------


def is_answer(one: Statement, exercise: Exercise) -> bool:
    """Whether it is the learner's and gives the exercise's name to something."""
    is_bound = exercise.name in one.binds and exercise.name not in {*mutated(one.node)}
    return one.is_own and is_bound


def calls(node: ast.AST, function: str) -> Iterator[ast.Call]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and getattr(part.func, "id", "") == function:
            yield part


def given_to(one: Statement, exercise: Exercise) -> Iterator[ast.expr]:
    """What a learner gave to the check in the place of what bears the stub's name."""
    for call in calls(one.node, exercise.check) if one.is_own else ():
        for given in call.args[:1]:
            if not is_named(exercise.name, ast.unparse(given)):
                yield given
