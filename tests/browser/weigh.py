"""What a page of the built book costs its reader: served packed with gzip, read in Chromium."""

import functools
import gzip
import threading
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Page

PACKED = {".html", ".js", ".css", ".svg", ".json", ".txt", ".xml"}
LIMIT = 340_000  # bytes over the wire, for whatever a page loads by itself
# Chromium tells when it first painted, and when the largest thing in view stood.
OBSERVE = """() => {
  window.paints = { largest: 0 };
  const watch = (type, call) => new PerformanceObserver(
    (list) => list.getEntries().forEach(call)).observe({ type, buffered: true });
  watch("paint", (entry) => { window.paints[entry.name] = entry.startTime; });
  watch("largest-contentful-paint", (entry) => { window.paints.largest = entry.startTime; });
}"""
TIMES = """() => ({
  dom: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  first: window.paints["first-contentful-paint"] ?? 0,
  largest: window.paints.largest,
})"""
SCROLL = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight) {
    window.scrollTo({ top: y, behavior: "instant" });
    await new Promise((done) => setTimeout(done, 15));
  }
}"""


@functools.cache
def packed(path: Path, changed: float) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, keeps nothing in a cache and writes no log."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args) -> None:
        pass


class PackingHandler(QuietHandler):
    """Serves text packed, as a host of static pages does."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix not in PACKED or not path.is_file():
            super().do_GET()
            return
        body = packed(path, path.stat().st_mtime)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve_packed(folder: Path) -> tuple[ThreadingHTTPServer, str]:
    handler = functools.partial(PackingHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


@dataclass
class Weight:
    """Requests and bytes over the wire, answers' headers included, until now."""

    requests: int = 0
    bytes: int = 0
    largest: dict[str, int] = field(default_factory=dict)  # bytes by address
    addresses: dict[str, str] = field(default_factory=dict)

    def watch(self, page: Page) -> None:
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self.asked)
        session.on("Network.loadingFinished", self.came)

    def asked(self, event: dict) -> None:
        if event["request"]["url"].startswith("http"):
            self.requests += 1
            self.addresses[event["requestId"]] = event["request"]["url"]

    def came(self, event: dict) -> None:
        if event["requestId"] in self.addresses:
            size = int(event["encodedDataLength"])
            self.bytes += size
            self.largest[self.addresses[event["requestId"]]] = size


@dataclass
class Visit:
    """One opening of a page: what it cost at first, after scrolling to its end, and its times."""

    first: tuple[int, int]  # requests, bytes
    whole: tuple[int, int]
    times: dict[str, float]  # dom, first, largest: milliseconds
    parts: dict[str, int]  # bytes by address


def visit(browser: Browser, url: str, *, width: int = 1300, height: int = 900) -> Visit:
    """Open a page with an empty cache, wait until it is still, scroll to its end."""
    context = browser.new_context(viewport={"width": width, "height": height})
    try:
        page = context.new_page()
        weight = Weight()
        weight.watch(page)
        page.add_init_script(f"({OBSERVE})()")
        page.goto(url, wait_until="networkidle")
        first = weight.requests, weight.bytes
        times = page.evaluate(TIMES)
        page.evaluate(SCROLL)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(100)
        return Visit(first, (weight.requests, weight.bytes), times, weight.largest)
    finally:
        context.close()
