"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.seq2seq.bottleneck_runs import BottleneckRuns


def recorded_runs() -> dict:
    """Three settings, one of them with two seeds; two lengths; one setting without translations."""

    def run(d_hidden: int, seed: int, *points: dict) -> dict:
        settings = {"d_hidden": d_hidden, "lr": 2e-3, "seed": seed}
        return settings | {"checkpoints": list(points)}

    def point(step: int, right: list[int], examples: list | None = None) -> dict:
        probes = [[9, n, 9, 0] for n in (5, right[0], 1)]
        found = {"step": step, "bins": [[n, 9, 8, 7, 8] for n in right], "probes": probes}
        return found | ({"examples": examples} if examples else {})

    right = [["deux euros", "six <b>"], ["il a a deux jours"]]
    return {
        "sets": {
            "edges": [1, 3, 6],
            "trained_bins": 1,
            "trained_items": 2,
            "probe_items": 5,
            "sentences_per_bin": [4, 8],
            "sentences": [
                [["two euros", "deux euros"], ["six <b>", "six <b>"]],
                [["two days ago", "il y a deux jours"]],
            ],
        },
        "runs": [
            run(32, 1, point(300, [0, 0])),
            run(
                *(128, 0),
                point(300, [2, 2], [["dix euros", "six <b>"], ["deux jours"]]),
                point(1250, [4, 4], right),
            ),
            run(128, 1, point(300, [4, 0])),
        ],
    }


SAMPLES = {
    "bottleneck_runs": lambda: BottleneckRuns(recorded_runs(), steps=300, length=1),
}
