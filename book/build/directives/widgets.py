"""Puts the widgets' scripts and styles beside the published pages, and on the pages that use them.

A widget's module is an ES module, which a browser does not import from file://. So each becomes a
classic script that hands its module to the host (`book/static/widget-host.js`). The scripts that
all widgets share become one more. Only text files are read here: building needs no kernel and no
widget library.

A widget is a pair of files in a chapter's room, `NAME.py` and `NAME.js`. The script imports others,
which `widgets.joiner` puts before it; styles with the name of a script go with it. One of them
computes with the model in `book/checkpoints`, which becomes a script too, as does the engine in
which a laboratory trains, the texts of the language model, and the record that one shows; no page
loads any of them before a reader asks.

The directive `{widget} NAME` shows, on a page without code, the widget that a chapter has stored,
or that lies beside its script because no chapter has it, as it is there or in another state:

    ```{widget} written_without
    :state: sentence=4
    ```
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from engine import texts
from engine.text import engine_script, writing_script  # these need Python alone
from widgets import joiner, packing, records

BOOK = Path(__file__).resolve().parents[2]
JS = BOOK / "widgets" / "js"
# What most widgets import: a page with several loads it once.
SHARED = [
    JS / f"{name}.js" for name in ("math", "ui", "controls", "walk", "raster", "grid", "chart")
]
CHECKPOINTS = BOOK / "checkpoints"
RECORDS = [BOOK / "chapters" / "transformer" / "results" / "parts_real_text.json"]
LAST = 900  # of the style sheets, behind the book's own, which have 800
ON_DEMAND = {'"engine.js"': engine_script, '"writing.js"': writing_script}
# What is for readers of the sources alone: a page is lighter without it
COMMENT = re.compile(r"^ *(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.DOTALL | re.MULTILINE)
BEHIND = re.compile(r"(?<=[;,{(\[)}\]]) // [^\"'`]*$")  # code; one with a quote in it may be text
REMARK, INDENT = (
    re.compile(r"/\*.*?\*/\s*", re.DOTALL),
    re.compile(r"^\s+", re.MULTILINE),
)  # of a sheet
QUOTES = "\"'`"
DATA = re.compile(
    r'<script type="application/json">(?P<data>.*?)</script>', re.DOTALL
)  # as base.py writes it
USED = re.compile(r'class="book-widget" data-module="([^"]*)"')


def shared_script() -> str:
    """The shared scripts in one function, which keeps their names off the page."""
    names = ", ".join(module.name for module in joiner.modules(*SHARED))
    return bare(f"(() => {{\n{joiner.join(*SHARED)}bookWidgets.shared = {{ {names} }};\n}})();\n")


def widget_script(name: str, folder: Path) -> str:
    """The module `name`, with what it imports, as a classic script that hands itself to the host.

    Errors: ValueError for a module without a default, and for what cannot be joined.
    """
    entry = folder / f"{name}.js"
    shared = {module.path: module.name for module in joiner.modules(*SHARED)}
    body = joiner.join(entry, given=shared)
    for name_in_script, script in ON_DEMAND.items():
        if name_in_script in body:  # a browser must not keep an old one for a new page
            version = hashlib.sha256(script().encode()).hexdigest()[:8]
            body = body.replace(name_in_script, f'{name_in_script[:-1]}?v={version}"')
    return bare(
        f"(() => {{\nconst {{ {', '.join(shared.values())} }} = bookWidgets.shared;\n{body}"
        f"bookWidgets.add({json.dumps(name)}, {joiner.default_of(entry)});\n}})();\n"
    )


def bare(script: str) -> str:
    """A script without indents and comments, but for those that a line does not tell from a text.

    No text goes on in another line, whose indent would be lost: eslint sees to it.
    """
    lines = COMMENT.sub("", script).split("\n")
    return "\n".join(_without_comment(line.lstrip()) for line in lines)


def _without_comment(line: str) -> str:
    code = BEHIND.sub("", line)
    return line if any(code.count(quote) % 2 for quote in QUOTES) else code


def write_widget(name: str, folder: Path, out_dir: Path) -> None:
    """Write the script and the styles of the widget `name` into `out_dir`."""
    (out_dir / f"{name}.js").write_text(widget_script(name, folder), encoding="utf-8")
    style = INDENT.sub("", REMARK.sub("", joiner.styles(folder / f"{name}.js")))
    (out_dir / f"{name}.css").write_text(style, encoding="utf-8")


def widgets() -> dict[str, Path]:
    """The name of each widget of the book, and the folder of its files: scripts with a default."""
    found = {
        path.stem: path.parent
        for folder in (BOOK / "engine", *(BOOK / "chapters").iterdir())
        for path in folder.glob("*.js")
        if "default" in joiner.read(path).exports
    }
    return dict(sorted(found.items()))


def emit_assets(out_dir: Path) -> list[str]:
    """Write the shared script and styles, those of each widget, and what is loaded on demand.

    Returns: the names of the widgets.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    found = widgets()
    for name, folder in found.items():
        write_widget(name, folder, out_dir)
    (out_dir / "shared.js").write_text(shared_script(), encoding="utf-8")
    (out_dir / "models").mkdir(exist_ok=True)
    for path in CHECKPOINTS.glob("*.safetensors"):
        model = packing.pack_file(path)
        (out_dir / "models" / f"{model.id}.js").write_text(model.script(), encoding="utf-8")
    (out_dir / "records").mkdir(exist_ok=True)
    for path in RECORDS:
        record = records.pack_file(path)
        (out_dir / "records" / f"{record.id}.js").write_text(record.script(), encoding="utf-8")
    (out_dir / "engine.js").write_text(engine_script(), encoding="utf-8")
    (out_dir / "writing.js").write_text(writing_script(), encoding="utf-8")
    (out_dir / "texts").mkdir(exist_ok=True)
    for name in texts.TEXTS:
        (out_dir / "texts" / f"{name}.js").write_text(texts.text_script(name), encoding="utf-8")
    shutil.copy(JS / "base.css", out_dir)
    return list(found)


