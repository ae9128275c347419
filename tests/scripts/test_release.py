"""A release holds the pages, the PDF and the EPUB, with checksums, and the changelog's words."""

import hashlib
import re
import zipfile

import pytest

from build.pages.pages import EPUB, PDF
from scripts import release
from tests.paths import ROOT

CHANGELOG = """\
# Changelog

## Unreleased

- Not yet.

## 1.2.0 (2026-12-01)

- A thing.
- Another.

## 1.1.0 (2026-11-01)
"""


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "html"
    (folder / "book").mkdir(parents=True)
    for name in ("index.html", "book/notation.html", PDF, EPUB):
        (folder / name).write_text(f"this is {name}", encoding="utf-8")
    return folder


def test_what_a_release_holds(pages, tmp_path):
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "book-0.9.0.pdf").touch()
    files = release.make_release(pages, folder, "1.2.0", "- A thing.\n")
    assert files == ["book-1.2.0-html.zip", "book-1.2.0.epub", "book-1.2.0.pdf", "SHA256SUMS"]
    assert {path.name for path in folder.iterdir()} == {*files, "NOTES.md"}
    assert (folder / "NOTES.md").read_text() == "- A thing.\n"
    assert (folder / "book-1.2.0.pdf").read_text() == f"this is {PDF}"
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files[:3]
    }
    with zipfile.ZipFile(folder / "book-1.2.0-html.zip") as packed:
        assert packed.testzip() is None
        assert {name.split("/")[0] for name in packed.namelist()} == {"book-1.2.0-html"}
        packed.extractall(tmp_path)
    again = tmp_path / "book-1.2.0-html"
    for path in pages.rglob("*.*"):
        assert (again / path.relative_to(pages)).read_bytes() == path.read_bytes()


def test_the_same_pages_give_the_same_archive(pages, tmp_path):
    release.make_release(pages, tmp_path / "one", "1.2.0", "")
    for path in pages.rglob("*.html"):
        path.write_bytes(path.read_bytes())
        path.chmod(0o600)
    release.make_release(pages, tmp_path / "other", "1.2.0", "")
    one, other = ((tmp_path / name / "SHA256SUMS").read_text() for name in ("one", "other"))
    assert one == other


@pytest.mark.parametrize("name", ["index.html", PDF, EPUB])
def test_what_is_missing_is_named_and_the_last_release_stays(pages, tmp_path, name):
    kept = tmp_path / "release" / "kept"
    kept.parent.mkdir()
    kept.touch()
    (pages / name).unlink()
    with pytest.raises(ValueError, match=f"expected {re.escape(name)} in .*run: make pdf epub"):
        release.make_release(pages, kept.parent, "1.2.0", "")
    assert kept.exists()


def test_notes_are_the_section_of_the_version():
    assert release.notes(CHANGELOG) == "- Not yet.\n"
    released = CHANGELOG.replace("- Not yet.\n", "")
    assert release.notes(released) == "- A thing.\n- Another.\n", "what is being released"
    assert release.notes(CHANGELOG, "1.2.0") == "- A thing.\n- Another.\n"
    for missing in ("1.1.0", "1.3.0", "1.2"):
        with pytest.raises(ValueError, match=f"`## {missing}` with text .*RELEASING.md"):
            release.notes(CHANGELOG, missing)
    with pytest.raises(ValueError, match="Unreleased"):
        release.notes("# Changelog\n")


def test_the_tag_is_that_of_the_version():
    assert release.version("title: x\nversion: 1.2.0\n") == "1.2.0"
    release.check_tag("v1.2.0", "1.2.0")
    for tag in ("1.2.0", "v1.2", "v1.2.0-rc1"):
        with pytest.raises(ValueError, match=r"expected the tag v1.2.0, .* got " + tag):
            release.check_tag(tag, "1.2.0")
    with pytest.raises(ValueError, match=r"CITATION.cff, found none"):
        release.version("cff-version: 1.2.0\n")


def test_this_checkout_has_a_version_and_notes():
    assert release.version((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert release.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
