"""What a script records is what a chapter reads."""

import math

import pytest

from measure.records import folders, read_results, record_of, write_results
from tests.paths import BOOK, ROOT


def test_what_is_written_is_read(tmp_path):
    write_results(tmp_path / "scale.json", {"loss": [0.5, 0.25]})
    record = read_results("scale", [tmp_path])
    assert record["loss"] == [0.5, 0.25]
    assert record["measured"].keys() == {"date", "torch", "python", "machine"}


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    write_results(tmp_path / "scale.json", {})
    with pytest.raises(ValueError, match=r"\(scale\), got 'skale'"):
        read_results("skale", [tmp_path])


@pytest.mark.parametrize("value", [math.nan, -math.inf, {1, 2}])
def test_what_json_cannot_hold_is_refused_and_the_old_file_stays(tmp_path, value):
    write_results(tmp_path / "scale.json", {"loss": 1.0})
    with pytest.raises(ValueError, match="expected results of plain JSON"):
        write_results(tmp_path / "scale.json", {"loss": value})
    assert read_results("scale", [tmp_path])["loss"] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json"]


def test_the_place_of_a_record_follows_from_its_script():
    room = BOOK / "chapters" / "multi_head"
    assert record_of(room / "experiments" / "head_cost.py") == room / "results" / "head_cost.json"
    engine = ROOT / "benchmarks" / "engine.py"
    assert record_of(engine) == ROOT / "benchmarks" / "results" / "engine.json"


def test_each_record_is_written_by_the_script_beside_it():
    others = {"ablations_full": "ablations"}  # its option --full
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "scripts").rglob("*.py")]
    for path in (path for folder in folders() for path in folder.glob("*.json")):
        name = f"{others.get(path.stem, path.stem)}.py"
        room = path.parent.parent
        script = room / name if room.name == "benchmarks" else room / "experiments" / name
        if not any(f'"{path.name}"' in text for text in scripts):
            assert "__file__, __doc__" in script.read_text(encoding="utf-8"), path


def test_no_two_records_have_one_name():
    names = [path.stem for folder in folders() for path in folder.glob("*.json")]
    assert len(names) == len(set(names))
