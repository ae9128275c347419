"""Parts of the page's engine, shown from their files as `lib.notebook.show_source` shows Python."""

import re
import textwrap

from engine.text import scripts
from lib.notebook import Source

DEFINED = (
    r"( *)(?:(?:export|async|static|get|function|class|const) )*{name}"
    r"(?:\(.*| = .*| extends .*| )[{{}}][;,]?$"
)
COMMENT = re.compile(r" *(?:/\*\*|\*|//)")


class Script(Source):
    """Some JavaScript, shown as code in the page and as plain text in a terminal."""

    def _repr_markdown_(self) -> str:
        return f"```javascript\n{self.text}\n```"


def show_script(file: str, *names: str) -> Script:
    """Show functions, methods or classes of the engine, each with the comment that stands above it.

    Args: file, a script of the worker without its ending; names, such as `makeModel`, or
        `Engine.linear` for a method or for a function within a function.
    Errors: ValueError for a file that the engine does not have, and for a name that stands in it
        never or more than once.
    """
    files = scripts()
    if file not in files:
        raise ValueError(f"expected a script of the engine out of {', '.join(files)}, got {file!r}")
    if not names:
        raise ValueError("expected one name or more, got none")
    lines = files[file].read_text(encoding="utf-8").splitlines()
    return Script("\n\n".join(textwrap.dedent("\n".join(_part(lines, name))) for name in names))


def _part(lines: list[str], name: str) -> list[str]:
    """The lines of one definition and of the comment above it."""
    for one in name.split("."):
        pattern = re.compile(DEFINED.format(name=re.escape(one)))
        found = [n for n, line in enumerate(lines) if pattern.match(line)]
        if len(found) != 1:
            raise ValueError(f"expected one definition of {name!r}, found {len(found)} of {one!r}")
        first = found[0]
        last = _end(lines, first)
        while first and COMMENT.match(lines[first - 1]):
            first -= 1
        lines = lines[first : last + 1]
    return lines


def _end(lines: list[str], first: int) -> int:
    """The last line of a definition: its own if all braces close there, else that of its indent."""
    line = lines[first]
    if line.count("{") == line.count("}"):
        return first
    close = " " * (len(line) - len(line.lstrip())) + "}"
    closing = (n for n in range(first + 1, len(lines)) if lines[n].startswith(close))
    return next(n for n in closing if not lines[n].endswith("{"))  # that ends a long signature
