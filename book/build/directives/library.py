"""Makes the page "The library": the directive `{library}` lists what a reader can import.

For each module, in the order in which the chapters build its parts, stand its first sentence and
its functions and classes: the line that imports it, signature, first sentence, public methods, an
example with its output, the chapter that builds it, and its listing: here if a chapter folds it (a
cell tagged `listing`), else in the chapter. All of it is read from the sources; nothing is
imported. The examples stand in the folder `examples`, a file for each module, and a test runs them.
A chapter builds a name if it prints its source with `show_source`; a name
that none prints is built by the first chapter whose code uses it, or whose text names it. A chapter
that explains a name which another uses first says so under `builds` in its `words.yml`.
"""

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from build.directives import questions
from build.source.rooms import folder_of, read_words, words_file

# What a reader of the chapters imports: all of lib, and of other rooms what the notebooks use.
SOURCES = (
    "lib/[!_]*.py",
    *("tasks/translation.py", "tasks/characters.py"),
    *("train/checkpoints.py", "train/subword.py"),
)
ROOMS = {source.partition("/")[0] for source in SOURCES}
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LONG = 8  # lines; a longer example is folded
SHOWN = re.compile(r"show_source\(([\w.]+)\)")


class Chapter(NamedTuple):
    """What a chapter does with the library; a name stands with its module, as "masks.fit_mask"."""

    number: int
    page: str
    used: set[str]  # by its code
    shown: dict[str, str]  # the names whose source it prints, and what it gave to `show_source`
    listed: frozenset[str]  # of these, the ones whose listing the page of the library holds
    named: str  # all that its text writes as code
    builds: frozenset[str]  # the names that it explains although another uses them first


class Method(NamedTuple):
    """A public method of a class, or an attribute that it computes."""

    name: str
    signature: str
    summary: str


class Name(NamedTuple):
    """A public function or class of the library; `full` has its module, `room` the folder of it."""

    room: str
    full: str
    signature: str
    summary: str
    line: int
    chapter: Chapter | None
    methods: list[Method]
    example: str
    listing: str = ""  # its source, if a chapter leads to it here

    def imported(self) -> str:
        """The line that imports it."""
        module, name = self.full.split(".")
        return f"from {self.room}.{module} import {name}"


class Module(NamedTuple):
    """A module, with its public names in the order of its text."""

    room: str
    name: str
    summary: str
    names: list[Name]

    def place(self) -> tuple[int, str]:
        """For sorting: the chapter by which half of its names are built."""
        numbers = [name.chapter.number for name in self.names if name.chapter]
        return median_low(numbers or [99]), self.name


def read_chapter(path: Path) -> Chapter:
    """Find in a notebook what it imports from the library, uses, shows and names."""
    text = {"code": "", "markdown": "", "listing": ""}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]) + "\n"
        text[cell["cell_type"]] += source
        text["listing"] += source if "listing" in cell.get("metadata", {}).get("tags", ()) else ""
    code = list(ast.walk(ast.parse(text["code"])))
    imported = imports(code)
    used = {imported[n.id] for n in code if isinstance(n, ast.Name) and n.id in imported}
    shown, listed = (shown_names(text[kind], imported) for kind in ("code", "listing"))
    return Chapter(
        int(path.name[:2]),
        path.stem,
        used,
        {full: thing for thing, full in shown.items()},
        frozenset(listed.values()),
        " ".join(re.findall(r"`[^`\n]+`", text["markdown"])),
        read_words(folder_of(path)).builds,
    )


def imports(code: Iterable[ast.AST]) -> dict[str, str]:
    """What code imports from the library: each name that it has there, with its full name."""
    return {
        alias.asname or alias.name: f"{node.module.partition('.')[2]}.{alias.name}"
        for node in code
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.partition(".")[0] in ROOMS
        for alias in node.names
    }


