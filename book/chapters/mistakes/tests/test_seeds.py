"""What chapter 15 says of its broken translators, against the record of three seeds."""

from chapters.mistakes.experiments.mistakes_seeds import MODELS, conclude
from measure.records import read_results


def test_record_bears_what_the_chapter_says():
    record = read_results("mistakes_seeds")
    assert list(record["models"]) == list(MODELS)
    assert {len(rows) for rows in record["models"].values()} == {3}
    conclude(record)
