"""The laboratory of numbers on five seeds: what it learns when, and what it does not learn.

    python benchmarks/number_translator.py [--seeds 0 1 2 3 4]

Each run trains in a page of Chromium with the laboratory's settings, for numbers of up to 4 and
of up to 6 digits, the latter at a higher learning rate too. Every hundred steps: how many held-
out numbers are wholly right, all and by length. After the first hundred: ENDINGS numbers that end
in 11 to 19, and as many that end in 21 to 99 but not in 0. After the last: every whole thousand
that the run may draw, and LONGER numbers with one digit more than any in training, where the
vocabulary has the words: how many answers are right, are the words of some shorter number, and
are the words of the first digits. The answers to the numbers that the chapter names stand there
too. It writes benchmarks/results/number_translator.json.
"""

import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))


from benchmarks.in_chromium import figures_of, grid_in_chromium, seeds_of
from engine.laboratory import TASKS
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

MOST = 6  # digits that a reader may ask for
ENDINGS, LONGER = 200, 200
SETTINGS = {"4": (4, 0.003), "6": (6, 0.003), "6, rate 0.01": (6, 0.01)}  # digits, rate
NAMED = {4: [4217, 4271, 12345], 6: [342217, 70000, 500000]}
EVERY = 100
RUN = """
  const run = await start("numbers", settings, seed);
  const right = (list) => list.filter((n) => run.ask(n).right).length / list.length;
  const say = (list) => Object.fromEntries(list.map((n) => [n, run.ask(n).output.join(" ")]));
  const found = { parameters: run.parameters, curve: [] };
  while (!run.done) {
    const { step } = run.step();
    if (step % every) continue;
    const { accuracy, numbers } = run.probe();
    found.curve.push({ step, accuracy, numbers });
    if (step > every) continue;
    found.endings = { teens: right(teens), others: right(others) };
    found.first = say(named);
  }
  found.last = say(named);
  found.thousands = right(thousands);
  if (longer.length) {
    const words = (n) => tasks.inWords(n).join(" ");
    const shorter = new Set(Array.from({ length: 10 ** settings.longest }, (_, n) => words(n)));
    const said = longer.map((n) => run.ask(n).output.join(" "));
    const part = (fits) => said.filter(fits).length / said.length;
    found.longer = { right: right(longer), some_shorter_number: part((text) => shorter.has(text)),
      first_digits: part((text, i) => text === words(Math.floor(longer[i] / 10))) };
  }
  return found;
"""


def questions(longest: int) -> dict[str, list[int]]:
    """What a run for numbers of up to `longest` digits is asked: the same on each seed."""
    draw = random.Random(longest)
    hundreds = [draw.randrange(1, 10 ** (longest - 2)) for _ in range(ENDINGS)]
    endings = [n for n in range(21, 100) if n % 10]
    over = range(10**longest, 10 ** (longest + 1))
    return {
        "teens": [100 * n + draw.randrange(11, 20) for n in hundreds],
        "others": [100 * n + draw.choice(endings) for n in hundreds],
        "thousands": list(range(1000, 10**longest, 1000)),
        "longer": draw.sample(over, LONGER) if longest < MOST else [],
    }


def rounded(found: Any) -> Any:
    """The same figures with four decimals."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return found if isinstance(found, str) else round(found, 4)


def run(setting: str, seed: int, page: LaboratoryPage) -> dict[str, Any]:
    longest, lr = SETTINGS[setting]
    settings = {**TASKS["numbers"].start, "longest": longest, "lr": lr}
    given = {"settings": settings, "every": EVERY, "named": NAMED[longest]} | questions(longest)
    return rounded(page.run(RUN, seed=seed, **given))


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """For each setting its runs, one for each seed."""
    settings: dict[str, list[Run]] = {}
    for one in runs:
        settings.setdefault(one["setting"], []).append(figures_of(one, "setting"))
    return {"seeds": seeds_of(runs), "browser": browser, "settings": settings}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"setting": SETTINGS, "seed": range(5)}, arguments)
    grid_in_chromium(lambda browser: partial(run, page=LaboratoryPage(browser)), given, record)


if __name__ == "__main__":
    main()
