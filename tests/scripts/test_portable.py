"""What `make portable` plans, understands and shows. Nothing is run here but small stand-ins."""

import subprocess

import pytest

from scripts import portable
from scripts.portable import Configuration, Result, counts, find_python, offered, plan


@pytest.mark.parametrize(
    ("native", "names"),
    [
        ("DEFAULT", ["default"]),
        ("AVX2", ["default", "avx2"]),
        ("AVX512", ["default", "avx2", "avx512"]),
        ("SVE256", ["default"]),  # not x86
    ],
)
def test_a_processor_is_asked_for_no_more_than_it_has(native, names):
    assert offered(native) == names


def test_plan_crosses_capability_and_threads_on_one_python_alone():
    runs = plan("3.11", ["3.12", "3.13"], ["default", "avx2"], full=True)
    assert [run.name for run in runs] == [
        "3.11 default, 1 thread",
        "3.11 default, 2 threads",
        "3.11 avx2, 1 thread",
        "3.11 avx2, 2 threads",
        "3.12 as it is, 1 thread",
        "3.13 as it is, 1 thread",
    ]
    assert [run.venv for run in runs] == [".venv"] * 4 + [".venv-3.12", ".venv-3.13"]


def test_a_short_plan_takes_each_capability_each_python_and_each_thread_count():
    runs = plan("3.11", ["3.12", "3.13"], ["default", "avx2", "avx512"])
    assert [run.name for run in runs] == [
        "3.11 default, 1 thread",
        "3.11 avx2, 2 threads",
        "3.11 avx512, 1 thread",
        "3.12 as it is, 2 threads",
        "3.13 as it is, 1 thread",
    ]


def test_a_capability_is_set_for_every_library_that_multiplies():
    default, avx512, plain = (
        Configuration("3.11", ".venv", name, 1).environment()
        for name in ("default", "avx512", None)
    )
    assert default == {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    }
    assert avx512 == {"ATEN_CPU_CAPABILITY": "avx512"}
    assert plain == {}


@pytest.mark.parametrize(
    ("pythons", "words", "names"),
    [
        ([], ["avx2"], ["3.11 avx2, 1 thread", "3.11 avx2, 2 threads"]),
        ([], ["avx2", "2 threads"], ["3.11 avx2, 2 threads"]),
        (["3.12"], [], ["3.12 as it is, 1 thread"]),
        (["3.12"], ["avx2"], []),
    ],
)
def test_a_part_can_be_chosen(pythons, words, names):
    runs = plan("3.11", ["3.12"], ["default", "avx2"], full=True)
    assert [run.name for run in portable.chosen(runs, pythons, words)] == names


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("....\n==== 1052 passed, 3 skipped in 95.31s (0:01:35) ====\n", (1052, 0)),
        ("= 2 failed, 10 passed, 1 warning, 1 error in 3.2s =\nmake: *** [unit] Error 1", (10, 3)),
        ("= 4 passed, 2 errors in 1.00s =", (4, 2)),
        ("12 passed in 0.20s", (12, 0)),
        ("= 1 failed in 2s =\n= 5 passed in 2s =", (5, 0)),  # the last run counts
        ("ImportError: no torch\nmake: *** [unit] Error 4", (0, 0)),
        ("I saw 3 failed attempts in 2 places", (0, 0)),
    ],
)
def test_the_last_line_of_pytest_is_read(output, wanted):
    assert counts(output) == wanted


FIRST, SECOND = plan("3.11", ["3.12"], ["avx2"], full=True)[1:]


def test_table_has_a_line_for_each_configuration():
    results = {
        FIRST: {"unit": Result(100, 0, 0, 60.4), "notebooks": Result(48, 2, 1, 30.2)},
        SECOND: {"unit": Result(0, 0, 2, 0.6)},
    }
    assert portable.table(results).splitlines() == [
        "configuration            unit tests  notebook cells  seconds",
        "-" * 60,
        "3.11 avx2, 2 threads     100 / 0     48 / 2 FAILED        91",
        "3.12 as it is, 1 thread  STOPPED     not run               1",
    ]


def test_a_status_counts_even_where_no_test_is_named_as_failed():
    assert Result(5, 0, 0, 1.0).ok
    assert not Result(5, 0, 1, 1.0).ok  # an internal error, a worker that died
    assert not Result(0, 0, 0, 1.0).ok  # nothing ran
    assert portable.cell(Result(5, 0, 1, 1.0)) == "5 / 0 FAILED"


