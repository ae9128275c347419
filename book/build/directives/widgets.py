"""Puts the widgets' scripts and styles beside the published pages, and on the pages that use them.

A widget's module is an ES module, which a browser does not import from file://. So each becomes a
classic script that hands its module to the host (`book/static/widget-host.js`). The scripts that
all widgets share become one more. Only text files are read here: building needs no kernel and no
widget library.

A widget is a pair of files in a chapter's kit, `NAME.py` and `NAME.js`. A module may name further
scripts in a line of its own, `// Parts: transformer, tracing`: they lie in `parts/` beside it, or
in that of `kit/shared` if several chapters need them, and stand in the scripts of those that name
them alone. A part may have styles too. One of them computes with the model in `book/checkpoints`,
which becomes a script too, as does the engine in which a laboratory trains; no page loads either
before a reader asks.

The directive `{widget} NAME` shows, on a page without code, the widget that a chapter has stored:

    ```{widget} alignment_player
    ```
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from engine.text import engine_script  # both need Python alone
from widgets.packing import pack_file

KIT = Path(__file__).resolve().parent.parent / "kit"
SHARED = ("math", "ui", "controls", "walk", "raster", "grid", "chart")
CHECKPOINTS = KIT.parent / "checkpoints"
LAST = 900  # of the style sheets, behind the book's own, which have 800
PARTS = re.compile(r"^// Parts: (.+)$", re.MULTILINE)
EXPORT = re.compile(r"^export default ", re.MULTILINE)
ENGINE = '"engine.js"'
USED = re.compile(r'class="book-widget" data-module="([^"]*)"')


def shared_script() -> str:
    """The shared scripts in one function, which keeps their names off the page."""
    parts = [(KIT / "shared" / f"{name}.js").read_text(encoding="utf-8") for name in SHARED]
    names = ", ".join(SHARED)
    return f"(() => {{\n{''.join(parts)}\nbookWidgets.shared = {{ {names} }};\n}})();\n"


def parts_of(module: str, folder: Path, ending: str = "js") -> str:
    """The scripts, or the styles, of the parts that a module's text names, one after the other."""
    named = PARTS.search(module)
    texts = []
    for name in named.group(1).split(", ") if named else ():
        places = {where / "parts" for where in (folder, KIT / "shared")}
        [here] = [place for place in places if (place / f"{name}.js").is_file()]
        path = here / f"{name}.{ending}"
        texts.append(path.read_text(encoding="utf-8") if path.is_file() else "")
    return "".join(texts)


def widget_script(name: str, folder: Path) -> str:
    """The module `name` as a classic script that hands itself to the host.

    Errors: ValueError for a module that imports, or has other exports than one default.
    """
    text = (folder / f"{name}.js").read_text(encoding="utf-8")
    others = re.findall(r"^(?:import|export)\b(?! default ).*", text, re.MULTILINE)
    if others or len(EXPORT.findall(text)) != 1:
        raise ValueError(
            f"expected {name}.js to hold one `export default` and no import, got {others}; "
            f"the shared names {', '.join(SHARED)} are there without an import"
        )
    body = parts_of(text, folder) + EXPORT.sub("const module = ", text)
    if ENGINE in body:  # a browser must not keep an old one for a new page
        version = hashlib.sha256(engine_script().encode()).hexdigest()[:8]
        body = body.replace(ENGINE, f'"engine.js?v={version}"')
    return (
        f"(() => {{\nconst {{ {', '.join(SHARED)} }} = bookWidgets.shared;\n{body}\n"
        f"bookWidgets.add({json.dumps(name)}, module);\n}})();\n"
    )


def widget_style(name: str, folder: Path) -> str:
    """The styles of the module `name` and of its parts."""
    css = folder / f"{name}.css"
    style = parts_of((folder / f"{name}.js").read_text(encoding="utf-8"), folder, "css")
    return style + (css.read_text(encoding="utf-8") if css.is_file() else "")


def write_widget(name: str, folder: Path, out_dir: Path) -> None:
    """Write the script and the styles of the widget `name` into `out_dir`."""
    (out_dir / f"{name}.js").write_text(widget_script(name, folder), encoding="utf-8")
    (out_dir / f"{name}.css").write_text(widget_style(name, folder), encoding="utf-8")


def widgets() -> dict[str, Path]:
    """The name of each widget of the book, and the folder of its files."""
    found = {p.stem: p.parent for p in KIT.glob("*/*.js") if p.with_suffix(".py").is_file()}
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
        packed = pack_file(path)
        (out_dir / "models" / f"{packed.id}.js").write_text(packed.script(), encoding="utf-8")
    (out_dir / "engine.js").write_text(engine_script(), encoding="utf-8")
    shutil.copy(KIT / "shared" / "base.css", out_dir)
    return list(found)


def on_builder(app) -> None:
    if app.builder.format == "html":
        emit_assets(Path(app.outdir) / "_static" / "widgets")


def on_page(app, page, template, context, doctree) -> None:
    """Name on a page the scripts of the widgets that stand on it, and no others."""
    used = sorted(set(USED.findall(context.get("body") or "")))
    if not used:
        return
    unknown = [name for name in used if name not in widgets()]
    if unknown:
        raise ValueError(f"expected widgets of the book on page {page}, got {unknown}")
    app.add_css_file("widgets/base.css")
    for name in used:
        app.add_css_file(f"widgets/{name}.css", priority=LAST)
    for file in ("widget-host", "widgets/shared", *(f"widgets/{name}" for name in used)):
        app.add_js_file(f"{file}.js", loading_method="defer")


def stored_widget(name: str, folder: Path) -> tuple[Path, str]:
    """The first chapter in `folder` with a widget `name` in its outputs, and that output.

    Errors: ValueError if no chapter has one.
    """
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                html = "".join(output.get("data", {}).get("text/html", ""))
                if name in USED.findall(html):
                    return path, html
    raise ValueError(f"expected a stored widget {name!r} in a chapter of {folder}, found none")


class StoredWidget(SphinxDirective):
    """Shows a chapter's widget on another page; the data stay in the chapter alone."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        try:
            path, html = stored_widget(self.arguments[0], folder)
        except ValueError as error:
            raise self.error(str(error)) from error
        self.env.note_dependency(str(path))
        return [nodes.raw("", html, format="html")]
