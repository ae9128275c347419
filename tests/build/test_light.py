"""The build keeps on a page what it uses, and nothing that holds up its text."""

import pytest
from PIL import Image

from build.pages.images import picture_sizes
from build.pages.pages import keep_used, load_later, place_images, rewrite
from tests.paths import BOOK

OPTIONS = "const DOCUMENTATION_OPTIONS = {};\n"
HEAD = """<head>
<link rel="stylesheet" href="_static/sphinx-design.min.css?v=1" />
<link rel="stylesheet" href="_static/book.css?v=2" />
<link rel="stylesheet"
 href="_static/mystnb.11b39860a7a0cbfd473a3ad8a317855267ff0bd372690045ca344a6b62be495e.css" />
<link rel="stylesheet" href="_static/togglebutton.css?v=1" />
<script src="_static/documentation_options.js?v=3"></script>
<script src="_static/togglebutton.js?v=6"></script>
<script>DOCUMENTATION_OPTIONS.pagename = "a";</script>
<script src="_static/doctools.js?v=4"></script>
<script defer="defer" src="_static/page.js"></script>
<script src="searchindex.js"></script>
<script src="_static/sphinx_highlight.js"></script>
<script data-prefix="id" src="_static/design-tabs.js"></script>
</head>"""


def test_a_page_keeps_what_it_uses_and_no_script_holds_it_up():
    page = keep_used(HEAD + "<body><p>text</p></body>", OPTIONS)
    assert "sphinx-design" not in page
    assert "searchindex" not in page
    assert "sphinx_highlight" not in page
    assert "design-tabs" not in page
    assert "mystnb" not in page
    assert "togglebutton" not in page
    assert "book.css?v=2" in page
    assert f"<script>{OPTIONS.strip()}</script>\n<script>DOCUMENTATION_OPTIONS.page" in page
    assert '<script defer src="_static/doctools.js?v=4"></script>' in page
    assert '<script defer="defer" src="_static/page.js"></script>' in page


@pytest.mark.parametrize("folded", ["admonition tip dropdown", "dropdown admonition tip"])
def test_a_page_that_needs_a_file_keeps_it(folded):
    """The order of a box's classes differs from build to build."""
    body = '<div class="sd-tab-set"></div><div class="cell docutils"></div>'
    body += f'<div class="{folded}"></div>'
    page = keep_used(HEAD + body, OPTIONS)
    assert "sphinx-design.min.css" in page
    assert '<script defer data-prefix="id" src="_static/design-tabs.js">' in page
    assert "mystnb" in page
    assert page.count("togglebutton") == 2


def test_a_page_may_pass_twice():
    once = keep_used(HEAD + "<body></body>", OPTIONS)
    assert keep_used(once, OPTIONS) == once


def test_bootstrap_is_named_and_loaded_by_nothing():
    preload = '<link rel="preload" as="script" href="../_static/scripts/{}.js?digest=5" />\n'
    head = preload.format("bootstrap") + preload.format("pydata-sphinx-theme")
    script = '<script src="../_static/scripts/bootstrap.js?digest=5"></script>'
    page = load_later(keep_used(f"{head}<p>{script}</p>", OPTIONS))
    named = '<meta name="menus" content="../_static/scripts/bootstrap.js?digest=5">\n'
    assert page == f"{named}<p></p>"
    assert load_later(page) == page


def test_pictures_get_their_size_and_the_lower_ones_load_late(tmp_path):
    (tmp_path / "_images").mkdir()
    Image.new("RGB", (13, 7)).save(tmp_path / "_images" / "a.png")
    image = 'src="../_images/a.png"'
    text = (
        f'<img {image}><h2>Part</h2><img alt="x" {image} /><img src="b.svg">'
        f'<img width="5" height="3" {image}><img src="https://example.org/_images/a.png">'
    )
    size = 'width="13" height="7"'
    late = 'loading="lazy" decoding="async"'
    sizes = picture_sizes(tmp_path)
    placed = place_images(text, sizes)
    assert placed == (
        f'<img {size} {image}><h2>Part</h2><img {size} {late} alt="x" {image} />'
        f'<img {late} src="b.svg"><img {late} width="5" height="3" {image}>'
        f'<img {late} src="https://example.org/_images/a.png">'
    )
    assert place_images(placed, sizes) == placed


def test_a_page_is_read_once_and_written_if_it_changed(tmp_path):
    pages = {"a.html": "one", "book/b.html": "two", "_static/c.html": "one"}
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    steps = [lambda text: text.replace("one", "1"), lambda text: text.replace("1", "uno")]
    before = (tmp_path / "book" / "b.html").stat().st_mtime_ns
    assert sorted(rewrite(tmp_path, steps)) == ["two", "uno"]
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == "uno"
    assert (tmp_path / "book" / "b.html").stat().st_mtime_ns == before
    assert (tmp_path / "_static" / "c.html").read_text(encoding="utf-8") == "one"


def test_no_style_of_the_page_makes_the_widgets_slow():
    """With `:has` in a rule, each change in a widget restyles the whole chapter: 60 ms, not 6."""
    assert ":has(" not in (BOOK / "static" / "book.css").read_text(encoding="utf-8")
