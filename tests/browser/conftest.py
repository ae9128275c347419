"""A real Chromium, a loopback server, and a stage on which a widget is shown alone."""

import functools
import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from ext import book_widgets
from playwright.sync_api import Browser, Page, sync_playwright

from tests.paths import BOOK

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# As a notebook's front end does it: an ES module, a stylesheet, and a model that it keeps.
MODULE_PAGE = """
<script type="module">
  import module from "./{name}.mjs";
  const data = {data};
  const calls = {{}};
  window.saved = [];
  window.model = {{
    get: (key) => data[key],
    set(key, value) {{ data[key] = value; for (const f of calls["change:" + key] ?? []) f(); }},
    on(event, f) {{ (calls[event] ??= []).push(f); }},
    off(event, f) {{ calls[event] = (calls[event] ?? []).filter((g) => g !== f); }},
    save_changes() {{ window.saved.push({{ ...data }}); }},
  }};
  window.close = await module.render({{ model, el: document.querySelector("#mount") }});
</script>
<div id="mount"></div>
"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, keeps nothing in a cache and writes no log."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args) -> None:
        pass


def serve(folder: Path) -> tuple[ThreadingHTTPServer, str]:
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@dataclass
class Stage:
    """Shows widgets as the published page or a notebook would, and collects what goes wrong."""

    browser: Browser
    folder: Path
    address: str
    problems: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def show(
        self,
        widget,
        *,
        theme: str = "light",
        width: int = 1000,
        query: str = "",
        via: str = "http",
        html: str | None = None,
        size: str = "",
    ) -> Page:
        """A page with the widget on it: via "http", "file" (as published) or "module" (notebook).

        `html` replaces the widget's own fallback; `size` is extra style for the body.
        """
        name = widget._module
        script = book_widgets.widget_script(name, widget._folder)
        (self.folder / "widgets" / f"{name}.js").write_text(script, encoding="utf-8")
        if via == "module":
            (self.folder / f"{name}.mjs").write_text(str(widget._esm), encoding="utf-8")
            style = f"<style>{widget._css}</style>"
            body = MODULE_PAGE.format(name=name, data=json.dumps(widget.data()))
        else:
            style = '<link rel="stylesheet" href="widgets/base.css">'
            scripts = ("widget-host", "widgets/shared", f"widgets/{name}")
            style += "".join(f'<script defer src="{s}.js"></script>' for s in scripts)
            body = html or widget._repr_mimebundle_()[0]["text/html"]
        ground = {"light": "#fff", "dark": "#14181e"}[theme]
        text = (
            f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{name}</title><link rel="icon" href="data:,">{style}</head>'
            f'<body style="background:{ground};margin:0;padding:16px;{size}">'
            f"<main><h1 style='font-size:1px'>{name}</h1>{body}</main></body></html>"
        )
        (self.folder / f"{name}.html").write_text(text, encoding="utf-8")
        page = self.browser.new_page(viewport={"width": width, "height": 900})
        self.pages.append(page)
        page.on("console", lambda m: m.type == "error" and self.problems.append(m.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        root = self.folder.as_uri() if via == "file" else self.address
        page.goto(f"{root}/{name}.html{query}")
        page.wait_for_selector(".bw, .book-widget-error")
        return page

    def functions(self, widget, names: str) -> Page:
        """A page on which functions of the widget's own script can be called.

        They stand in `own`, and the shared `math` beside it; `names` lists them, with commas.
        """
        page = self.show(widget)
        source = (book_widgets.SOURCE / f"{widget._module}.js").read_text(encoding="utf-8")
        source = source.replace("export default", "const module =")
        shared = ", ".join(book_widgets.SHARED)
        page.add_script_tag(
            content=f"const {{ {shared} }} = bookWidgets.shared; window.math = math;"
            f"window.own = (() => {{ {source}; return {{ {names} }}; }})();"
        )
        return page

    def violations(self, page: Page) -> list[str]:
        """What axe finds wrong on the page, one line each."""
        found = Axe().run(page).response["violations"]
        return [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]]


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The scripts of the published pages, served on this machine: their folder and address."""
    folder = tmp_path_factory.mktemp("site")
    book_widgets.emit_assets(folder / "widgets")
    shutil.copy(BOOK / "static" / "widget-host.js", folder)
    server, address = serve(folder)
    yield folder, address
    server.shutdown()
    server.server_close()


@pytest.fixture
def stage(browser: Browser, assets: tuple[Path, str]) -> Iterator[Stage]:
    """A stage; a test fails if any of its pages wrote an error to the console."""
    stage = Stage(browser, *assets)
    yield stage
    for page in stage.pages:
        page.close()
    assert stage.problems == []
