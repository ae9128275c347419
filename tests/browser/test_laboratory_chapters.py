"""What chapters 6 to 8 tell readers that a run shows on its way, beside the recorded results."""

from collections.abc import Iterator

import pytest

from tests.browser.laboratory_page import LaboratoryPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]
# After each of the given steps: the accuracy, and of each map of layer 1 the mean weight, in some
# rows, of the keys from one offset to another (0 is the position itself, -1 the next one).
RUN = """const run = await start(task, settings);
  const found = {};
  for (const last of steps) {
    while (run.step().step < last);
    const { accuracy, maps } = run.probe();
    const { heads, queries, data } = maps[0];
    const weight = (head, from, end, [near, far]) => {
      let sum = 0;
      for (let i = from; i < end; i += 1) {
        for (let offset = near; offset <= Math.min(far, i); offset += 1) {
          sum += data[(head * queries + i) * queries + i - offset];
        }
      }
      return sum / (end - from);
    };
    found[last] = { accuracy, weights: rows.map(([from, end]) =>
      Array.from({ length: heads }, (_, head) => weight(head, from, end, offsets))) };
  }
  return found;"""
FUTURE = {"causal": False, "n_layers": 2, "n_heads": 4, "d_model": 32, "lr": 0.01}
DEPTH = {"norm": "post", "n_layers": 6, "warmup": 0, "n_heads": 4, "d_model": 32, "lr": 0.01}
LONGER = {"positions": "alibi", "n_layers": 1, "n_heads": 4, "d_model": 64, "lr": 0.01}


@pytest.fixture(scope="module")
def page(browser) -> Iterator[LaboratoryPage]:
    page = LaboratoryPage(browser)
    yield page
    page.page.close()


def test_without_its_mask_a_model_forgets_how_to_write_once_it_finds_the_next_position(page):
    found = page.run(
        RUN, task="future", settings=FUTURE, steps=[50, 100, 400], rows=[[0, 23]], offsets=[-1, -1]
    )
    early, middle, late = (found[step] for step in ("50", "100", "400"))
    assert 0.25 < early["accuracy"] <= 0.5
    assert max(middle["accuracy"], late["accuracy"]) < 0.1
    assert max(early["weights"][0]) < 0.2
    assert sum(weight > 0.5 for weight in late["weights"][0]) >= 2


@pytest.mark.parametrize(
    ("changes", "low", "high"),
    [
        ({"warmup": 30}, 0.98, 1),
        ({"n_layers": 12, "lr": 0.003}, 0, 0.34),
        ({"n_layers": 12, "lr": 0.003, "warmup": 100}, 0.85, 0.95),
        ({"norm": "pre", "lr": 0.003}, 0.98, 1),
        ({"norm": "pre", "lr": 0.03}, 0.65, 0.75),
        ({"norm": "pre", "lr": 0.1}, 0, 0.34),
    ],
)
def test_where_a_stack_breaks(page, changes, low, high):
    found = page.run(
        RUN, task="depth", settings=DEPTH | changes, steps=[300], rows=[], offsets=[0, 0]
    )
    assert low <= found["300"]["accuracy"] <= high


def test_sinusoids_get_worse_beyond_the_trained_positions_and_lose_the_letters_before(page):
    given = {"task": "longer", "steps": [20, 400], "rows": [[16, 32], [32, 48]], "offsets": [0, 4]}
    found = page.run(RUN, settings=LONGER | {"positions": "sinusoidal"}, **given)
    assert found["20"]["accuracy"] > 0.38
    assert found["400"]["accuracy"] < 0.35
    trained, beyond = found["400"]["weights"]
    assert min(trained) > 0.75
    assert max(beyond) < 0.35
    trained, beyond = page.run(RUN, settings=LONGER, **given)["400"]["weights"]
    assert beyond == pytest.approx(trained, abs=0.12)
