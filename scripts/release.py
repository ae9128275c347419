"""Put a release together: `make release` writes it into _build/release.

    python scripts/release.py [HTML_FOLDER] [RELEASE_FOLDER]

The pages as one archive, the PDF, the EPUB, a checksum of each, and the changelog's section as the
notes. The version is CITATION.cff's. On a tag (GITHUB_REF_TYPE, as the workflow has it) the tag
must be that version with a v before it, and the changelog must have a section for it; elsewhere the
topmost section gives the notes.
"""

import hashlib
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book"))
from build.pages.pages import EPUB, PDF  # noqa: E402

EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a ZIP can say: the same pages give the same archive


def version(citation: str) -> str:
    """The version that CITATION.cff gives."""
    found = re.search(r"^version: \"?(\d+\.\d+\.\d+)\"?$", citation, re.MULTILINE)
    if not found:
        raise ValueError("expected a line such as `version: 1.2.0` in CITATION.cff, found none")
    return found[1]


def notes(changelog: str, of: str | None = None) -> str:
    """The text of the changelog's section of a version; by default of the topmost that has text.

    Raises ValueError if the section is missing or empty.
    """
    sections = re.findall(r"^## (\S+).*\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    texts = [text for name, text in sections if of in (name, None)]
    text = next(filter(str.strip, texts), "")
    if not text.strip():
        raise ValueError(
            f"expected a section `## {of or 'Unreleased'}` with text in CHANGELOG.md, found "
            f"{[name for name, _ in sections]}; see .github/RELEASING.md"
        )
    return text.strip() + "\n"


def check_tag(tag: str, number: str) -> None:
    """Raise ValueError unless the tag is the version's."""
    if tag != f"v{number}":
        raise ValueError(
            f"expected the tag v{number}, as CITATION.cff has the version {number}, got {tag}; "
            "correct the file and set the tag again, see .github/RELEASING.md"
        )


def archive(pages: Path, to: Path) -> None:
    """Pack a folder into a ZIP whose files stand in one folder, in order and without dates."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(pages.rglob("*")):
            if path.is_file():
                name = Path(to.stem, path.relative_to(pages)).as_posix()
                entry = zipfile.ZipInfo(name, EARLIEST)
                entry.external_attr = 0o644 << 16
                packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def make_release(pages: Path, folder: Path, number: str, text: str) -> list[str]:
    """Fill a new folder with the release; the names of the files that it publishes.

    Raises ValueError if the pages, the PDF or the EPUB are missing.
    """
    missing = [name for name in ("index.html", PDF, EPUB) if not (pages / name).is_file()]
    if missing:
        raise ValueError(f"expected {', '.join(missing)} in {pages}; run: make pdf epub")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive(pages, folder / f"book-{number}-html.zip")
    shutil.copyfile(pages / PDF, folder / f"book-{number}.pdf")
    shutil.copyfile(pages / EPUB, folder / f"book-{number}.epub")
    files = sorted(folder.iterdir())
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    (folder / "NOTES.md").write_text(text, encoding="utf-8")
    return [*(path.name for path in files), "SHA256SUMS"]


def main(
    pages: str | Path = ROOT / "_build" / "html", folder: str | Path = ROOT / "_build" / "release"
) -> None:
    """Make the release of this checkout."""
    tagged = os.environ.get("GITHUB_REF_TYPE") == "tag"
    try:
        number = version((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
        if tagged:
            check_tag(os.environ["GITHUB_REF_NAME"], number)
        changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        text = notes(changelog, number if tagged else None)
        files = make_release(Path(pages), Path(folder), number, text)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{folder}: {', '.join(files)}, and NOTES.md")


if __name__ == "__main__":
    main(*sys.argv[1:])
