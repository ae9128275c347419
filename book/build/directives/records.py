"""Puts measured numbers into the text: `{rec}` reads them from the records of the experiments.

    one head gives {rec}`head_counts: mean(exact["1"]) | .2f`

First stands the name of the record, a file of a chapter's folder `results` or of
benchmarks/results. Then follows a path into it (`whole.exact`, `runs[0].loss`, or `record[...]`
where a key at the top is no word), or a calculation with paths, numbers, `+ - * / **` and the
functions below. A key after a list is the item with that name, as in `settings["window 32"]`;
otherwise it is read from each item, as in `mean(runs.loss)`. Last stands the format, as Python
writes it. What the record lacks stops the build.
"""

import ast
import json
import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxRole

BOOK = Path(__file__).resolve().parents[2]
ROLE = re.compile(r"(?P<record>\w+):\s*(?P<value>.+?)\s*\|\s*(?P<format>[^|]+)", re.DOTALL)
FUNCTIONS: dict[str, Callable] = {
    **{"mean": fmean, "median": median, "min": min, "max": max, "sum": sum, "len": len},
    **{"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "round": round},
}
OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def record_path(name: str, book: Path = BOOK) -> Path:
    """The file of the record called `name`. Errors: ValueError if there is none."""
    places = [
        *book.glob("chapters/*/results/*.json"),
        *book.parent.glob("benchmarks/results/*.json"),
    ]
    paths = {path.stem: path for path in places}
    if name not in paths:
        raise ValueError(f"expected a record ({', '.join(sorted(paths))}), got {name!r}")
    return paths[name]


def member(value: Any, key: str | int) -> Any:
    """The part of a record under `key`; of a list, the item with that name, or the part of each.

    Errors: ValueError if there is none.
    """
    if isinstance(value, list) and isinstance(key, str):
        named = [part for part in value if isinstance(part, dict) and part.get("name") == key]
        return named[0] if named else [member(part, key) for part in value]
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        there = ", ".join(map(repr, value)) if isinstance(value, dict) else f"{value!r:.60}"
        raise ValueError(f"expected one of {there:.300}, got {key!r}") from None


def calculate(text: str, record: dict[str, Any] | None = None) -> Any:
    """The value of a calculation, whose names are the keys of `record`.

    Errors: ValueError for what is no calculation, and for a key that the record lacks.
    """

    wanted = f"expected paths, numbers, + - * / ** and {', '.join(FUNCTIONS)}, got {text.strip()!r}"

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as constant):
                return constant
            case ast.Name(id="record") if record is not None:
                return record
            case ast.Name(id=name) if record is not None:
                return member(record, name)
            case ast.Attribute(value=inner, attr=name):
                return member(value(inner), name)
            case ast.Subscript(value=inner, slice=key):
                return member(value(inner), value(key))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, args))
            case ast.List(elts=parts):
                return [value(part) for part in parts]
        raise ValueError(wanted)

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{wanted}: {error}") from None


def recorded(content: str, book: Path = BOOK) -> tuple[str, Path]:
    """What the role's `content` says, as text, and the file that it was read from.

    Errors: ValueError for another form, an unknown record, a part that it lacks, a wrong format.
    """
    found = ROLE.fullmatch(content.strip())
    if not found:
        wanted = "a record, a path and a format such as `head_ablation: whole.exact | .3f`"
        raise ValueError(f"expected {wanted}, got {content!r}")
    path = record_path(found["record"], book)
    try:
        value = calculate(found["value"], json.loads(path.read_text(encoding="utf-8")))
        text = format(value, found["format"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    return text.replace("%", " %").replace("-", "−"), path


class Recorded(SphinxRole):
    """A number of a record, as text."""

    inliner: Inliner

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            text, path = recorded(self.text)
        except ValueError as error:
            source, line = self.get_source_info()
            raise ExtensionError(f"{source}, line {line}: {{rec}}: {error}") from None
        self.env.note_dependency(str(path))
        return [nodes.Text(text)], []


def setup(app) -> None:
    app.add_role("rec", Recorded())
