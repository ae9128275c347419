"""What the workflows may do: code of strangers gets no machine of ours, no secret, no rights."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.paths import ROOT

TEXTS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]
HOSTED = re.compile(r"(ubuntu|macos|windows)-[\w.-]+")


def triggers(name: str) -> set[str]:
    return set(WORKFLOWS[name][True])  # YAML reads the key `on` as a truth value


def machines(job: dict) -> set[str]:
    """The labels that a job runs on; those of its matrix, where it names them there."""
    label = job["runs-on"]
    if label != "${{ matrix.machine }}":
        return {label}
    matrix = job["strategy"]["matrix"]
    return {*matrix["machine"], *(one["machine"] for one in matrix["include"])}


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_machine_of_ours_runs_main_alone(name, job):
    found = WORKFLOWS[name]["jobs"][job]
    if all(HOSTED.fullmatch(label) for label in machines(found)):
        return
    assert triggers(name) <= {"workflow_dispatch", "schedule"}
    assert "github.ref == 'refs/heads/main'" in found["if"]
    assert "||" not in found["if"]


def test_there_is_a_job_on_a_machine_of_ours():
    (found,) = [
        name
        for name, job in JOBS
        if not all(map(HOSTED.fullmatch, machines(WORKFLOWS[name]["jobs"][job])))
    ]
    assert found == "gpu"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_pull_request_reads_and_no_more(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    assert not triggers(name) & {"pull_request_target", "workflow_run", "issue_comment"}
    if "pull_request" in triggers(name):
        assert "secrets." not in TEXTS[name]
        assert "github.token" not in TEXTS[name]
        assert not any("permissions" in job for job in WORKFLOWS[name]["jobs"].values())


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_that_may_write_runs_no_installed_package(name, job):
    """Its own `make` would run what the locks bring; `make reader` writes what it pushes."""
    found = WORKFLOWS[name]["jobs"][job]
    assert found["timeout-minutes"] <= 180
    if "write" in found.get("permissions", {}).values():
        commands = " ".join(step.get("run", "") for step in found["steps"])
        assert set(re.findall(r"\bmake [\w-]+", commands)) <= {"make reader"}
        assert not re.search(r"\b(pip|python)\b", commands)


def test_the_matrix_has_every_python_and_arm():
    unit = WORKFLOWS["ci"]["jobs"]["unit"]
    assert unit["strategy"]["matrix"]["python-version"] == ["3.11", "3.12", "3.13"]
    assert {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15"} <= machines(unit)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_the_weekly_run_looks_up_every_lock():
    said = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "audit"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    *_, command = said.strip().splitlines()
    assert "pip-audit --strict " in command, "without it a package that is not found passes"
    locks = {path.stem for path in (ROOT / "requirements" / "locks").glob("*.txt")}
    assert {*re.findall(r" -r requirements/locks/(\w+)\.txt", command), "cpu"} == locks
    steps = WORKFLOWS["weekly"]["jobs"]["audit"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make audit"]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(("target", "slow"), [("test", False), ("test-all", True)])
def test_only_the_nightly_run_takes_slow_tests(target, slow):
    said = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    chosen = re.findall(r'pytest [^"]*(?:"\*[^"]*")?[^"]*-m "([^"]*)"', said.replace("\\\n", ""))
    assert [part.strip() for part in chosen] == [
        "not colab" if slow else "not colab and not slow"
    ] * 2, said
    runs = [name for name, _ in JOBS if f"make {target}\n" in TEXTS[name]]
    assert ("nightly" in runs) is slow
