"""Each detector of `make trust` is shown something that it must find."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from jaxtyping import Float, jaxtyped
from torch import Tensor

from lib import masks
from scripts.trust import __main__ as trust
from scripts.trust import commands, faults, fuzz, hostile, loaders, mutants, recipes, watched
from scripts.trust.draw import Draw
from tests.paths import BOOK, ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


# --- watched --------------------------------------------------------------------------------------


def trouble(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    while number == 5:
        pass
    return number * number


def test_a_crash_and_a_hang_are_told_and_the_others_are_done():
    found = {o.number: o for o in watched.each(trouble, range(7), limit=0.3, workers=2)}
    assert {n: o.value for n, o in found.items() if o.how == "done"} == {
        0: 0,
        1: 1,
        2: 4,
        4: 16,
        6: 36,
    }
    assert found[3] == (3, "crash", "SIGSEGV")
    assert found[5] == (5, "hang", "SIGKILL")


# --- fuzz -----------------------------------------------------------------------------------------


def no_key(d: Draw) -> int:
    return {}["missing"]


def silent_nan(d: Draw) -> float:
    return math.nan


def refused(d: Draw) -> None:
    raise ValueError("expected another value")


def empty_message(d: Draw) -> None:
    raise ValueError


def wrong_type(d: Draw) -> int:
    return len(d.other_type() and 3)


def without_end(d: Draw) -> None:
    while True:
        time.sleep(0)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (no_key, "unclear"),
        (empty_message, "unclear"),
        (silent_nan, "not finite"),
        (refused, "refused in others' words"),  # this file is none of the library
        (wrong_type, "wrong type"),
        (lambda d: torch.ones(3), "returned"),
        (lambda d: torch.empty(1 << 60), "too big"),
    ],
)
def test_outcomes_are_told_apart(call, kind):
    assert fuzz.judge_call(call, 1)[0] == kind


def test_what_a_function_takes_against_its_signature_is_found():
    @jaxtyped(typechecker=__import__("beartype").beartype)
    def double(x: Float[Tensor, "three three"]) -> Float[Tensor, "three"]:
        return x[..., 0] * 2

    assert fuzz.judge_call(lambda d: double(torch.ones(3, 3)), 10)[0] == "returned"
    assert fuzz.judge_call(lambda d: double(torch.ones(3, 2)), 10)[0] == "against its signature"


def test_a_hang_is_counted():
    recipe = recipes.Recipe(("masks.causal_mask",), without_end)
    judge = partial(fuzz.judge_recipe, [recipe], 0)
    tally = fuzz.run(judge, lambda number: "hangs", range(1), "library", limit=0.2)
    assert tally.of("hang") == 1
    assert [found["what"] for found in tally.findings.values()] == ["hangs"]


def test_every_public_name_has_a_recipe_and_a_new_one_is_missed(monkeypatch):
    assert recipes.uncovered() == []

    def new_mask() -> None: ...

    new_mask.__module__ = "lib.masks"
    monkeypatch.setattr(masks, "new_mask", new_mask, raising=False)
    assert recipes.uncovered() == ["masks.new_mask: no recipe"]


def test_every_recipe_returns_for_right_arguments():
    for number, recipe in enumerate(recipes.RECIPES):
        judge = partial(fuzz.judge_call, fuzz.calm(recipe.call), must_be_finite=recipe.finite)
        ends = {judge(1000 * number + seed)[0] for seed in range(8)}
        assert "returned" in ends, recipe.covers


def test_the_same_seed_gives_the_same_input():
    one, other = Draw(7), Draw(7)
    assert torch.equal(one.ints(2, 3), other.ints(2, 3))
    assert one.spoiled == other.spoiled


# --- loaders and command line ---------------------------------------------------------------------


def test_a_loader_that_does_not_notice_is_found(tmp_path, monkeypatch):
    (tmp_path / "careless").mkdir()
    (tmp_path / "careless" / "a").write_bytes(bytes(99))

    def careless(folder: Path) -> bytes:
        return (folder / "a").read_bytes()

    def changing(folder: Path) -> None:
        raise loaders.ChangedByARefusal("the model is another one")

    def found(load) -> set[str]:
        loader = loaders.Loader("careless", ("a",), load, exact=True)
        monkeypatch.setattr(loaders, "LOADERS", (loader,))
        monkeypatch.setattr(loaders, "damage_inside", lambda path, rng: "nothing")
        return {loaders.judge_file(tmp_path, 0, number)[0] for number in range(20)}

    assert "unnoticed" in found(careless)
    assert found(changing) == {"changed by a refusal"}


def test_mutated_values_are_other_values():
    kept = {"a": [1, {"b": "[2, 3]"}], "c": torch.ones(2, 3)}
    changed = [loaders.mutate(kept, random.Random(seed)) for seed in range(50)]
    assert sum(repr(one) != repr(kept) for one in changed) > 40
    assert kept["a"] == [1, {"b": "[2, 3]"}]


def test_a_traceback_of_the_command_line_is_found(tmp_path, monkeypatch):
    def broken(told: list[str]) -> int:
        raise KeyError("step")

    monkeypatch.setattr(commands, "main", broken)
    assert commands.judge_main(["--steps", "1"], tmp_path)[0] == "unclear"
    monkeypatch.setattr(commands, "main", lambda told: print("error: expected 2") or 1)
    assert commands.judge_main(["--steps", "1"], tmp_path)[0] == "refused"
    monkeypatch.setattr(commands, "main", lambda told: 1)
    assert commands.judge_main(["--steps", "1"], tmp_path)[0] == "unclear"  # without a word


def test_every_option_is_drawn():
    rng = random.Random(0)
    told = {
        word
        for _ in range(2000)
        for word in commands.some_options(rng, commands.option_names(), ["a"])
    }
    assert {commands.flag(name) for name in commands.option_names()} <= told


# --- faults ---------------------------------------------------------------------------------------


def test_half_written_files_are_found(tmp_path):
    loaders.make_files(tmp_path)
    out = tmp_path / "load_checkpoint"
    shutil.copy(tmp_path / "load_model" / "best.safetensors", out)
    (out / "losses.jsonl").write_text('{"step": 1}\n{"st', encoding="utf-8")
    assert faults.half_written(out) == ""
    for name in ("last.pt", "best.safetensors"):
        content = (out / name).read_bytes()
        (out / name).write_bytes(content[: len(content) // 2])
        assert faults.half_written(out) != ""
        (out / name).write_bytes(content)
    (out / "losses.jsonl").write_text('{"st\n{"step": 2}\n', encoding="utf-8")
    assert "JSON" in faults.half_written(out)


def test_a_mixed_run_is_found(tmp_path, monkeypatch):
    place = faults.Place(tmp_path, [], {0: {"last.pt": "a", "best.safetensors": "b"}})
    monkeypatch.setattr(faults, "state_of", lambda out: {"last.pt": "a", "best.safetensors": "c"})
    assert place.judge(tmp_path) == "best.safetensors"
    assert place.judge(tmp_path, leave="best.safetensors") == ""


@pytest.mark.parametrize(
    ("status", "output", "fine"),
    [
        (1, "error: expected room, got none", True),
        (0, "error: expected room", False),
        (1, "Traceback (most recent call last):\nerror: x", False),
        (-6, "terminate called", False),
    ],
)
def test_a_refusal_is_one_line(status, output, fine):
    assert (faults.one_line(status, output) == "") is fine


# --- hostile --------------------------------------------------------------------------------------


def test_a_text_that_breaks_something_is_found(tmp_path):
    def fragile(text: str, folder: Path, model: object) -> None:
        if "\x00" in text:
            raise KeyError(text)

    tried = hostile.texts(tmp_path, fragile)
    assert tried.total >= 60
    assert {finding["kind"] for finding in tried.findings} == {"unclear"}
    assert 1 <= len(tried.findings) <= 3


@pytest.mark.parametrize(
    ("wrong", "found"),
    [(False, {"as undisturbed": 2}), (True, {"as undisturbed": 1, "unclear": 1})],
)
def test_each_test_of_the_pages_counts(tmp_path, monkeypatch, wrong, found):
    monkeypatch.setattr(hostile, "ROOT", tmp_path)
    place = tmp_path / "_build" / "html"
    place.mkdir(parents=True)
    assert hostile.pages(tmp_path / "none.py").counts == {"left out": 1}
    (place / "index.html").touch()
    path = tmp_path / "test_pages.py"
    path.write_text(f"def test_a():\n    pass\n\ndef test_b():\n    assert not {wrong}\n")
    tried = hostile.pages(path)
    assert tried.counts == found
    assert [finding["text"].split(" in ")[0] for finding in tried.findings] == (
        ["1 failed, 1 passed"] if wrong else []
    )


# --- mutants --------------------------------------------------------------------------------------

SOURCE = '''"""A module."""


def clip(x: int, most: int = 3) -> int:
    """At most so much."""
    if x > most and most:
        return most
    return x + 0 * 2
'''


def test_mutants_of_a_file():
    found = {(m.before, m.after) for m in mutants.mutants_of("a.py", SOURCE)}
    assert found == {
        ("3", "4"),
        ("3", "2"),
        ("x > most and most", "(x > most or most)"),
        ("x > most", "(x >= most)"),
        ("return most", "return None"),
        ("return x + 0 * 2", "return None"),
        ("x + 0 * 2", "(x - 0 * 2)"),
        ("0 * 2", "(0 / 2)"),
        ("0", "1"),
        ("2", "3"),
        ("2", "1"),
    }


def test_each_mutant_changes_its_place_alone():
    for mutant in mutants.mutants_of("a.py", SOURCE):
        changed = mutant.apply(SOURCE)
        compile(changed, "a.py", "exec")
        differ = [a != b for a, b in zip(SOURCE.split("\n"), changed.split("\n"), strict=True)]
        assert sum(differ) == 1
    default = next(m for m in mutants.mutants_of("a.py", SOURCE) if m.before == "3")
    assert default.head == (5, 8)  # it shows when the body runs


def test_the_same_seed_gives_the_same_mutants():
    assert mutants.sample(20, 3) == mutants.sample(20, 3) != mutants.sample(20, 4)


def test_equivalent_mutants_have_reasons_and_stand_in_the_library():
    places = {
        json.dumps(m.key)
        for path in sorted((BOOK / "lib").glob("*.py"))
        for m in mutants.mutants_of(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    }
    for entry in mutants.known_equivalent():
        assert len(entry["reason"]) > 10
        key = {name: entry[name] for name in ("file", "where", "text", "before", "after")}
        assert json.dumps(key) in places, f"no such mutant: {key}"


JUDGE = """
import json, sys
from scripts.trust import mutants
file = "book/lib/masks.py"
source = (mutants.ROOT / file).read_text(encoding="utf-8")
every = mutants.mutants_of(file, source)
killed = [m for m in every if m.before == "distance <= 0"][:1]
unseen = [m for m in every if m.before == "radius < 0"][:1]
report = mutants.run(killed + unseen, sys.argv[1], equivalent=[])
same = mutants.run(unseen, sys.argv[1], equivalent=[unseen[0].key])
print(json.dumps([report.killed, [h["text"][:12] for h in report.holes], same.equivalent]))
"""


@pytest.mark.slow
def test_a_mutant_is_killed_and_another_survives(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_masks.py").write_text(
        "from lib.masks import causal_mask, window_mask\n\n\n"
        "def test_causal():\n    assert causal_mask(3).tolist()[0] == [True, False, False]\n\n\n"
        "def test_runs_and_looks_at_nothing():\n    window_mask(3, 1)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{BOOK}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().split("\n")[-1]) == [1, ["if radius < "], 1]


# --- the table ------------------------------------------------------------------------------------


def test_a_constant_is_judged_by_the_tests_of_its_file():
    """They read it and run no line of the file: only its import does."""
    file = "book/tasks/translation.py"
    text = (mutants.ROOT / file).read_text(encoding="utf-8")
    dates = next(m for m in mutants.mutants_of(file, text) if (m.before, m.after) == ("365", "366"))
    reads, runs, other = "tests/lib/test_translation.py::a", "tests/x.py::b", "tests/x.py::c"
    seconds = {reads: 2.0, runs: 1.0, other: 0.5}
    assert mutants.Map({file: {100: [runs]}}, seconds, []).of(dates) == [reads, runs]


def test_table_and_file(tmp_path, monkeypatch):
    rows = [trust.Row("fuzz", "library", 1234, "returned 1,234", 0, 5.4)]
    rows.append(trust.Row("faults", "kills", 50, "mixed 1", 1, 60.0, [{"kind": "mixed"}]))
    assert trust.table(rows).split("\n")[2:] == [
        "| fuzz | library | 1,234 | returned 1,234 | 0 | 5 |",
        "| faults | kills | 50 | mixed 1 | **1** | 60 |",
    ]
    readme, results = tmp_path / "README.md", tmp_path / "trust.json"
    readme.write_text(f"a\n{trust.BEGIN}\nold\n{trust.END}\nb\n", encoding="utf-8")
    monkeypatch.setattr(trust, "README", readme)
    monkeypatch.setattr(trust, "RESULTS", results)
    trust.store(rows, trust.options(["--seed", "3"]))
    text = readme.read_text(encoding="utf-8")
    assert "| faults | kills |" in text
    assert "old" not in text
    assert [one["seed"] for one in json.loads(results.read_text(encoding="utf-8"))] == [3, 3]

    again = trust.Row("faults", "kills", 50, "as undisturbed 50", 0, 50.0)
    trust.store([again], trust.options(["--seed", "4", "--only", "faults"]))
    text = readme.read_text(encoding="utf-8")
    assert "| faults | kills | 50 | as undisturbed 50 | 0 | 50 |" in text
    assert "mixed 1" not in text
    assert "| fuzz | library | 1,234 |" in text
    assert [one["seed"] for one in json.loads(results.read_text(encoding="utf-8"))] == [3, 4]


def test_only_a_part_in_its_full_size_is_kept():
    assert all(trust.full(part, trust.options([])) for part in trust.PARTS)
    assert trust.full("faults", trust.options(["--inputs", "2000"]))
    assert not trust.full("fuzz", trust.options(["--inputs", "2000"]))
    assert not trust.full("faults", trust.options(["--kills", "2"]))
    assert not trust.full("mutants", trust.options(["--mutants", "20"]))


def test_the_readme_has_a_place_for_the_table():
    text = trust.README.read_text(encoding="utf-8")
    assert text.count(trust.BEGIN) == text.count(trust.END) == 1
