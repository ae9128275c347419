"""Photograph the book's first page for README: .github/first_page.png.

    python scripts/make_picture.py

Needs: the built book (`make book`), and a Chromium (CHROMIUM, or one on the path).
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from scripts import chromium  # noqa: E402

PAGE = ROOT / "_build" / "html" / "book" / "intro.html"
PICTURE = ROOT / ".github" / "first_page.png"
SIZE: ViewportSize = {"width": 1280, "height": 820}
COLOURS = 96  # of a picture for a front page: a third of the bytes, and no letter looks different


def photograph(page_file: Path) -> bytes:
    """The first page as a PNG, its Transformer trained."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable(), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE)
        page.goto(page_file.as_uri())
        page.get_by_role("button", name="Train", exact=True).click()
        page.get_by_role("button", name="Train again", exact=True).wait_for()
        page.evaluate("document.fonts.ready")
        page.mouse.move(0, 0)
        picture = page.screenshot(animations="disabled")
        browser.close()
    return picture


def main() -> None:
    picture = Image.open(io.BytesIO(photograph(PAGE))).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
