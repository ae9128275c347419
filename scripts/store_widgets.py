"""Store the output of each widget that stands on a page, but in no chapter's notebook.

    python scripts/store_widgets.py

The build shows it by `{widget} NAME`, and needs neither a kernel nor the library of the widgets: so
the output lies beside the widget's script, as NAME.html. A test compares it with the widget.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book"))

from engine.train_now import TrainNow  # noqa: E402
from widgets.base import BookWidget  # noqa: E402

STORED: tuple[type[BookWidget], ...] = (TrainNow,)


def stored(kind: type[BookWidget]) -> tuple[Path, str]:
    """The file of a widget's output, and what stands in it."""
    output = kind()._repr_mimebundle_()[0]["text/html"]
    return kind._folder / f"{kind._module}.html", f"{output}\n"


def main() -> None:
    for path, text in map(stored, STORED):
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(text) / 1000:.1f} kB")


if __name__ == "__main__":
    main()
