"""What the models of a record write, as a page or a notebook's front end gets it.

A record of many models has more text than a page should load by itself. The widget that shows it
stores the texts that it begins with, and the others come when a reader asks for them: the build
makes a file of them, a kernel sends the same. Only Python's own library is used here, since
building needs no other.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class PackedRecord(NamedTuple):
    """texts[part][seed]: what the model writes that was trained without a part, from a seed."""

    texts: dict[str, dict[str, list[str]]]

    @property
    def json(self) -> str:
        return json.dumps(self.texts, ensure_ascii=False, separators=(",", ":"))

    @property
    def id(self) -> str:
        """A name made from what is inside: equal for equal texts, on every machine."""
        return hashlib.sha256(self.json.encode()).hexdigest()[:12]

    @property
    def bytes(self) -> int:
        """The size of its script's text, before a host packs it."""
        return len(self.script().encode())

    def script(self) -> str:
        """A classic script that leaves the texts in the page: what a page from a file loads too."""
        return f"(window.bookRecords ??= {{}})[{json.dumps(self.id)}] = {self.json};\n"


def pack_record(record: Mapping[str, Any]) -> PackedRecord:
    """Pack the texts of a record with runs, each with its part, its seed, and what it `said`."""
    texts: dict[str, dict[str, list[str]]] = {}
    for run in record["runs"]:
        texts.setdefault(run["part"], {})[str(run["seed"])] = run["said"]
    return PackedRecord(texts)


def pack_file(path: Path) -> PackedRecord:
    """Pack the record in a file.

    Errors: OSError for a missing file.
    """
    return pack_record(json.loads(path.read_text(encoding="utf-8")))
