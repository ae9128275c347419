"""Where things stand, and what the library defines, read from its source without importing it."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
LIB = BOOK / "lib"
HTML = ROOT / "_build" / "html"


@functools.cache
def lib_definitions() -> dict[str, tuple[Path, ast.AST]]:
    """Each public function and class of the library: its file and its syntax tree."""
    found = {}
    for path in sorted(LIB.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            if public:
                found[node.name] = (path, node)
    return found
