"""The policy of the built pages: it stands on each, lets all of the book work, and holds."""

from html.parser import HTMLParser

import pytest
from playwright.sync_api import expect

from build.pages.policy import protect
from engine.text import LABORATORIES
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
PAGES = sorted(HTML.rglob("*.html"))
META = '<meta http-equiv="Content-Security-Policy" content="'
WAYS = ("http", "file")
# What somebody who got markup into a page would try; the page's own scripts put it there.
INJECT = """() => new Promise((done) => setTimeout(async () => { // a task of the page's own
  const refused = [];
  addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
  const add = (tag, properties) =>
    document.body.append(Object.assign(document.createElement(tag), properties));
  document.body.insertAdjacentHTML("beforeend",
    '<img src="data:," onerror="harmed = 1"><a id="link" href="javascript:harmed = 1">a</a>');
  document.getElementById("link").click();
  add("script", { textContent: "window.harmed = 1" });
  add("script", { src: "data:text/javascript,window.harmed = 1" });
  add("style", { textContent: "body { color: red }" });
  add("iframe", { src: "data:text/html,a" });
  add("object", { data: "data:text/html,a" });
  add("img", { src: "https://other.example/a.png" });
  add("base", { href: "https://other.example/" });
  const tries = [() => fetch("https://other.example/"), () => eval("window.harmed = 1"),
    () => new Worker(URL.createObjectURL(new Blob(["0"])))];
  for (const attempt of tries) {
    try { await attempt(); } catch { /* as it should be */ }
  }
  await new Promise((next) => setTimeout(next, 100));
  done([window.harmed ?? 0, [...new Set(refused)].sort()]);
}))"""


class Handlers(HTMLParser):
    """The inline handlers of a page, and its javascript: addresses."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        for name, value in attributes:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.found.append(f"{tag} {name}={value}")


def test_every_page_has_the_policy_first_and_no_handler():
    assert len(PAGES) > 25
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        before, policy, _ = text.partition(META)
        assert policy, path
        assert before.strip() == "" or before.rstrip().endswith("<head>"), path
        assert protect(text) == text, f"{path}: hashes of another text"
        assert Handlers(text).found == [], path
        bytes_before = text.partition("charset")[0].encode()
        assert len(bytes_before) < 1000, f"{path}: browsers look no further for its encoding"


def test_only_pages_with_a_laboratory_may_train():
    """In a worker, and in WebAssembly; what else a page may is the same everywhere."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        policy = text.partition(META)[2].partition('"')[0]
        divs = (f'<div class="book-widget" data-module="{name}">' for name in LABORATORIES)
        trains = any(div in text for div in divs)
        assert ("'wasm-unsafe-eval'" in policy) is trains, path
        assert ("worker-src blob:" in policy) is trains, path
        assert ("worker-src 'none'" in policy) is not trains, path


@pytest.mark.parametrize("way", WAYS)
def test_the_policy_holds(page, site, way):
    page.goto({"http": site, "file": HTML.as_uri()}[way] + "/book/03_attention_layer.html")
    page.locator(".bw").first.wait_for()  # on a page that trains nothing
    harmed, refused = page.evaluate(INJECT)
    assert harmed == 0
    wanted = {"base-uri", "connect-src", "frame-src", "img-src", "object-src", "script-src",
              "script-src-attr", "script-src-elem", "style-src-elem", "worker-src"}  # fmt: skip
    assert set(refused) == wanted


@pytest.mark.slow
def test_every_page_works_from_a_file_too(tabs):
    """Over http, `test_pages.py` opens each."""
    tab = tabs.take(1280, 720)
    for path in PAGES:
        if path == HTML / "index.html":
            continue  # leads on at once
        tab.page.goto(path.as_uri())
        expect(tab.page.locator(".bw")).to_have_count(tab.page.locator(".book-widget").count())
        assert tab.problems == [], path
    tabs.give(tab)


@pytest.mark.parametrize("way", WAYS)
def test_the_buttons_of_the_theme_work(page, site, way):
    page.goto({"http": site, "file": HTML.as_uri()}[way] + "/book/06_masking.html")
    page.evaluate("""() => {
      window.called = [];
      window.print = () => called.push("print");
      window.toggleFullScreen = () => called.push("fullscreen");
    }""")
    page.locator(".btn-fullscreen-button").first.click()
    page.locator(".btn-download-pdf-button").first.evaluate("(node) => node.click()")
    assert page.evaluate("called") == ["fullscreen", "print"]
    page.locator(".theme-switch-button").first.click()
    assert page.evaluate("document.documentElement.dataset.mode") in ("light", "dark")


@pytest.mark.parametrize("way", WAYS)
def test_the_first_page_leads_on(page, site, way):
    page.goto({"http": site, "file": HTML.as_uri()}[way] + "/index.html")
    page.wait_for_url("**/book/intro.html")
