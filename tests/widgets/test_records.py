"""What a widget's page loads of a record: the same from the build and from the kernel."""

import json
import re

from build.directives import widgets
from widgets.records import PackedRecord, pack_file, pack_record

RECORD = {
    "runs": [
        {"part": "nothing", "seed": 1, "said": ["un café", ""], "bleu": 3.5},
        {"part": "norms", "seed": 0, "said": ["</script>", "x"], "bleu": 2.5},
    ]
}
TEXTS = {"nothing": {"1": ["un café", ""]}, "norms": {"0": ["</script>", "x"]}}


def test_a_record_is_packed_to_its_texts_by_part_and_seed(tmp_path):
    packed = pack_record(RECORD)
    assert packed.texts == TEXTS
    path = tmp_path / "record.json"
    path.write_text(json.dumps(RECORD), encoding="utf-8")
    assert pack_file(path) == packed
    assert packed.id == pack_file(path).id
    assert packed.id != PackedRecord({"nothing": {}}).id


def test_its_script_leaves_the_texts_in_the_page():
    packed = pack_record(RECORD)
    found = re.fullmatch(
        r'\(window\.bookRecords \?\?= \{\}\)\["(\w+)"\] = (.*);\n', packed.script()
    )
    assert found[1] == packed.id
    assert json.loads(found[2]) == TEXTS
    assert packed.bytes == len(packed.script().encode())


def test_the_build_makes_a_file_of_each_record(tmp_path):
    widgets.emit_assets(tmp_path)
    packed = [pack_file(path) for path in widgets.RECORDS]
    files = sorted((tmp_path / "records").iterdir())
    assert [file.name for file in files] == sorted(f"{one.id}.js" for one in packed)
    for one in packed:
        text = (tmp_path / "records" / f"{one.id}.js").read_text(encoding="utf-8")
        assert text == one.script()
