"""When a laboratory's run has ended, as `make engines` reads its status line."""

import pytest

from scripts.check_engines import has_ended, outcome

TRAINS = "Training: step 50 of 3000. WebAssembly."
PAUSED = "Half a minute is over. Stopped: step 1417 of 3000. WebAssembly. Held-out loss 2.13"
DONE = "Run 1, done: Step 400 of 400, loss 0.01, both neighbours right 100%. WebAssembly."
SECOND = "State 16, done: step 9 of 9, loss 0.1. State 32: step 3 of 9. WebAssembly."


@pytest.mark.parametrize(
    ("status", "ended"), [(TRAINS, False), (PAUSED, True), (DONE, True), (SECOND, False)]
)
def test_a_run_has_ended_where_nothing_trains(status, ended):
    assert has_ended(status) == ended
    faults = outcome(status, 1.0)[1]
    assert (faults == []) == ended