def on_builder(app) -> None:
    if app.builder.format == "html":
        emit_assets(Path(app.outdir) / "_static" / "widgets")


def on_page(app, page, template, context, doctree) -> None:
    """Name on a page the scripts of the widgets that stand on it, and no others."""
    used = sorted(set(USED.findall(context.get("body") or "")))
    if not used:
        return
    known = widgets()
    unknown = [name for name in used if name not in known]
    if unknown:
        raise ValueError(f"expected widgets of the book on page {page}, got {unknown}")
    app.add_css_file("widgets/base.css")
    for name in used:
        app.add_css_file(f"widgets/{name}.css", priority=LAST)
    for file in ("widget-host", "widgets/shared", *(f"widgets/{name}" for name in used)):
        app.add_js_file(f"{file}.js", loading_method="defer")


def stored_widget(name: str, folder: Path) -> tuple[Path, str]:
    """The first chapter in `folder` with a widget `name` in its outputs, and that output; of a
    widget that no chapter has, the file beside its script, see `scripts/store_widgets.py`.

    Errors: ValueError if it is stored nowhere.
    """
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                html = "".join(output.get("data", {}).get("text/html", ""))
                if name in USED.findall(html):
                    return path, html
    beside = widgets().get(name, folder) / f"{name}.html"
    if beside.is_file():
        return beside, beside.read_text(encoding="utf-8")
    raise ValueError(f"expected a stored widget {name!r} in a chapter of {folder}, found none")


def in_state(html: str, changes: str) -> str:
    """A stored widget that begins in another state, `key=value` with spaces between.

    Errors: ValueError for a key that the widget does not have.
    """
    found = DATA.search(html)
    assert found, "every stored widget has its data"
    data = json.loads(found["data"])
    for change in changes.split():
        key, _, value = change.partition("=")
        if key not in data:
            raise ValueError(f"expected keys out of {', '.join(data)}, got {change!r}")
        data[key] = int(value) if isinstance(data[key], int) else value
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return html[: found.start("data")] + text + html[found.end("data") :]


class StoredWidget(SphinxDirective):
    """Shows a chapter's widget on another page; the data stay in the chapter alone."""

    required_arguments = 1
    option_spec = {"state": str}  # noqa: RUF012 (docutils declares it so)

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        try:
            path, html = stored_widget(self.arguments[0], folder)
            html = in_state(html, self.options.get("state", ""))
        except ValueError as error:
            raise self.error(str(error)) from error
        self.env.note_dependency(str(path))
        return [nodes.raw("", html, format="html")]
