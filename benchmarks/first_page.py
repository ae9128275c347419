"""How soon a visitor of the first page can train, on a slow line: `make book`, then

    python benchmarks/first_page.py [--html FOLDER] [--rounds 3]

The page is served packed with gzip, and Chromium opens it with an empty cache, on a computer's
screen and on a phone's, at the speed that NETWORK names. Recorded for each screen: the bytes over
the wire before anybody presses a button, in all and by whose they are; and, in milliseconds, when
the page was first painted and when the trainer stood with its button and its attention map: the
medians over the rounds. It writes benchmarks/results/first_page.json.
"""

import statistics
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser, sync_playwright

from measure.experiments import command_line
from measure.records import write_results
from scripts import chromium
from tests.browser.fixtures import FLAGS
from tests.browser.weigh import Weight, serve_packed
from tests.paths import HTML

NETWORK = {"name": "3G", "latency_ms": 300, "down_bits": 1_600_000, "up_bits": 768_000}
SCREENS = {"computer": (1280, 800), "phone": (390, 844)}
WITHIN = 3000  # ms until the trainer stands
OURS = ("widgets/", "book.css", "schematics.css", "page.js", "widget-host.js")
# When the trainer's button and a picture of it are laid out, as the page's own frames see it
WATCH = """() => {
  const laidOut = (one) => one.checkVisibility() && one.getBoundingClientRect().height > 10;
  const look = () => {
    const widget = document.querySelector(".book-widget");
    const there = ["button", "svg"].every((name) =>
      [...(widget?.querySelectorAll(name) ?? [])].some(laidOut));
    if (there) window.trainerStands = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""
TIMES = """() => ({
  first_paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  trainer: window.trainerStands,
})"""


def whose(address: str) -> str:
    """Of whom a file of the page is: the page itself, the book's own files, fonts, the theme."""
    path = urlparse(address).path
    if path.endswith(".html"):
        return "page"
    if path.endswith(".woff2"):
        return "fonts"
    return "book" if any(one in path for one in OURS) else "theme"


def opened(browser: Browser, url: str, screen: tuple[int, int]) -> dict[str, Any]:
    """Open the page once: its bytes by whose they are, and its two times."""
    width, height = screen
    page = browser.new_page(viewport={"width": width, "height": height})
    weight = Weight()
    weight.watch(page)
    page.context.new_cdp_session(page).send(
        "Network.emulateNetworkConditions",
        {
            "offline": False,
            "latency": NETWORK["latency_ms"],
            "downloadThroughput": NETWORK["down_bits"] / 8,
            "uploadThroughput": NETWORK["up_bits"] / 8,
        },
    )
    page.add_init_script(f"({WATCH})()")
    page.goto(url, wait_until="networkidle")
    times = page.evaluate(TIMES)
    page.close()
    parts: dict[str, int] = {}
    for address, size in weight.largest.items():
        parts[whose(address)] = parts.get(whose(address), 0) + size
    return {"bytes": weight.bytes, "parts": parts, "ms": times}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments, html=HTML, rounds=3)
    server, address = serve_packed(given.options.html)
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable(), args=FLAGS)
        for name, screen in SCREENS.items():
            url = f"{address}/book/intro.html"
            visits = [opened(browser, url, screen) for _ in range(given.options.rounds)]
            found[name] = visits[0] | {
                "ms": {
                    key: round(statistics.median(one["ms"][key] for one in visits))
                    for key in visits[0]["ms"]
                }
            }
            print(name, found[name], flush=True)
        browser.close()
    server.shutdown()
    server.server_close()
    write_results(given.path, {"network": NETWORK, "within": WITHIN, "screens": found})
    if late := [name for name, one in found.items() if one["ms"]["trainer"] > WITHIN]:
        sys.exit(f"later than {WITHIN} ms: {', '.join(late)}")


if __name__ == "__main__":
    main()
