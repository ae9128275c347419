"""Change the library at random places, one at a time, and see whether its tests notice.

    make mutants                                      100 mutants, drawn anew each time
    make mutants SEED=7 ARGS="--number 300"           those of a former run, or more of them
    make mutants ARGS="lib.masks.x_causal_mask*"      these, by mutmut's names

mutmut makes the mutants and runs the tests that reach each one. It takes a module's name from the
path below the folder in which it runs, so it gets a copy of the book with `lib` at the top. It
changes no message of an error. `equivalent_mutants.json` lists changes that no test could see, each
with the reason: these are not counted. The status is 0 if at least 97 % of the others died.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parents[1]
COPY = ROOT / "_build" / "mutants"
MUTMUT = str(Path(sys.executable).with_name("mutmut"))
DEAD = ("killed", "timeout", "segfault")
LEAST_KILLED = 0.97
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")


def lay_out() -> None:
    """Copy what the tests of the library need, with `lib` beside `book` and not in it."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    unwanted = shutil.ignore_patterns("__pycache__", "_reader")
    for name in ("book", "tests", "scripts"):
        shutil.copytree(ROOT / name, COPY / name, ignore=unwanted)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, COPY)
    (COPY / "book" / "lib").rename(COPY / "lib")


def every_mutant() -> list[str]:
    """The names of all mutants of the library."""
    found = []
    for path in sorted(Path("lib").rglob("*.py")):
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        found += [get_mutant_name(path, name) for name in mutated.mutant_names]
    return found


def change(diff: str) -> tuple[str, str]:
    """What a mutant takes away and what it puts there: the lines of its diff, each side as one."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return before, after


def is_equivalent(name: str, diff: str, known: list[dict[str, str]]) -> bool:
    """Whether the list has this change of this function."""
    where = name.rpartition("__mutmut_")[0]
    return any(
        (one["where"], one["before"], one["after"]) == (where, *change(diff)) for one in known
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="of mutants; a sample of all, if none is given")
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    o = parser.parse_args()
    lay_out()
    os.chdir(COPY)
    chosen = o.names or random.Random(o.seed).sample(every_mutant(), o.number)
    subprocess.run([MUTMUT, "run", "--max-children", str(o.workers), *chosen], check=True)
    ends: dict[str, str] = {}
    for meta in Path("mutants/lib").rglob("*.meta"):
        codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        ends |= {name: status_by_exit_code[code] for name, code in codes.items()}
    judged = {name: end for name, end in ends.items() if end != "not checked"}
    known = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    equivalent = holes = 0
    for name in (name for name, end in judged.items() if end not in DEAD):
        show = subprocess.run([MUTMUT, "show", name], check=True, capture_output=True, text=True)
        if is_equivalent(name, show.stdout, known):
            equivalent += 1
        else:
            holes += 1
            print(f"{name}: {judged[name]}\n{show.stdout}")
    counted = len(judged) - equivalent
    share = 1 - holes / counted
    print(f"{counted - holes} of {counted} mutants died: {share:.1%}, {equivalent} equivalent ones")
    return int(share < LEAST_KILLED)


if __name__ == "__main__":
    sys.exit(main())
