"""Which Chromium draws the pages: for the tests, the PDF, the pictures and the benchmarks."""

import os
import shutil

# The first draws no window around a page, which a full Chromium does even where nobody sees it.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


def executable() -> str | None:
    """The path that CHROMIUM names, or Debian's; None for the one that Playwright has installed."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
