"""A real Chromium, a loopback server, and a stage on which a widget is shown alone."""

import functools
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch
from playwright.sync_api import Browser, Page, expect, sync_playwright

from build.directives import widgets
from build.pages import policy
from scripts import check_engines, chromium
from tests.browser import axe
from tests.browser.weigh import QuietHandler, serve_packed
from tests.paths import BOOK, HTML
from widgets import joiner

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",  # letters as wide as on a screen of today
]
expect.set_options(timeout=30_000)  # milliseconds, as Playwright waits elsewhere
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
<div class="book-widget" data-module="{name}"><div id="mount"></div></div>
"""

# A policy reports what it refused on the page; the console says it too, in each engine's own words.
REFUSED = """addEventListener("securitypolicyviolation", (event) => console.error(
  `policy: ${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`))"""


def serve(folder: Path) -> tuple[ThreadingHTTPServer, str]:
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """More of torch's threads only wait for each other at these sizes, the more so when busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable(), headless=True, args=FLAGS
        )
        yield browser
        browser.close()


@pytest.fixture(
    scope="module",
    params=check_engines.ENGINES,
    ids=[make.name for make, _ in check_engines.ENGINES],
)
def engine(request, tmp_path_factory) -> Iterator[check_engines.Engine]:
    """Firefox, then WebKit; a test skips the one that is not installed."""
    make, programs = request.param
    if (program := check_engines.installed(programs)) is None:
        pytest.skip(f"{make.name} is not installed (looked for {', '.join(programs)})")
    engine = make(program, tmp_path_factory.mktemp(make.name))
    yield engine
    engine.close()


