"""What a script records is what a chapter reads."""

import math

import pytest

from measure.records import folders, read_results, write_results
from tests.paths import BOOK, ROOT


def test_what_is_written_is_read(tmp_path):
    write_results("scale", {"loss": [0.5, 0.25]}, tmp_path)
    assert read_results("scale", [tmp_path])["loss"] == [0.5, 0.25]
    assert {"date", "torch", "python", "machine"} <= read_results("scale", [tmp_path])[
        "measured"
    ].keys()


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    write_results("scale", {}, tmp_path)
    with pytest.raises(ValueError, match=r"\(scale\), got 'skale'"):
        read_results("skale", [tmp_path])


def test_nan_is_refused_and_the_old_file_stays(tmp_path):
    write_results("scale", {"loss": 1.0}, tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        write_results("scale", {"loss": math.nan}, tmp_path)
    assert read_results("scale", [tmp_path])["loss"] == 1.0


def test_each_record_is_written_by_a_script():
    scripts = [*BOOK.glob("chapters/*/experiments/*.py"), *ROOT.glob("benchmarks/*.py")]
    texts = [path.read_text(encoding="utf-8") for path in (*scripts, *ROOT.glob("scripts/**/*.py"))]
    stems = {path.stem for path in scripts}
    for path in (path for folder in folders() for path in folder.glob("*.json")):
        named = any(f'"{name}"' in text for text in texts for name in (path.stem, path.name))
        assert path.stem in stems or named, path.name
