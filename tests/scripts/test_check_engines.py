"""What `make engines` makes of a run in a laboratory. No engine is opened here, but a stand-in."""

import sys

import pytest

from scripts import check_engines as engines

DONE = "Run 1, done: Step 400 of 400, loss 0.0213, roles right 97%. 1.3 ms per step, {}."
PLAIN = (
    "plain JavaScript, as this browser has no WebAssembly for it or refuses it: slower, with the "
    "same result"
)


class StandIn:
    """An engine on whose page each of several laboratories says its lines, the last one for good;
    none has a button if `train` says why."""

    def __init__(self, *lines: list[str], train: str = "", look: list = ()):
        self.lines, self.sizes, self.pressed = [list(one) for one in lines], [], []
        self.answers = {engines.LABORATORIES: lambda: len(lines), engines.LOOK: lambda: list(look)}
        for place, left in enumerate(self.lines):
            self.answers[engines.STATUS % place] = lambda left=left: (
                left.pop(0) if len(left) > 1 else left[0]
            )
            self.answers[engines.TRAIN % place] = lambda place=place: (
                self.pressed.append(place) or train
            )

    def size(self, width: int, height: int) -> None:
        self.sizes.append(width)

    def open(self, url: str) -> None:
        self.url = url

    def run(self, script: str):
        return self.answers[script]()


@pytest.mark.parametrize(
    ("status", "result", "fault"),
    [
        (DONE.format("WebAssembly"), "WebAssembly, 2.5 s, loss 0.0213, roles right 97%", None),
        (
            DONE.format(PLAIN),
            "plain JavaScript, 2.5 s, loss 0.0213, roles right 97%",
            "the run was not by WebAssembly",
        ),
        (
            "Done: step 3000 of 3000. 14.1 s, WebAssembly. Held-out loss 2.05; it beats 2.07.",
            "WebAssembly, 2.5 s, Held-out loss 2.05",
            None,
        ),
        (
            "Half a minute is over. Stopped: step 9 of 30. 30.1 s, WebAssembly. Held-out loss 2.16",
            "WebAssembly, 2.5 s, Held-out loss 2.16",
            None,
        ),
        (
            "Run 1, done: Step 400 of 400, loss 0.0213. 1.3 ms per step, WebAssembly.",
            "WebAssembly, 2.5 s, no accuracy",
            "the run measured no accuracy",
        ),
        (
            "Training done: 600 steps in 1.8 s, new numbers right: 100%.",
            "WebAssembly, 2.5 s, numbers right: 100%",
            None,
        ),
        (
            "Training done: 600 steps in 9 s, new numbers right: 100%. This browser has no "
            "WebAssembly for it, so it takes longer.",
            "plain JavaScript, 2.5 s, numbers right: 100%",
            "the run was not by WebAssembly",
        ),
        (
            "State 16, done: step 1000 of 1000, loss 0.64. 1.0 s, WebAssembly.",
            "WebAssembly, 2.5 s, State 16, done: step 1000 of 1000, loss 0.64",
            None,
        ),
        (
            "One vector, state 16, done: step 9 of 9, loss 0.64. Attention, state 16: step 4 of 9, "
            "loss 0.15. 3.0 s, WebAssembly.",
            "WebAssembly, 2.5 s, state 16, done: step 9 of 9, loss 0.64",
            "the run did not end within 60 s",
        ),
        (
            "✗ Run 1: The engine did not load. Try again when you are online.",
            "no path, 2.5 s, no accuracy",
            "the run failed",
        ),
        (
            "Run 1: Step 7 of 400, loss 3.1, roles right 8%. 1.3 ms per step, WebAssembly.",
            "WebAssembly, 2.5 s, loss 3.1, roles right 8%",
            "the run did not end within 60 s",
        ),
    ],
)
def test_outcome_says_how_a_run_went_and_what_is_wrong(status, result, fault):
    said, found = engines.outcome(status, 2.5)
    assert said == result
    assert found == ([] if fault is None else [f"{fault}: {status}"])


def test_each_laboratory_is_waited_for_and_the_page_is_looked_at_after():
    going = ["The engine is being loaded…", "Run 1: Step 3 of 400."]
    engine = StandIn(
        [*going, DONE.format("WebAssembly"), "never asked"],
        [*going, DONE.format(PLAIN), "never asked"],
        look=["13 px wider than the window of 500"],
    )
    results, found = engines.trained(engine, "http://here/a.html")
    assert engine.url == "http://here/a.html"
    assert engine.pressed == [0, 1]
    assert [result.split(",")[0] for result in results] == ["WebAssembly", "plain JavaScript"]
    assert found == [
        f"the run was not by WebAssembly: {DONE.format(PLAIN)}",
        "after training: 13 px wider than the window of 500",
    ]
    assert engine.lines == [["never asked"], ["never asked"]]
    assert set(engine.sizes) == {1300, 500}


def test_a_run_that_does_not_end_is_a_fault(monkeypatch):
    monkeypatch.setattr(engines, "TRAINING", 0.3)
    engine = StandIn(["The engine is being loaded…"])
    results, found = engines.trained(engine, "http://here/a.html")
    assert results[0].startswith("no path")
    assert found == ["the run did not end within 0.3 s: The engine is being loaded…"]


def test_a_laboratory_without_its_button_is_a_fault_at_once():
    engine = StandIn(["never asked"], train="there is no button Train")
    _, found = engines.trained(engine, "http://here/a.html")
    assert found == ["the run failed: ✗ there is no button Train"]


def test_a_page_without_a_laboratory_is_left_alone():
    assert engines.trained(StandIn(look=["a fault"]), "http://here/a.html") == ([], [])


def test_pages_that_do_not_exist_are_refused(monkeypatch, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "05_heads.html").write_text("<head></head>", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["check_engines.py", str(tmp_path), "--pages", "5", "11"])
    with pytest.raises(SystemExit, match="expected how pages begin, such as 05, got 5 11"):
        engines.main()
