"""What the build adds to the book: which part has its turn when, and one pass over the built pages.

This is the one extension that `_config.yml` names; the files beside it hold the parts.
"""

from functools import partial
from pathlib import Path

from pybtex.plugin import register_plugin

from ext import (
    book_bibliography,
    book_figures,
    book_folds,
    book_fonts,
    book_glossary,
    book_images,
    book_index,
    book_library,
    book_map,
    book_mathml,
    book_meta,
    book_outputs,
    book_pages,
    book_policy,
    book_questions,
    book_reader,
    book_runs,
    book_schematics,
    book_search,
    book_widgets,
)


def finish(app, exception) -> None:
    """Place the figures, pass over every page, cut the fonts, and list what can be found."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    images = out / "_images"
    drawn = book_figures.place_drawings(images)
    for path in images.glob("*.png"):
        if path.stem not in drawn:
            book_images.lighten(path)
    options = (out / "_static" / book_pages.OPTIONS).read_text(encoding="utf-8")
    for template in (out / "_static").glob("*.html"):
        template.unlink()  # the theme's, for its own build: no page, and so without a policy
    steps = (
        partial(book_pages.place_images, sizes=book_images.picture_sizes(out)),
        partial(book_figures.open_large, drawn=drawn),
        book_outputs.fit_lines,
        partial(book_pages.keep_used, options=options),
        partial(book_pages.link_downloads, sizes=book_pages.download_sizes(out)),
        book_reader.link_colab,
        book_policy.name_actions,
        book_policy.join_scripts,
        book_policy.protect,
    )
    book_fonts.cut_all(out / "_static", book_pages.rewrite(out, steps))
    book_reader.write_downloads(Path(app.srcdir), out)
    book_meta.write_sitemap(out, app.config.html_baseurl, app.env.found_docs)
    book_search.write_index(out, app.env.found_docs, Path(app.srcdir))


def setup(app):
    register_plugin("pybtex.style.formatting", book_bibliography.NAME, book_bibliography.AuthorYear)
    math = (book_mathml.visit_inline, None), (book_mathml.visit_block, None)
    app.add_html_math_renderer("mathml", *math)
    link = (book_glossary.visit_link, book_glossary.depart_link)
    app.add_node(book_glossary.term_link, html=link)
    app.add_directive("book-index", book_index.BookIndex)
    app.add_directive("book-map", book_map.BookMap)
    app.add_directive("chapter-runs", book_runs.ChapterRuns)
    app.add_directive("library", book_library.Library)
    app.add_directive("widget", book_widgets.StoredWidget)
    book_questions.setup(app)
    app.connect("builder-inited", book_widgets.on_builder)
    app.connect("builder-inited", book_map.on_builder)
    app.connect("builder-inited", book_schematics.on_builder)
    app.connect("builder-inited", book_search.on_builder)
    app.connect("env-get-outdated", book_map.on_outdated)
    app.connect("doctree-read", book_folds.on_read)
    app.connect("doctree-read", book_glossary.on_read)
    app.connect("doctree-read", book_library.on_read)
    app.connect("doctree-resolved", book_bibliography.on_resolved)
    app.connect("doctree-resolved", book_glossary.on_resolved)
    app.connect("doctree-resolved", book_map.on_resolved)
    app.connect("doctree-resolved", book_outputs.on_resolved)
    app.connect("doctree-resolved", book_schematics.on_resolved)
    app.connect("html-page-context", book_widgets.on_page)
    app.connect("html-page-context", book_meta.on_page)
    app.connect("build-finished", finish)
    # Raised when pages that were built before must be built again.
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
