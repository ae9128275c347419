"""What each page of the built book costs its reader: `make book`, then

    python benchmarks/pages.py [--html FOLDER] [--rounds 3]

The pages are served from this machine, packed with gzip; Chromium opens them with an empty cache.
"at first" is what a page loads by itself; "whole" is after scrolling to its end, when the pictures
further down have come too. Bytes count the headers of the answers. The times, in milliseconds, are
medians over the rounds; there is no network between, so they are the browser's own work.
"answer" is how long the page's widgets take from a slider's move to the end of the layout that it
forces: the median over all moves, and the time within which 95 % of them end; 16 is one frame.
Also counted: the violations that axe-core finds in two themes and at two widths. It writes
benchmarks/results/pages.json.
"""

import gzip
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from benchmarks.widgets import SLIDE
from measure.experiments import command_line
from measure.records import write_results
from scripts import chromium
from tests.browser.fixtures import FLAGS
from tests.browser.weigh import LIMIT, PACKED, Visit, serve_packed, visit
from tests.paths import HTML

THEMES, WIDTHS = ("light", "dark"), (1300, 390)
TIMES = ("first", "dom", "largest")


def pages(folder: Path) -> list[str]:
    """The pages with text, by their address below the book's."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    return [n for n in names if not n.startswith(("_static/", "_sources/")) and n != "index.html"]


def answers(browser: Browser, url: str) -> list[float]:
    """Milliseconds of every move of every slider of the page's widgets."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto(url, wait_until="networkidle")
    times = []
    for slider in page.locator("div.book-widget input[type=range]").all():
        if slider.is_visible():
            times += slider.evaluate(f"(input) => ({SLIDE})(input, 1)")
    page.close()
    return times


def row(visits: list[Visit], moves: list[float]) -> dict[str, Any]:
    one = visits[0]
    found: dict[str, Any] = {
        "at first": {"requests": one.first[0], "bytes": one.first[1]},
        "whole": {"requests": one.whole[0], "bytes": one.whole[1]},
        "ms": {key: round(statistics.median(v.times[key] for v in visits)) for key in TIMES},
    }
    if moves:
        late = statistics.quantiles(moves, n=20, method="inclusive")[-1]
        found["answer"] = {"median": round(statistics.median(moves), 1), "late": round(late, 1)}
    return found


def size(folder: Path) -> dict[str, int]:
    """The whole site, as it lies on a disk and as it goes over the wire."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    plain = packed = 0
    for path in files:
        data = path.read_bytes()
        plain += len(data)
        packed += len(gzip.compress(data) if path.suffix in PACKED else data)
    return {"files": len(files), "bytes": plain, "packed": packed}


def violations(browser: Browser, url: str) -> int:
    """How many places of a page axe-core finds fault with, in all themes and widths."""
    count = 0
    for theme in THEMES:
        for width in WIDTHS:
            view = {"width": width, "height": 900}
            page = browser.new_page(viewport=view, color_scheme=theme)
            page.goto(url, wait_until="networkidle")
            found = Axe().run(page).response["violations"]
            page.close()
            count += sum(len(violation["nodes"]) for violation in found)
    return count


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments, html=HTML, rounds=3)
    folder, rounds = given.options.html, given.options.rounds
    names = pages(folder)
    if not names:
        sys.exit(f"expected the built book in {folder}, found no page: run make book first")
    server, address = serve_packed(folder)
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable(), args=FLAGS)
        for name in names:
            url = f"{address}/{name}"
            visits = [visit(browser, url) for _ in range(rounds)]
            found[name] = row(visits, answers(browser, url))
            found[name]["violations"] = violations(browser, url)
            print(name, found[name], flush=True)
        browser.close()
    server.shutdown()
    server.server_close()
    write_results(given.path, {"limit": LIMIT, "site": size(folder), "pages": found})
    problems = [
        name for name, page in found.items() if page["violations"] or page["whole"]["bytes"] > LIMIT
    ]
    if problems:
        sys.exit(f"heavier than {LIMIT} bytes, or not accessible to all: {', '.join(problems)}")


if __name__ == "__main__":
    main()
