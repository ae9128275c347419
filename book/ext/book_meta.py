"""Makes the pages findable: a description each, a card for those who share one, a map of the site.

The address of the published book is one setting, `html.baseurl` in `_config.yml`; Sphinx makes the
canonical links from it. Without it this part of the build does nothing.
"""

from html import escape
from pathlib import Path
from urllib.parse import urljoin
from xml.sax.saxutils import escape as xml_escape

from docutils import nodes

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
    """Add the tags to the head of a page that is written from a text."""
    base = app.config.html_baseurl
    if not base or doctree is None:
        return
    root = page == app.config.root_doc
    title = app.config.html_title or app.config.project
    facts = {
        "og:type": "website" if root else "article",
        "og:site_name": title,
        "og:title": context.get("title") or title,
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


def write_sitemap(app, exception) -> None:
    """List every page for search engines."""
    base = app.config.html_baseurl
    if exception is not None or app.builder.format != "html" or not base:
        return
    pages = sorted(app.env.found_docs)
    rows = [f"<url><loc>{xml_escape(urljoin(base, f'{page}.html'))}</loc></url>" for page in pages]
    Path(app.outdir, "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + "\n".join(rows)
        + "\n</urlset>\n",
        encoding="utf-8",
    )


def setup(app):
    app.connect("html-page-context", on_page)
    app.connect("build-finished", write_sitemap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
