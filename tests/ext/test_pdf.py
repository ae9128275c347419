"""The link to the printed book: there with its size when the file is, and gone when it is not."""

from ext import book_pdf

BUTTON = '<li>\n<button onclick="window.print()"\n class="btn">.pdf</button>\n</li>'
FIRST = f"<p><a href='#path'>All</a>\n{book_pdf.MARK}</p><ul>{BUTTON}</ul>"
CHAPTER = f"<ul><li>.ipynb</li>{BUTTON}\n</ul><p>text</p>"
OTHER = "<p>No menu.</p>"


def test_links_come_and_go_with_the_file(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    pages = {tmp_path / "search.html": OTHER, folder / "a.html": FIRST, folder / "b.html": CHAPTER}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")

    book_pdf.link_pages(tmp_path)
    assert [path.read_text() for path in pages] == [*pages.values()]

    for megabytes in (3, 14):  # the second print replaces the links of the first
        (tmp_path / book_pdf.NAME).write_bytes(bytes(megabytes * 1_000_000))
        book_pdf.link_pages(tmp_path)
        search, first, chapter = (path.read_text() for path in pages)
        assert search == OTHER
        assert first.count(f'href="../{book_pdf.NAME}"') == 2
        assert first.count(f"PDF ({megabytes} MB)") == 2
        assert chapter.count(f'</li>{book_pdf.MARK}<li><a href="../{book_pdf.NAME}"') == 1
        assert chapter.count(" MB)") == 1

    (tmp_path / book_pdf.NAME).unlink()
    book_pdf.link_pages(tmp_path)
    assert [path.read_text() for path in pages] == [*pages.values()]
