"""Make the chapters as readers open them: plain Markdown, hints and solutions folded.

    python scripts/reader_notebooks.py              into book/_reader, beside what they import
    python scripts/reader_notebooks.py FOLDER
    python scripts/reader_notebooks.py --version COMMIT    whose set-up cell fetches that version

A notebook that a reader has changed stays as it is, and is named. Which ones were changed is known
from `.made.json` in the folder, which holds what each file was when it was made.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from build.readers.reader import NEWEST, chapters, reader_text
from build.source.places import Places

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "book" / "_reader"
RECORD = ".made.json"
README = """\
# The notebooks of {title}

Made from the chapters in <{repository}> for JupyterLab, Colab, VS Code and GitHub. Do not edit them
here: what you send in belongs to the chapters there. The book itself: <{page}>.
"""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make(root: Path, folder: Path, version: str = NEWEST) -> list[str]:
    """Write the notebooks of a version, and a README, into `folder`; keep what was changed there.

    Returns: the names of the files that were kept although the book now has others.
    """
    places = Places(root)
    about = {"title": places.config["title"], "repository": places.repository, "page": places.base}
    files = {path.name: reader_text(path, places, version).encode() for path in chapters(root)}
    files["README.md"] = README.format(**about).encode()
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / RECORD
    made = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    kept = []
    for name, content in files.items():
        path = folder / name
        if path.exists() and digest(path.read_bytes()) != made.get(name):
            kept += [name] if digest(content) != made.get(name) else []
            continue
        path.write_bytes(content)
        made[name] = digest(content)
    record.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--version", default=NEWEST, help="the commit or tag to fetch")
    options = parser.parse_args()
    folder = options.folder.resolve()
    kept = make(ROOT, folder, options.version)
    print(f"The chapters for readers: {folder}")
    for name in kept:
        print(f"Kept your {name}. The book has a newer one: rename or delete yours to get it.")


if __name__ == "__main__":
    main()
