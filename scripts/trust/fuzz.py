"""Call everything that is public with random arguments, right and wrong, and judge what comes back.

Fine is a result that is finite and that the signature allows, and an error of the documented kind
with a message: ValueError, a missing file or package, FloatingPointError of a training run,
AssertionError of `assert_same`; for two tensors whose sizes do not fit each other also torch's own,
which names both sizes. A value of another Python type, or a tensor of another type of
numbers, may also end in Python's or torch's own error; these are counted apart. What is too big
for the machine's memory may end in torch's error. All else is unclear.
"""

import argparse
import linecache
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import config
from torch import Tensor

from scripts.trust import watched
from scripts.trust.draw import Draw
from scripts.trust.recipes import RECIPES, Recipe, uncovered
from tasks import translation

ROOT = Path(__file__).resolve().parents[2]
BOOK = str(ROOT / "book")
DOCUMENTED = (ValueError, FileNotFoundError, ModuleNotFoundError, FloatingPointError)
TOO_BIG = (
    "allocate memory",
    "not enough memory",
    "Storage size calculation overflowed",
    "Overflow when unpacking long",
    "index-sized integer",
    "int too big to convert",
    "too large to convert to C",
    "without overflow",
    "as a SymInt",
    "can't convert negative int to unsigned",  # a number below -2^63, in torch's words
)
MISFITS = (  # sizes of two tensors, in torch's words: `lib` promises no others for them
    "must match the size of tensor b",
    "shapes cannot be multiplied",
)
OF_TYPES = (
    "must be long",
    "dtype",
    "scalar type",
    "not implemented for",
    "type",
)  # torch, of types of numbers
FINE = ("returned", "refused", "refused in others' words", "wrong type", "too big")
LIMIT = 5.0  # seconds of the processor
MEMORY = 3 << 30


def judge_error(error: BaseException, *, wrong_type: bool = False) -> tuple[str, str]:
    """What kind of end this error is, and where it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(BOOK)]
    place = f"{Path(ours[-1].filename).relative_to(ROOT)}: {ours[-1].line}" if ours else "outside"
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    if isinstance(error, MemoryError) or any(words in str(error) for words in TOO_BIG):
        return "too big", text
    documented = isinstance(error, DOCUMENTED) or (
        isinstance(error, AssertionError) and "notebook.py" in place
    )
    if documented and str(error).strip():
        line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
        own = frames[-1].filename.startswith(BOOK) and line.startswith("raise ")
        return ("refused" if own else "refused in others' words"), f"{place} -> {text}"
    if isinstance(error, RuntimeError | TypeError) and any(w in str(error) for w in MISFITS):
        return "refused in others' words", f"{place} -> {text}"
    if wrong_type and _of_python(error):
        return "wrong type", f"{place} -> {text}"
    return "unclear", f"{place} -> {text}"


def _of_python(error: BaseException) -> bool:
    """Python's own complaint of a type, or torch's of a type of numbers."""
    if isinstance(error, TypeError | AttributeError | NotImplementedError):
        return True
    return isinstance(error, RuntimeError | IndexError) and any(w in str(error) for w in OF_TYPES)


def finite(value: Any) -> bool:
    """Whether every number in a result is finite."""
    if isinstance(value, Tensor):
        return bool(value.isfinite().all())
    if isinstance(value, float):
        return abs(value) < float("inf")
    if isinstance(value, Mapping):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return True


def judge_call(call: Callable[[Draw], Any], seed: int, *, must_be_finite: bool = True) -> list[str]:
    """Run one recipe: what became of it, where, and what was spoiled.

    A call that returned is made a second time with the signatures' shapes checked: what it got or
    gave against them is "against its signature".
    """
    torch.manual_seed(seed)
    draw = Draw(seed)
    config.update("jaxtyping_disable", True)
    try:
        value = call(draw)
    except BaseException as error:  # a package in Rust panics with one of its own
        return [*judge_error(error, wrong_type=draw.wrong_type), ", ".join(draw.spoiled)[:200]]
    spoiled = ", ".join(draw.spoiled)[:200]
    if must_be_finite and not draw.odd and not draw.wrong_type and not finite(value):
        return ["not finite", "", spoiled]
    if not draw.wrong_type and (draw.spoiled or seed % 10 == 0):
        config.update("jaxtyping_disable", False)
        torch.manual_seed(seed)
        try:
            call(Draw(seed))
        except Exception as error:
            first = " ".join(str(error).split())[:300]
            return ["against its signature", f"{type(error).__name__}: {first}", spoiled]
        finally:
            config.update("jaxtyping_disable", True)
    return ["returned", "", spoiled]


def calm(call: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    """The call with right arguments alone."""

    def right(draw: Draw) -> Any:
        draw.spoil = 0.0
        return call(draw)

    return right


def judge_recipe(recipes: list[Recipe], seed: int, number: int) -> list[str]:
    """The call with this number: the recipes take turns."""
    recipe = recipes[number % len(recipes)]
    one = (seed << 32) + number
    return judge_call(recipe.call, one, must_be_finite=recipe.finite)


class Tally:
    """Counts of outcomes, and for each different finding the first input that shows it."""

    def __init__(self, name: str):
        self.name = name
        self.counts: Counter[str] = Counter()
        self.findings: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, number: int, what: str, kind: str, text: str, spoiled: str) -> None:
        self.counts[kind] += 1
        if kind in FINE:
            return
        key = (kind, what, text.split(" (")[0][:90] if kind != "hang" else "")
        found = self.findings.setdefault(key, {"input": number, "times": 0})
        found |= {"times": found["times"] + 1, "kind": kind, "what": what, "text": text}
        found.setdefault("spoiled", spoiled)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def of(self, *kinds: str) -> int:
        return sum(self.counts[kind] for kind in kinds)


def run(
    judge: Callable[[int], list[str]],
    name_of: Callable[[int], str],
    numbers: Iterable[int],
    name: str,
    *,
    limit: float = LIMIT,
    chunk: int = watched.CHUNK,
) -> Tally:
    """Judge every number in watched children."""
    tally = Tally(name)
    outcomes = watched.each(judge, numbers, limit=limit, memory=MEMORY, chunk=chunk)
    for outcome in outcomes:
        kind, text, spoiled = (
            outcome.value if outcome.how == "done" else (outcome.how, str(outcome.value), "")
        )
        tally.add(outcome.number, name_of(outcome.number), kind, text, spoiled)
    return tally


def library(inputs: int, seed: int) -> Tally:
    """Fuzz every public name of the library."""
    if missing := uncovered():
        raise ValueError("expected a recipe for each public name, got:\n" + "\n".join(missing))

    for locale in ("fr", "de"):  # what is made once is made before the children fork
        translation.translation_pairs(1, 1, locale=locale)
    for number in range(2 * len(RECIPES)):
        judge_recipe([replace(one, call=calm(one.call)) for one in RECIPES], 0, number)

    def name_of(number: int) -> str:
        return RECIPES[number % len(RECIPES)].covers[0]

    return run(partial(judge_recipe, RECIPES, seed), name_of, range(inputs), "library")


def main() -> None:
    """Try one input again: python -m scripts.trust.fuzz --seed 0 --input 17 shows its traceback."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=int, required=True)
    o = parser.parse_args()
    recipe = RECIPES[o.input % len(RECIPES)]
    one = (o.seed << 32) + o.input
    print(recipe.covers, judge_call(recipe.call, one, must_be_finite=recipe.finite))
    torch.manual_seed(one)
    draw = Draw(one)
    try:
        print(recipe.call(draw))
    finally:
        print("spoiled:", draw.spoiled)


if __name__ == "__main__":
    main()
