"""The links to the book in other formats: there with its size when a file is, and gone when not."""

from functools import partial

from build.pages.pages import EPUB, MARK, PDF, download_sizes, link_downloads, rewrite

BUTTON = '<li>\n<button onclick="window.print()"\n class="btn">.pdf</button>\n</li>'
ROOT = '<html lang="en" data-content_root="../" data-theme="light">'
FIRST = f"{ROOT}<p><a href='#path'>All</a>\n{MARK}</p><ul>{BUTTON}</ul>"
CHAPTER = f"{ROOT}<ul><li>.ipynb</li>{BUTTON}\n</ul><p>text</p>"
OTHER = "<p>No menu.</p>"


def test_links_come_and_go_with_the_file(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    pages = {tmp_path / "search.html": OTHER, folder / "a.html": FIRST, folder / "b.html": CHAPTER}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")

    def build() -> list[str]:
        rewrite(tmp_path, [partial(link_downloads, sizes=download_sizes(tmp_path))])
        return [path.read_text(encoding="utf-8") for path in pages]

    assert build() == [*pages.values()]

    for megabytes in (3, 14):  # the second print replaces the links of the first
        (tmp_path / PDF).write_bytes(bytes(megabytes * 1_000_000))
        search, first, chapter = build()
        assert search == OTHER
        assert first.count(f'href="../{PDF}"') == 2
        assert first.count(f"PDF ({megabytes} MB)") == 2
        assert chapter.count(f'</li>{MARK}<li><a href="../{PDF}"') == 1
        assert chapter.count(" MB)") == 1

    (tmp_path / EPUB).write_bytes(bytes(5_000_000))
    search, first, chapter = build()
    assert first.count(">PDF</a>") == first.count(">EPUB</a>") == 1
    assert chapter.count("The whole book as EPUB (5 MB)") == 1
    assert chapter.count(f'href="../{PDF}"') == chapter.count(f'href="../{EPUB}"') == 1

    (tmp_path / PDF).unlink()
    (tmp_path / EPUB).unlink()
    assert build() == [*pages.values()]