def watch(page: Page, problems: list[str]) -> None:
    """Collect what a page complains of, what its policy refused, and what it asked of others."""

    def asked(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname != "127.0.0.1":
            problems.append(f"asked another host: {url}")

    page.add_init_script(REFUSED)
    page.on("console", lambda m: m.type == "error" and problems.append(m.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked(request.url))


@dataclass
class Tab:
    """A page that one test after another uses, and what the present one complained of."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        watch(self.page, self.problems)


class Tabs:
    """Pages of one browsing context, used again: to open one costs more than most tests do."""

    def __init__(self, browser: Browser, **options):
        self.browser, self.context, self.idle = browser, browser.new_context(**options), []

    def take(self, width: int, height: int) -> Tab:
        tab = self.idle.pop() if self.idle else Tab(self.context.new_page())
        if tab.page.viewport_size != {"width": width, "height": height}:
            tab.page.set_viewport_size({"width": width, "height": height})
        return tab

    def give(self, tab: Tab) -> None:
        """Back to an empty page, as a new one has it: no pointer on it, no preference, no route."""
        tab.page.unroute_all()
        tab.page.goto("about:blank")
        tab.page.mouse.move(0, 0)
        tab.page.emulate_media(
            media="null", color_scheme="light", reduced_motion="null", forced_colors="null"
        )
        tab.problems.clear()
        self.idle.append(tab)


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[Tabs]:
    tabs = Tabs(browser)
    yield tabs
    tabs.context.close()


@pytest.fixture
def page(tabs: Tabs) -> Iterator[Page]:
    tab = tabs.take(1280, 720)
    yield tab.page
    tabs.give(tab)


@dataclass
class Stage:
    """Shows widgets as the published page or a notebook would, and collects what goes wrong."""

    tabs: Tabs
    folder: Path
    address: str
    screen: tuple[int, int] = (1000, 900)
    used: list[Tab] = field(default_factory=list)

    def show(
        self,
        widget,
        *,
        theme: str = "light",
        width: int | None = None,
        query: str = "",
        via: str = "http",
        html: str | None = None,
        size: str = "",
        **context,
    ) -> Page:
        """A page with the widget on it: via "http", "file" (as published) or "module" (notebook).

        `html` replaces the widget's own fallback; `size` is extra style for the body. With options
        for a context, the page has one of its own: has_touch, permissions and others.
        """
        name = widget._module
        widgets.write_widget(name, widget._folder, self.folder / "widgets")
        if packed := getattr(widget, "_packed", None):  # a model that the page can load
            model = self.folder / "widgets" / "models" / f"{packed.id}.js"
            model.write_text(packed.script(), encoding="utf-8")
        if record := getattr(widget, "_record", None):  # texts that the page can load
            path = self.folder / "widgets" / "records" / f"{record.id}.js"
            path.write_text(record.script(), encoding="utf-8")
        if via == "module":
            (self.folder / f"{name}.mjs").write_text(str(widget._esm), encoding="utf-8")
            style = f"<style>{widget._css}</style>"
            body = MODULE_PAGE.format(name=name, data=json.dumps(widget.data()))
        else:
            sheets = ("base", name)
            style = "".join(f'<link rel="stylesheet" href="widgets/{s}.css">' for s in sheets)
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
        text = policy.protect(text)  # as every page of the book has one
        (self.folder / f"{name}.html").write_text(text, encoding="utf-8")
        tab = self.tab((width or self.screen[0], self.screen[1]), context)
        page = tab.page
        root = self.folder.as_uri() if via == "file" else self.address
        page.goto(f"{root}/{name}.html{query}")
        page.wait_for_selector(".bw, .book-widget-error")
        return page

    def tab(self, size: tuple[int, int], context: dict) -> Tab:
        if context:
            viewport = dict(zip(("width", "height"), size, strict=True))
            tab = Tab(self.tabs.browser.new_page(viewport=viewport, **context))
        else:
            tab = self.tabs.take(*size)
        self.used.append(tab)
        return tab

    def close(self) -> list[str]:
        """Give the pages back; what they wrote to the console."""
        problems = [problem for tab in self.used for problem in tab.problems]
        for tab in self.used:
            if tab.page.context is self.tabs.context:
                self.tabs.give(tab)
            else:
                tab.page.context.close()
        return problems

    def functions(self, widget) -> Page:
        """A page on which what the widget's own scripts export can be called.

        In `own` stand the exports of its script, and each other module under the name of its file.
        """
        page = self.show(widget)
        entry = widget._folder / f"{widget._module}.js"
        *others, last = [module.name for module in joiner.modules(entry)]
        named = ", ".join(f"{name.removeprefix('$')}: {name}" for name in others)
        page.evaluate(f"() => {{ {joiner.join(entry)} window.own = {{ {named}, ...{last} }}; }}")
        return page

    def violations(self, page: Page) -> list[str]:
        """What axe finds wrong on the page, one line each."""
        return axe.violations(page)


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The scripts of the published pages, served on this machine: their folder and address."""
    folder = tmp_path_factory.mktemp("site")
    widgets.emit_assets(folder / "widgets")
    shutil.copy(BOOK / "static" / "widget-host.js", folder)
    server, address = serve(folder)
    yield folder, address
    server.shutdown()
    server.server_close()


@pytest.fixture
def stage(tabs: Tabs, assets: tuple[Path, str]) -> Iterator[Stage]:
    """A stage; a test fails if any of its pages wrote an error to the console."""
    stage = Stage(tabs, *assets)
    yield stage
    assert stage.close() == []


# Chromium without windows has a pointer in the upper left corner, which a telephone has not. As it
# goes back there it leaves what was tapped; on a telephone the next tap elsewhere does that.
NO_POINTER = """
  let left = [];
  addEventListener("mouseleave", (event) => {
    if (!event.isTrusted || event.clientX || event.clientY) return;
    event.stopImmediatePropagation();
    left.push(event.target);
  }, true);
  addEventListener("pointerdown", (event) => {
    const gone = left.filter((node) => !node.contains(event.target));
    left = left.filter((node) => !gone.includes(node));
    for (const node of gone) node.dispatchEvent(new MouseEvent("mouseleave"));
  }, true);
"""


@pytest.fixture(scope="session")
def touch_tabs(browser: Browser) -> Iterator[Tabs]:
    tabs = Tabs(browser, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    tabs.context.add_init_script(NO_POINTER)
    yield tabs
    tabs.context.close()


@pytest.fixture
def phone(touch_tabs: Tabs, assets: tuple[Path, str]) -> Iterator[Stage]:
    """A stage on a telephone: fingers instead of a pointer, 390 pixels wide."""
    stage = Stage(touch_tabs, *assets, screen=(390, 844))
    yield stage
    assert stage.close() == []


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the built book, served with gzip."""
    server, address = serve_packed(HTML)
    yield address
    server.shutdown()
    server.server_close()
