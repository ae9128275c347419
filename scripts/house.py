"""Measure the house: how big the library is, who uses it, and what stands in each room.

    python scripts/house.py                  (make house)

Everything but the last line is read from syntax trees. tests/test_house.py holds the book to the
rules; here stand the facts that they are made of. Each function takes the repository's folder.
Which room may import which is a matter of the contracts in pyproject.toml.
"""

import ast
import functools
import io
import json
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
# The rooms that a notebook may import, beside that of its own chapter.
SHARED = ("lib", "tasks", "train", "checks", "drawing", "measure", "widgets", "engine")
ROOMS = (*SHARED, "build", "show", "chapters")
OWN = (*ROOMS, "tests", "benchmarks", "scripts")


def chapters(root: Path = ROOT) -> dict[str, Path]:
    """Each chapter's name, as its room is called, and its notebook."""
    return {path.stem[3:]: path for path in sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))}


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Each module of the rooms but tests by its dotted name; a package by that of its folder."""
    book = root / "book"
    found = {}
    for room in ROOMS:
        for path in sorted((book / room).rglob("*.py")):
            parts = path.relative_to(book).with_suffix("").parts
            if "tests" not in parts:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_shown(name: str) -> bool:
    """Whether a module is part of what a chapter shows: neither an experiment nor its answers."""
    return not {"experiments", "answers"} & set(name.split("."))


def code_of(path: Path) -> str:
    """The source of a module, or of a notebook's code cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@functools.cache
def parsed(text: str, name: str) -> ast.Module:
    """The tree of a source, kept by its text: a file that changes is read again."""
    return ast.parse(text, name)


def tree_of(path: Path) -> ast.Module:
    return parsed(code_of(path), str(path))


def imported(name: str, path: Path, known: set[str]) -> set[str]:
    """What the module `name` imports of this repository, as dotted names; of a package the modules
    that it takes out of it. An import inside a function counts, and so does import_module("lib.x").
    """
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join((*folder, *filter(None, [node.module])))
            submodules = {f"{base}.{alias.name}" for alias in node.names} & known
            found |= submodules or {base}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if function in ("import_module", "__import__"):
                found.add(str(node.args[0].value))
    return {other for other in found if other.split(".")[0] in OWN}


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """What each module, and each chapter by its file's name, imports of this repository."""
    known = modules(root)
    files = known | {path.name: path for path in chapters(root).values()}
    return {name: imported(name, path, set(known)) for name, path in files.items()}


def users(root: Path = ROOT) -> dict[str, tuple[list[str], list[str]]]:
    """For each module of lib the chapters that import it, themselves or in what they show, and the
    modules of the shared rooms that do.
    """
    graph = import_graph(root)
    of_chapter = {
        name: {path.name, *(m for m in graph if within(m, (f"chapters.{name}",)) and is_shown(m))}
        for name, path in chapters(root).items()
    }
    found = {}
    for module in modules(root):
        if not module.startswith("lib."):
            continue
        importers = {name for name, imports in graph.items() if module in imports}
        others = [name for name in sorted(importers) if within(name, SHARED)]
        found[module] = ([c for c, parts in of_chapter.items() if parts & importers], others)
    return found


def lines_of(node: ast.stmt | ast.excepthandler) -> range:
    """The numbers of the lines on which a statement stands."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield from lines_of(first) if isinstance(first.value.value, str) else ()


def message_lines(tree: ast.Module) -> Iterator[int]:
    """The lines of a raise but its first one: what an error says may take as many as it needs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield from lines_of(node)[1:]


def lines_of_code(path: Path) -> int:
    """How many lines hold code: not blank, no comment, no docstring, no sentence of a message."""
    return len(code_lines(path))


