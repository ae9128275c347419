"""Makes the pages findable: a description each, a card for those who share one, a map of the site.

The address of the published book is one setting, `html.baseurl` in `_config.yml`; Sphinx makes the
canonical links from it.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from urllib.parse import urljoin

from docutils import nodes
from markupsafe import Markup

CARD = "_static/card.png"
CARD_TEXT = "The title of the book beside an attention map of a translated sentence."
SHORTEST, LONGEST = 60, 200  # letters of a description


def description(doctree: nodes.document | None) -> str:
    """The page's first sentences that say something, cut between words; empty without any."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        children = [child for child in paragraph.children if child.astext().strip()]
        facts = len(children) == 1 and isinstance(children[0], nodes.emphasis)
        text = " ".join(paragraph.astext().split())
        if not facts and len(text) >= SHORTEST:
            return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return ""


def on_page(app, page, template, context, doctree) -> None:
    """Add the tags to the head of a page that is written from a text, and number its printed title.

    The title of a chapter comes with its number in a span.
    """
    if doctree is None:
        return
    base, site = app.config.html_baseurl, app.config.html_title
    title = Markup(context.get("title") or site).striptags()
    context["pagetitle"] = title  # the heading of the printed page
    facts = {
        "og:type": "website" if page == app.config.root_doc else "article",
        "og:site_name": site,
        "og:title": title,
        "og:description": description(doctree),
        "og:url": urljoin(base, f"{page}.html"),
        "og:image": urljoin(base, CARD),
        "og:image:alt": CARD_TEXT,
    }
    tags = [
        f'<meta property="{name}" content="{escape(value)}" />'
        for name, value in facts.items()
        if value
    ]
    if facts["og:description"]:
        tags.append(f'<meta name="description" content="{escape(facts["og:description"])}" />')
    tags.append('<meta name="twitter:card" content="summary_large_image" />')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def write_sitemap(out: Path, base: str, pages: Iterable[str]) -> None:
    """List every page for search engines, in the folder `out`."""
    addresses = (escape(urljoin(base, f"{page}.html")) for page in sorted(pages))
    rows = "".join(f"<url><loc>{address}</loc></url>\n" for address in addresses)
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n'
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    (out / "sitemap.xml").write_text(head + text, encoding="utf-8")
