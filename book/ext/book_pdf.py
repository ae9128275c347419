"""Links the printed book from its pages, when it is there: `make pdf` prints it beside them.

The link stands on the first page, where the text has the mark `<!-- pdf -->`, and in the menu of
downloads of every page. A build takes out a link whose file has gone, so none is ever dead.
"""

import os
import re
from pathlib import Path

NAME = "the-transformer-piece-by-piece.pdf"
MARK, END = "<!-- pdf -->", "<!-- /pdf -->"
# The theme's own button, which prints the one page that is open.
PRINT_BUTTON = re.compile(r'<li>\s*<button onclick="window\.print\(\)".*?</li>', re.DOTALL)
OLD_LINK = re.compile(f"{MARK}.*?{END}", re.DOTALL)
ITEM = (
    '<li><a href="{address}" class="btn btn-sm btn-download-book-button dropdown-item" download>'
    '<span class="btn__icon-container"><i class="fas fa-file-pdf"></i></span>'
    '<span class="btn__text-container">{text}</span></a></li>'
)
LINK = '<a class="book-pdf" href="{address}" download>{text}</a>'


def link_page(text: str, address: str, size: int) -> str:
    """A page with a link to the PDF of so many bytes at `address`; without, if the size is 0."""
    text = OLD_LINK.sub(lambda m: "" if m.group().startswith(f"{MARK}<li>") else MARK, text)
    if not size:
        return text
    megabytes = f"{size / 1e6:.0f} MB"
    link = LINK.format(address=address, text=f"As PDF ({megabytes})")
    item = ITEM.format(address=address, text=f"The whole book as PDF ({megabytes})")
    text = text.replace(MARK, f"{MARK}{link}{END}")
    item = f"{MARK}{item}{END}"
    return PRINT_BUTTON.sub(lambda m: m.group() + item, text, count=1)


def link_pages(out: Path) -> None:
    """Link `NAME` in the folder `out` from every page there, or take the links out."""
    pdf = out / NAME
    size = pdf.stat().st_size if pdf.exists() else 0
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            before = path.read_text(encoding="utf-8")
            after = link_page(before, os.path.relpath(pdf, path.parent).replace(os.sep, "/"), size)
            if after != before:
                path.write_text(after, encoding="utf-8")


def on_finished(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        link_pages(Path(app.outdir))


def setup(app):
    app.connect("build-finished", on_finished)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
