"""What the laboratory of two senses reached: recorded accuracies, by length and by attention."""

from measure.records import read_results

KINDS = {  # the settings of the record, as the figure names them
    "by itself": "each word by itself",
    "all words alike": "all words alike",
    "all words alike, long sentences": "all words alike, trained on 32 words",
    "two heads choose": "what it chooses (two heads)",
}
LONG = "right among 32 words"
SHORT, FILLED = "3 to 17 words", "filled up to 32 words"


def senses_record() -> dict[str, dict[str, list[float]]]:
    """The fraction of words of two meanings translated right, by length and kind, for each seed."""
    rows = {row["name"]: row["runs"] for row in read_results("senses_seeds")["settings"]}
    found: dict[str, dict[str, list[float]]] = {SHORT: {}, FILLED: {}}
    for name, kind in KINDS.items():
        found[SHORT][kind] = [run["accuracy"] for run in rows[name]]
        found[FILLED][kind] = [run["numbers"][LONG] for run in rows[name]]
    return found