def test_a_failure_stops_nothing(capsys):
    def fails_once(run, suite):
        bad = (run, suite) == (FIRST, "unit")
        return Result(3, int(bad), int(bad), 1.0)

    results = portable.carry_out([FIRST, SECOND], portable.SUITES, fails_once)
    assert [[suites[s].ok for s in portable.SUITES] for suites in results.values()] == [
        [False, True],
        [True, True],
    ]
    assert "3.11 avx2, 2 threads, unit: 3 / 1 FAILED" in capsys.readouterr().out


def test_suite_is_run_by_make_with_its_settings_and_logged(monkeypatch, tmp_path):
    def make(command, *, cwd, env, stdout, stderr):
        stdout.write("== 6 passed, 1 failed in 0.5s ==")
        seen.append((command, {name: env.get(name) for name in FIRST.environment()}))
        return subprocess.CompletedProcess(command, 2)

    seen = []
    monkeypatch.setattr(portable, "log_of", lambda run, suite: tmp_path / "new" / f"{suite}.log")
    monkeypatch.setattr(portable.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(portable.subprocess, "run", make)
    result = portable.run_suite(FIRST, "unit")
    assert result[:3] == (6, 1, 2)
    assert seen == [
        (
            ["make", "unit", "VENV=.venv", "THREADS=2", "WORKERS=2"],
            dict(FIRST.environment()),
        )
    ]
    assert (tmp_path / "new" / "unit.log").read_text() == "== 6 passed, 1 failed in 0.5s =="


def test_every_log_has_its_own_file():
    runs = plan("3.11", ["3.12", "3.13"], ["default", "avx2", "avx512"], full=True)
    logs = {portable.log_of(run, suite) for run in runs for suite in portable.SUITES}
    assert len(logs) == 2 * len(runs)
    assert portable.log_of(FIRST, "unit").name == "3.11-avx2-2-threads.unit.log"


def fake_python(path, printed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{printed}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_is_taken_from_pyenv_where_the_shim_leads_nowhere(monkeypatch, tmp_path):
    shim = fake_python(tmp_path / "shims" / "python3.12", "exit 127")
    monkeypatch.setattr(portable.shutil, "which", lambda name: shim)
    versions = tmp_path / ".pyenv" / "versions"
    fake_python(versions / "3.12.9" / "bin" / "python3.12", "echo 3.12")
    newest = fake_python(versions / "3.12.10" / "bin" / "python3.12", "echo 3.12")
    assert find_python("3.12", tmp_path) == newest
    assert find_python("3.13", tmp_path) is None


def test_missing_pythons_are_named(monkeypatch):
    monkeypatch.setattr(portable, "find_python", {"3.12": "python3.12"}.get)
    monkeypatch.setattr(portable, "set_up", lambda version, python: False)
    assert portable.prepared(["3.12", "3.13"], make=False) == (
        ["3.12"],
        ["no Python 3.13 on the PATH or in ~/.pyenv/versions: left out"],
    )
    ready, missing = portable.prepared(["3.12"], make=True)
    assert ready == []
    assert missing == ["could not make .venv-3.12 with python3.12: left out"]


def test_main_says_what_is_left_out_and_fails_with_a_failure(monkeypatch, capsys):
    answers = {portable.ASK_VERSION: "3.11", portable.ASK_CAPABILITY: "AVX2"}
    monkeypatch.setattr(portable, "ask", lambda python, code: answers[code])
    monkeypatch.setattr(portable, "find_python", lambda version: None)
    assert portable.main(["--list", "--full", "--only", "2 threads"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "3.11 default, 2 threads",
        "3.11 avx2, 2 threads",
        "this processor has no avx512: left out",
    ]
    monkeypatch.setattr(
        portable, "run_suite", lambda run, suite: Result(1, int(suite == "unit"), 0, 1.0)
    )
    assert portable.main(["--only", "avx2", "--suite", "notebooks"]) == 0
    assert portable.main(["--only", "avx2"]) == 1
    assert portable.main(["--python", "3.14"]) == 1
    assert "expected --python out of 3.11, 3.12, 3.13, got 3.14" in capsys.readouterr().err