def code_lines(path: Path) -> set[int]:
    """The numbers of the lines that hold code."""
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(code_of(path)).readline):
        if token.type not in (*silent, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    tree = tree_of(path)
    return lines - set(docstring_lines(tree)) - set(message_lines(tree))


def lines_that_validate(path: Path) -> int:
    """How many lines of code only check and refuse: a raise, an `if` or an `except` that holds
    nothing but a raise and what makes its message, a whole function whose name begins with
    _require, and each call of one. A raise counts as one line.
    """
    checks: set[int] = set()
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Raise():
                checks.update(lines_of(node))
            case ast.FunctionDef() if node.name.startswith("_require"):
                checks.update(lines_of(node))
            case ast.Expr(value=ast.Call(func=function)) if _is_require(function):
                checks.update(lines_of(node))
            case ast.ExceptHandler() if _only_refuses(node.body):
                checks.update(lines_of(node))
            case ast.If() if _only_refuses(node.body):
                checks.update(range(node.lineno, lines_of(node.body[-1]).stop))
    return len(checks & code_lines(path))


def _is_require(function: ast.expr) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")).startswith("_require")


def _only_refuses(body: list[ast.stmt]) -> bool:
    """Whether these statements end in a raise, and the others only serve it or are checks too."""
    *before, last = body
    return isinstance(last, ast.Raise) and all(
        isinstance(statement, ast.Assign | ast.AnnAssign)
        or (isinstance(statement, ast.If) and _serves(statement))
        for statement in before
    )


def _serves(statement: ast.If) -> bool:
    """Whether an `if` before a raise only words its message, or refuses something itself."""
    branches = (statement.body, statement.orelse)
    return all(
        isinstance(part, ast.Assign | ast.AnnAssign | ast.Raise)
        or (isinstance(part, ast.If) and _serves(part))
        for branch in branches
        for part in branch
    )


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def path_to_softmax(root: Path = ROOT) -> list[str]:
    """The files of lib on the way from a Transformer's call to the softmax of its attention, in
    the order in which a reader meets them. The weights are asked for: without, torch computes it.
    """
    sys.path.insert(0, str(root / "book"))
    import torch

    from lib.attention import attention_maps
    from lib.transformer import Config, Transformer

    model = Transformer(Config(7, 11, d_model=6, n_heads=2, d_ff=5, n_layers=1))
    softmax = torch.Tensor.softmax
    found: list[str] = []

    def watched(*inputs: Any, **options: Any) -> torch.Tensor:
        frame: FrameType | None = sys._getframe(1)
        files: list[str] = []
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.parent == root / "book" / "lib":
                files.append(path.name)
            if frame.f_locals.get("self") is model:
                found.extend(reversed(files))
                break
            frame = frame.f_back
        return softmax(*inputs, **options)

    with mock.patch.object(torch.Tensor, "softmax", watched):
        attention_maps(model, torch.ones(1, 3).long(), torch.tensor([3]), torch.ones(1, 2).long())
    return list(dict.fromkeys(found))


def main() -> None:
    lib = sorted((ROOT / "book" / "lib").rglob("*.py"))
    code = sum(map(lines_of_code, lib))
    share = sum(map(lines_that_validate, lib)) / code
    print(f"lib: {len(lib)} files, {lines(lib)} lines, {code} of code, {share:.1%} validate\n")
    names = {name: path for name, path in modules().items() if name.startswith("lib.")}
    numbers = {name: path.name[:2] for name, path in chapters().items()}
    print(f"{'module':18}{'lines':>6}{'code':>6}{'valid':>6}  used by chapters; by modules")
    for name, (in_chapters, in_modules) in users().items():
        path = names[name]
        sizes = f"{lines([path]):6}{lines_of_code(path):6}{lines_that_validate(path):6}"
        who = f"{' '.join(numbers[c] for c in in_chapters) or '-'}; {' '.join(in_modules) or '-'}"
        print(f"{name:18}{sizes}  {who}")
    print(f"\n{'room':18}{'files':>6}{'lines':>8}  of Python, tests and experiments included")
    for room in ROOMS:
        files = sorted((ROOT / "book" / room).rglob("*.py"))
        print(f"{room:18}{len(files):6}{lines(files):8,}")
    total = sorted((ROOT / "book").rglob("*.py"))
    print(f"{'book':18}{len(total):6}{lines(total):8,}\n")
    print(f"files of lib from Transformer(...) to the softmax: {', '.join(path_to_softmax())}")


if __name__ == "__main__":
    main()
