"""What chapter 14 says of its causes, against the record of three seeds."""

from chapters.families.experiments.families_causes import MODELS, conclude
from measure.records import read_results


def test_record_bears_what_the_chapter_says():
    record = read_results("families_causes")
    assert list(record["models"]) == list(MODELS)
    assert {len(rows) for rows in record["models"].values()} == {3}
    conclude(record)
