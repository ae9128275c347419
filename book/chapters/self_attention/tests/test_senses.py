"""What the chapter reads from the record of the laboratory: ten seeds, by length and kind."""

from chapters.self_attention.senses import KINDS, senses_record
from measure.records import read_results


def test_each_kind_has_its_runs_of_both_lengths():
    rows = {row["name"]: row["runs"] for row in read_results("senses_seeds")["settings"]}
    found = senses_record()
    assert [list(kinds) for kinds in found.values()] == [list(KINDS.values())] * 2
    for name, kind in KINDS.items():
        short, long = (kinds[kind] for kinds in found.values())
        assert short == [run["accuracy"] for run in rows[name]]
        assert long == [run["numbers"]["right among 32 words"] for run in rows[name]]
        assert len(short) == 10
