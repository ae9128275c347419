"""Print the built book into one PDF, with an outline: `make pdf`.

    python scripts/make_pdf.py [HTML_FOLDER] [PDF_FILE]

Every page is printed by Chromium as it stands in the browser, light, with its widgets in the state
in which they start. Links within the book lead to the published pages. A PDF that stands beside its
pages is then linked from them.
Needs: the built book (`make book`), and a Chromium (CHROMIUM, or one on the path).
"""

import io
import re
import sys
from functools import partial
from html import escape
from pathlib import Path

from playwright.sync_api import Page, PdfMargins, sync_playwright
from pypdf import PdfReader, PdfWriter
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "book")]
from build.pages.pages import (  # noqa: E402
    PDF,
    download_sizes,
    link_downloads,
    rewrite,
)
from build.source.rooms import read_contents  # noqa: E402
from scripts import chromium  # noqa: E402

MARGIN: PdfMargins = {"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
SCALE = 0.85
# Hints and solutions, which a reader of the screen opens by a click, are printed open, and so is
# what a widget should have shown. The answers to recall questions stand on the page "Review" alone.
OPEN = """() => {
  for (const part of document.querySelectorAll(".toggle-hidden")) {
    part.classList.remove("toggle-hidden");
  }
  const opened = document.querySelectorAll(".seen, .review ~ section > .recall");
  for (const part of opened) part.open = true;
  for (const image of document.images) image.loading = "eager";
  const here = document.querySelector('link[rel="canonical"]')?.href;
  for (const link of document.querySelectorAll("a[href]")) {
    const target = link.getAttribute("href");
    if (here && !target.startsWith("#")) link.href = new URL(target, here).href;
  }
}"""
# The dialog of the figures has a picture only once it is opened.
DRAWN = """() => Promise.all([...document.images].filter((image) => image.hasAttribute("src"))
  .map((image) => image.decode()))"""


def order() -> list[str]:
    """The pages in the order of the table of contents."""
    return [name for _, names in read_contents(ROOT) for name in names]


def printed(page: Page, path: Path) -> tuple[str, PdfReader]:
    """Open a page of the book, print it, and return its title too."""
    page.goto(path.as_uri(), wait_until="load")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.book-widget')].every((w) => w.querySelector('.bw'))",
        timeout=30_000,
    )
    page.evaluate(OPEN)
    page.evaluate(DRAWN)
    title = page.locator("h1").first.inner_text().strip(" #")
    data = page.pdf(format="A4", margin=MARGIN, scale=SCALE, print_background=True)
    return re.sub(r"\s+", " ", title), PdfReader(io.BytesIO(data))


def footers(page: Page, titles: list[str]) -> PdfReader:
    """Sheets that are empty but for a title and a number: Chromium counts each file from one."""
    sheet = (
        '<div style="height:296mm;overflow:hidden;break-after:page;position:relative">'
        '<p style="position:absolute;bottom:8mm;left:16mm;right:16mm;margin:0;display:flex;'
        'justify-content:space-between;font:8pt sans-serif;color:#666">'
        "<span>{title}</span><span>{number}</span></p></div>"
    )
    sheets = (sheet.format(title=escape(t), number=n) for n, t in enumerate(titles, 1))
    page.goto("about:blank")  # a page of the book refuses a style that is written into it
    page.set_content("<style>body { margin: 0 }</style>" + "".join(sheets))
    return PdfReader(io.BytesIO(page.pdf(format="A4")))


def bind(page: Page, paths: list[Path]) -> PdfWriter:
    """Print these pages into one document, each sheet with the page's title and its own number."""
    writer = PdfWriter()
    titles: list[str] = []  # of each sheet
    for path in tqdm(paths, unit="page"):
        title, document = printed(page, path)
        writer.append(document, outline_item=title, import_outline=False)
        titles += [title] * len(document.pages)
    for sheet, foot in zip(writer.pages, footers(page, titles).pages, strict=True):
        sheet.merge_page(foot)
        sheet.compress_content_streams()
    return writer


def main(html: Path, target: Path) -> None:
    paths = [html / f"{name}.html" for name in order()]
    missing = [path for path in paths if not path.exists()]
    if missing:
        sys.exit(f"expected the built book, but {missing[0]} is missing: run make book first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable(), args=["--no-sandbox"]
        )
        page = browser.new_page(color_scheme="light", viewport={"width": 900, "height": 1200})
        writer = bind(page, paths)
        browser.close()
    writer.add_metadata({"/Title": "The Transformer, Piece by Piece"})
    writer.compress_identical_objects()
    target.parent.mkdir(parents=True, exist_ok=True)
    writer.write(target)
    print(f"{target}: {len(writer.pages)} pages, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:3]]
    html = given[0] if given else ROOT / "_build" / "html"
    main(html, given[1] if len(given) > 1 else html / PDF)
    rewrite(html, [partial(link_downloads, sizes=download_sizes(html))])
