"""What the build adds to the book: which part has its turn when, and one pass over the built pages.

This is the one extension that `_config.yml` names; the files beside it hold the parts.
"""

from functools import partial
from pathlib import Path

from pybtex.plugin import register_plugin

from build.directives import (
    index,
    library,
    map,
    questions,
    records,
    runs,
    schematics,
    widgets,
)
from build.doctree import bibliography, evidence, gathered, glossary, mathml, outputs
from build.pages import figures, fonts, images, meta, pages, policy, search, styles
from build.readers import reader


def finish(app, exception) -> None:
    """Place the figures, pass over every page, cut styles and fonts, list what can be found."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    pictures = out / "_images"
    drawn = figures.place_drawings(pictures)
    for path in pictures.glob("*.png"):
        if path.stem not in drawn:
            images.lighten(path)
    options = (out / "_static" / pages.OPTIONS).read_text(encoding="utf-8")
    for template in (out / "_static").glob("*.html"):
        template.unlink()  # the theme's, for its own build: no page, and so without a policy
    steps = (
        partial(pages.place_images, sizes=images.picture_sizes(out)),
        partial(figures.open_large, drawn=drawn),
        outputs.fit_lines,
        outputs.hang_lines,
        partial(pages.keep_used, options=options),
        pages.load_later,
        partial(pages.link_downloads, sizes=pages.download_sizes(out)),
        reader.link_colab,
        policy.name_actions,
        policy.join_scripts,
        policy.protect,
    )
    texts = pages.rewrite(out, steps)
    styles.cut_all(out / "_static", texts)
    fonts.cut_all(out / "_static", texts)
    reader.write_downloads(Path(app.srcdir), out)
    meta.write_sitemap(out, app.config.html_baseurl, app.env.found_docs)
    search.write_index(out, app.env.found_docs, Path(app.srcdir))


def setup(app):
    register_plugin("pybtex.style.formatting", bibliography.NAME, bibliography.AuthorYear)
    math = (mathml.visit_inline, None), (mathml.visit_block, None)
    app.add_html_math_renderer("mathml", *math)
    link = (glossary.visit_link, glossary.depart_link)
    app.add_node(glossary.term_link, html=link)
    app.add_directive("book-index", index.BookIndex)
    app.add_directive("book-map", map.BookMap)
    app.add_directive("chapter-runs", runs.ChapterRuns)
    app.add_directive("library", library.Library)
    app.add_directive("schematic", schematics.Drawn)
    app.add_directive("widget", widgets.StoredWidget)
    questions.setup(app)
    evidence.setup(app)
    gathered.setup(app)
    records.setup(app)
    app.connect("builder-inited", widgets.on_builder)
    app.connect("builder-inited", map.on_builder)
    app.connect("builder-inited", schematics.on_builder)
    app.connect("builder-inited", search.on_builder)
    app.connect("env-get-outdated", map.on_outdated)
    app.connect("doctree-read", glossary.on_read)
    app.connect("doctree-read", library.on_read)
    app.connect("doctree-resolved", bibliography.on_resolved)
    app.connect("doctree-resolved", glossary.on_resolved)
    app.connect("doctree-resolved", map.on_resolved)
    app.connect("doctree-resolved", outputs.on_resolved)
    app.connect("doctree-resolved", schematics.on_resolved)
    app.connect("html-page-context", widgets.on_page)
    app.connect("html-page-context", meta.on_page)
    app.connect("build-finished", finish)
    # Raised when pages that were built before must be built again.
    return {
        "version": "1",
        "env_version": 2,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
