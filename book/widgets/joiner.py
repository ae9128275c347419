"""Makes one text without imports of ES modules: for a notebook, a page and a worker.

The scripts of the book are ES modules, so that every tool can follow them. None of them is loaded
as one: a published page may be opened from a file, from which a browser imports nothing, and
anywidget takes a single text. So the modules that an entry imports are put in the order in which
they need each other, each in a function of its own, which keeps its names to itself and returns
what it exports:

    const $ui = (() => {
    ...
    return { h, button };
    })();

A module imports names, `import { h, button as key } from "./ui.js"`, or another module whole,
`import * as ui from "./ui.js"`. It exports what it declares, `export const h = ...`, or a value,
`export default ...`. Both stand at the start of a line. Only Python's own library is used here,
since building needs no other.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

IMPORT = re.compile(
    r'^import (?:\* as (?P<whole>\w+)|\{(?P<names>[\w\s,]+)\}) from "(?P<path>\.[^"\n]*)";\n',
    re.MULTILINE,
)
EXPORT = re.compile(
    r"^export (?:default |(?=(?:async function|function\*?|class|const) (?P<name>\w+)))",
    re.MULTILINE,
)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
DEFAULT = "$default"  # no name of a module: those have none of these signs


@dataclass(frozen=True)
class Import:
    """What a module takes from another: everything under a name, or exports as [its, ours]."""

    path: Path
    whole: str | None
    names: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        pairs = ", ".join(its if its == ours else f"{its}: {ours}" for its, ours in self.names)
        return f"const {self.whole or f'{{ {pairs} }}'} = {name_of(self.path)};\n"


@dataclass(frozen=True)
class Module:
    """A script: where it is, what it takes from others, what it exports, and its other text."""

    path: Path
    imports: tuple[Import, ...]
    exports: tuple[str, ...]  # "default" for a value without a name
    body: str

    @property
    def name(self) -> str:
        return name_of(self.path)

    @property
    def text(self) -> str:
        """The module as a statement, after those that it imports."""
        found = [f"default: {DEFAULT}" if name == "default" else name for name in self.exports]
        start = f"const {self.name} = (() => {{\n" if found else "(() => {\n"
        taken = "".join(one.text for one in self.imports)
        end = f"return {{ {', '.join(found)} }};\n" if found else ""
        return f"{start}{taken}{self.body}{end}}})();\n"


def name_of(path: Path) -> str:
    """Under which the text that `join` makes knows what a module exports."""
    return "$" + path.stem.replace("-", "_")


def read(path: Path) -> Module:
    """The module in a file.

    Errors: ValueError for an import or export in another form than those above, and for a name that
        is exported twice.
    """
    text = path.read_text(encoding="utf-8")
    imports = tuple(
        Import(
            Path(path.parent, found["path"]).resolve(), found["whole"], _pairs(found["names"] or "")
        )
        for found in IMPORT.finditer(text)
    )
    exports = tuple(found["name"] or "default" for found in EXPORT.finditer(text))
    body = EXPORT.sub(
        lambda found: "" if found["name"] else f"const {DEFAULT} = ", IMPORT.sub("", text)
    )
    if other := OTHER.search(body):
        raise ValueError(
            f'{path.name}: expected `import {{ a }} from "./b.js";` or `import * as b from '
            '"./b.js";`, and exports of a const, a function, a class or a default, got '
            f"{other[0]!r}; write it in one of these forms"
        )
    if twice := sorted({name for name in exports if exports.count(name) > 1}):
        raise ValueError(f"{path.name}: expected one export of each name, got more of {twice}")
    return Module(path.resolve(), imports, exports, body.lstrip("\n"))


def _pairs(names: str) -> tuple[tuple[str, str], ...]:
    """Of "h, button as key" the names there and here."""
    words = (one.split() for one in names.split(",") if one.strip())
    return tuple((one[0], one[-1]) for one in words)


def modules(*entries: Path) -> list[Module]:
    """The entries and all modules that they import, at whatever distance, each after its own.

    Errors: ValueError for a file or an export that is not there, for modules that import each other
        in a circle, for two of the same name, and for what `read` refuses.
    """
    done: dict[Path, Module] = {}
    for entry in entries:
        _visit(entry.resolve(), (), done)
    names: dict[str, Path] = {}
    for path, module in done.items():
        if names.setdefault(module.name, path) != path:
            raise ValueError(
                "expected scripts with different names on one page, got "
                f"{names[module.name]} and {path}; rename one of them"
            )
    return list(done.values())


def _visit(path: Path, above: tuple[Path, ...], done: dict[Path, Module]) -> None:
    if path in above:
        circle = " -> ".join(one.name for one in (*above[above.index(path) :], path))
        raise ValueError(f"expected imports without a circle, got {circle}; move what both need")
    if path in done:
        return
    if not path.is_file():
        raise ValueError(f"{above[-1].name if above else path.name}: expected a file at {path}")
    module = read(path)
    for one in module.imports:
        _visit(one.path, (*above, path), done)
        exports = done[one.path].exports
        if missing := [its for its, _ in one.names if its not in exports]:
            raise ValueError(
                f"{path.name}: expected exports of {one.path.name}, which are "
                f"{', '.join(exports)}, got {', '.join(missing)}"
            )
    done[path] = module


def join(*entries: Path, given: Collection[Path] = ()) -> str:
    """The modules of the entries as statements, but for those that are `given` already."""
    return "".join(module.text for module in modules(*entries) if module.path not in given)


def styles(entry: Path, given: Collection[Path] = ()) -> str:
    """The styles that stand beside the modules of an entry under the same names."""
    sheets = (one.path.with_suffix(".css") for one in modules(entry) if one.path not in given)
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.is_file())


def default_of(entry: Path) -> str:
    """The expression for the default of an entry, after the text of its modules.

    Errors: ValueError for an entry without one.
    """
    module = read(entry)
    if "default" not in module.exports:
        raise ValueError(
            f"expected {entry.name} to hold `export default {{ render }}`, got the exports "
            f"{', '.join(module.exports) or 'none'}"
        )
    return f"{module.name}.default"
