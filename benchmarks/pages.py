"""What each page of the built book costs its reader, in one table: `make book`, then

    python benchmarks/pages.py [HTML_FOLDER] [--rounds 3] [--axe]

The pages are served from this machine, packed with gzip; Chromium opens them with an empty cache.
"at first" is what a page loads by itself; "whole" is after scrolling to its end, when the pictures
further down have come too. Bytes count the headers of the answers. The times, in milliseconds, are
medians over the rounds; there is no network between, so they are the browser's own work.
"answer" is how long the page's widgets take from a slider's move to the end of the layout that it
forces: the median over all moves, and the time within which 95 % of them end; 16 is one frame.
`--axe` counts, instead, the violations that axe-core finds in two themes and at two widths.
"""

import argparse
import gzip
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from tests.browser.fixtures import FLAGS
from tests.browser.weigh import LIMIT, PACKED, Visit, serve_packed, visit
from tests.paths import HTML
from widgets import SLIDE

THEMES, WIDTHS = ("light", "dark"), (1300, 390)
TIMES = ("first", "dom", "largest")
HEADER = (
    "page", "requests at first", "kB at first", "requests, whole", "kB, whole",
    "first paint", "DOMContentLoaded", "largest paint", "answer", "95 %",
)  # fmt: skip


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


def row(name: str, visits: list[Visit], moves: list[float]) -> list[str]:
    one = visits[0]
    cells = [name]
    for requests, size in (one.first, one.whole):
        cells += [str(requests), f"{size / 1000:.0f}"]
    cells += [f"{statistics.median(v.times[key] for v in visits):.0f}" for key in TIMES]
    if not moves:
        return [*cells, "", ""]
    late = statistics.quantiles(moves, n=20, method="inclusive")[-1]
    return [*cells, f"{statistics.median(moves):.1f}", f"{late:.1f}"]


def show(header: tuple[str, ...], lines: Iterator[list[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for line in lines:
        print("| " + " | ".join(line) + " |", flush=True)


def size(folder: Path) -> str:
    """The whole site, as it lies on a disk and as it goes over the wire."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    plain = packed = 0
    for path in files:
        data = path.read_bytes()
        plain += len(data)
        packed += len(gzip.compress(data) if path.suffix in PACKED else data)
    return f"{len(files)} files, {plain / 1e6:.1f} MB, {packed / 1e6:.1f} MB packed"


def costs(browser: Browser, names: list[str], address: str, rounds: int) -> Iterator[list[str]]:
    heaviest = ("", 0, 0)
    for name in names:
        url = f"{address}/{name}"
        visits = [visit(browser, url) for _ in range(rounds)]
        heaviest = max(heaviest, (name, visits[0].first[1], visits[0].whole[1]), key=lambda h: h[2])
        yield row(name, visits, answers(browser, url))
    name, first, whole = heaviest
    print(
        f"\nThe heaviest: {name}, {first / 1000:.0f} kB at first, {whole / 1000:.0f} kB whole; "
        f"the limit is {LIMIT // 1000} kB."
    )


def violations(browser: Browser, names: list[str], address: str) -> Iterator[list[str]]:
    total = 0
    for name in names:
        cells = [name]
        for theme in THEMES:
            for width in WIDTHS:
                view = {"width": width, "height": 900}
                page = browser.new_page(viewport=view, color_scheme=theme)
                page.goto(f"{address}/{name}", wait_until="networkidle")
                found = Axe().run(page).response["violations"]
                page.close()
                count = sum(len(violation["nodes"]) for violation in found)
                total += count
                cells.append(str(count))
        yield cells
    print(f"\nViolations in all: {total}.")


def run(folder: Path, work: Callable[[Browser, str], None]) -> None:
    server, address = serve_packed(folder)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        work(browser, address)
        browser.close()
    server.shutdown()
    server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HTML)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--axe", action="store_true", help="count what axe-core finds, instead")
    given = parser.parse_args()
    names = pages(given.folder)
    if not names:
        sys.exit(f"expected the built book in {given.folder}, found no page: run make book first")
    if given.axe:
        header = ("page", *(f"{theme}, {width} px" for theme in THEMES for width in WIDTHS))
        run(given.folder, lambda b, address: show(header, violations(b, names, address)))
        return
    run(given.folder, lambda b, address: show(HEADER, costs(b, names, address, given.rounds)))
    print(f"The site: {size(given.folder)}.")


if __name__ == "__main__":
    main()