def imported_names(path: Path) -> dict[str, str]:
    """What a notebook imports from the library."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return imports(ast.walk(ast.parse(code)))


def shown_names(code: str, imported: dict[str, str]) -> dict[str, str]:
    """What `code` gives to `show_source`, a name or a method of it, with the full name."""
    things = {thing: thing.split(".")[0] for thing in SHOWN.findall(code)}
    return {thing: imported[name] for thing, name in things.items() if name in imported}


def first_sentence(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    paragraph = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])(?= [A-Z`])", paragraph, maxsplit=1)[0]


def signature(node: ast.FunctionDef | ast.ClassDef, classes: dict[str, ast.ClassDef]) -> str:
    """The arguments as the source writes them; of a class, those that make one.

    Args: classes, in which a class that has none of its own finds those of its base.
    """
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"({ast.unparse(node.args)}){returns}"
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return re.sub(r"^\(self(, )?", "(", f"({ast.unparse(part.args)})")
    fields = [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    base = classes.get(ast.unparse(node.bases[0])) if node.bases else None
    if base and not fields:
        return signature(base, classes)
    return f"({', '.join(field for field in fields if 'ClassVar' not in field)})"


def source(text: str, node: ast.FunctionDef | ast.ClassDef) -> str:
    """The lines of a definition, as `show_source` prints them."""
    first = min(node.lineno, *(one.lineno for one in node.decorator_list), node.lineno)
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def methods(node: ast.FunctionDef | ast.ClassDef) -> list[Method]:
    """What a class offers beside its arguments, in the order of its text."""
    found = {}
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            said = {ast.unparse(decorator) for decorator in part.decorator_list}
            if any(one.endswith(".setter") for one in said):
                continue
            taken = re.sub(r"^\((self|cls)(, )?", "(", signature(part, {}))
            if said & {"property", "cached_property"}:
                taken = taken.removeprefix("()")
            found[part.name] = Method(part.name, taken, first_sentence(part))
    return list(found.values())


def read_examples(path: Path) -> dict[str, str]:
    """The examples of a module by name: each stands below a line `# NAME`, as in a doctest."""
    if not path.exists():
        return {}
    pieces = re.split(r"^# (\w+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], map(str.strip, pieces[2::2]), strict=True))


def builder(full: str, chapters: list[Chapter]) -> Chapter | None:
    """The chapter that builds a name; None if none uses or names it."""
    word = re.compile(rf"\b{full.split('.')[1]}\b")
    rules = (
        lambda chapter: full in chapter.builds,
        lambda chapter: full in chapter.shown,
        lambda chapter: full in chapter.used or word.search(chapter.named),
    )
    return next((chapter for rule in rules for chapter in chapters if rule(chapter)), None)


def sources(book: Path) -> list[Path]:
    """The files of the modules that the page lists."""
    return [path for pattern in SOURCES for path in sorted(book.glob(pattern))]


def read_library(book: Path) -> list[Module]:
    """The modules of the folder `book`, in the order in which the chapters build them."""
    chapters = [read_chapter(path) for path in sorted(book.glob("[0-9]*.ipynb"))]
    listed = {full for chapter in chapters for full in chapter.listed}
    modules = []
    for path in sources(book):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        # The last definition of a name holds; overloads for the type checker stand before it.
        found = (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef))
        defined = list({node.name: node for node in found}.values())
        classes = {node.name: node for node in defined if isinstance(node, ast.ClassDef)}
        room = path.parent.name
        examples = read_examples(EXAMPLES / f"{room}.{path.stem}.txt")
        names = [
            Name(
                room=room,
                full=f"{path.stem}.{node.name}",
                signature=signature(node, classes),
                summary=first_sentence(node),
                line=node.lineno,
                chapter=builder(f"{path.stem}.{node.name}", chapters),
                methods=methods(node),
                example=examples.get(node.name, ""),
                listing=source(text, node) if f"{path.stem}.{node.name}" in listed else "",
            )
            for node in defined
            if not node.name.startswith("_")
        ]
        modules.append(Module(room, path.stem, first_sentence(tree), names))
    return sorted(modules, key=Module.place)


def anchor(thing: str) -> str:
    """The identifier of the cell that shows the source of `thing`."""
    return f"listing-{nodes.make_id(thing)}"


def on_read(app, doctree) -> None:
    """Give each cell of a chapter that shows source its identifier."""
    for cell in doctree.findall(nodes.container):
        source = cell.next_node(nodes.literal_block) if "cell" in cell["classes"] else None
        if source is not None:
            cell["ids"] += map(anchor, SHOWN.findall(source.astext()))


def prose(sentence: str) -> list[nodes.Node]:
    """A sentence of a docstring; what stands in backticks is code."""
    pieces = enumerate(re.split(r"`([^`]*)`", sentence))
    return [nodes.literal(text=one) if at % 2 else nodes.Text(one) for at, one in pieces if one]


def link(text: str, uri: str) -> nodes.reference:
    return nodes.reference("", "", *prose(text), refuri=uri, internal="//" not in uri)


def item(name: Name, file: str) -> nodes.definition_list_item:
    """A name, its signature, its sentence, and its links; `file` is the address of its source."""
    places = []
    if name.chapter:
        page = f"{name.chapter.page}.html"
        places.append(link(f"Chapter {name.chapter.number}", page))
        shown = name.chapter.shown.get(name.full)
        if shown and not name.listing:
            method = shown.partition(".")[2]
            label = f"listing of `{method}`" if method else "listing"
            places.append(link(label, f"{page}#{anchor(shown)}"))
    if len(places) < 2 or name.listing:
        places.append(link("source", f"{file}#L{name.line}"))
    links = nodes.paragraph(classes=["library-links"])
    for place in places:
        links += [nodes.Text(" · "), place] if len(links) else [place]
    name_only = name.full.split(".")[1]
    term = nodes.term("", "", nodes.literal(text=name_only), ids=[name.full])
    term += arguments(name.signature)
    summary = nodes.paragraph("", "", *prose(name.summary))
    body = [summary, *method_list(name), example(name), *listing(name), links]
    return nodes.definition_list_item("", term, nodes.definition("", *body))


def arguments(text: str) -> nodes.literal:
    """A signature, its strings quoted as in the source."""
    quoted = re.sub(r"' ?([^']*)'", r'"\1"', text)
    return nodes.literal(text=quoted, classes=["library-signature"])


def method_list(name: Name) -> list[nodes.Node]:
    """The methods of a class, one to an item; nothing if there are none."""
    items = []
    for method in name.methods:
        said = nodes.paragraph("", "", nodes.literal(text=f".{method.name}"))
        if method.signature:
            said += arguments(method.signature)
        if method.summary:
            said += [nodes.Text(" "), *prose(method.summary)]
        items.append(nodes.list_item("", said))
    return [nodes.bullet_list("", *items, classes=["library-methods"])] if items else []


def example(name: Name) -> nodes.Node:
    """The import line and the example with its output; a long one is folded below the line."""
    start = f">>> {name.imported()}"
    if not name.example:
        return session(start)
    if name.example.count("\n") < LONG:
        return session(f"{start}\n{name.example}")
    fold = questions.part(
        "details", questions.line("summary", nodes.Text("Example")), session(name.example)
    )
    return questions.part("div", session(start), fold, classes=("library-example",))


def listing(name: Name) -> list[nodes.Node]:
    """The source, folded, of what a chapter's text leads to."""
    if not name.listing:
        return []
    code = nodes.literal_block(name.listing, name.listing, language="python")
    summary = questions.line("summary", nodes.Text("Listing"))
    return [questions.part("details", summary, code, classes=("library-example",))]


def session(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="pycon")


class Library(SphinxDirective):
    """A section for each module: its sentence, and a list of its names."""

    def run(self) -> list[nodes.Node]:
        book = Path(self.env.doc2path(self.env.docname)).parent
        chapters = sorted(book.glob("[0-9]*.ipynb"))
        words = (words_file(folder_of(path)) for path in chapters)
        for path in (*sources(book), *EXAMPLES.glob("*.txt"), *chapters, *words):
            self.env.note_dependency(str(path))
        theme = self.config.html_theme_options
        files = f"{theme['repository_url']}/blob/{theme['repository_branch']}/book"
        sections = []
        for module in read_library(book):
            full = f"{module.room}.{module.name}"
            title = nodes.title("", "", nodes.literal(text=full))
            summary = nodes.paragraph("", "", *prose(module.summary))
            file = f"{files}/{module.room}/{module.name}.py"
            names = nodes.definition_list(
                "", *(item(name, file) for name in module.names), classes=["library"]
            )
            identifier = full.replace(".", "-").replace("_", "-")
            parts = (title, summary, names)
            sections.append(nodes.section("", *parts, ids=[identifier], classes=["library-module"]))
        return sections
