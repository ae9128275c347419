"""The planner of runs: every number that it shows, against measure.costs."""

import itertools
import math

import pytest
from playwright.sync_api import expect

from chapters.distributed.cluster_planner import (
    BANDWIDTHS,
    GPUS,
    LATENCIES,
    PARAMETERS,
    SPEEDS,
    STAGES,
    THOUSANDS,
    ClusterPlanner,
)
from tests.gate import sampled

pytestmark = pytest.mark.browser
SLIDERS = {
    "gpus": GPUS[::2],
    "parameters": PARAMETERS,
    "thousands": THOUSANDS[::5],
    "speed": SPEEDS[::3],
    "inside": BANDWIDTHS[::5],
    "between": BANDWIDTHS[::5],
    "latency": LATENCIES[::3],
    "sharing": tuple(STAGES),
}
FLAGS = ("growing", "overlap", "recompute", "mixed")


@pytest.fixture
def functions(stage):
    return stage.functions(ClusterPlanner())


def states() -> list[dict]:
    """Some of all states, which is every 1,009th (a prime) of them: each value is met."""
    every = itertools.product(*SLIDERS.values(), *[(False, True)] * len(FLAGS))
    chosen = itertools.islice(every, 0, None, 1009)
    return [dict(zip((*SLIDERS, *FLAGS), one, strict=True)) for one in chosen]


def test_the_states_meet_every_value():
    every = states()
    for name, values in SLIDERS.items():
        assert {state[name] for state in every} == {*values}
    assert all({state[flag] for state in every} == {False, True} for flag in FLAGS)


@sampled(2)
def test_the_page_plans_as_the_library_does(functions, stride):
    every = states()[::stride]
    got = functions.evaluate("(every) => every.map((state) => own.plan(state))", every)
    for state, found in zip(every, got, strict=True):
        wanted = ClusterPlanner(**state).numbers()
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            close = math.isclose(found[name], value, rel_tol=1e-9, abs_tol=1e-9)
            assert close, (state, name, found[name], value)


def test_numbers_have_three_digits_and_a_unit(functions):
    step = {
        "tokens": 3125.4,
        "needed": 375.0,
        "held": 1.1236e12,
        "activations": 2.5e9,
        "sent": 4.551e8,
        "compute": 3.2,
        "communication": 0.0432,
        "exposed": 0,
        "total": 2.5e-5,
        "efficiency": 0.999,
    }
    texts = {
        name: text.replace("\u202f", " ")
        for name, text in functions.evaluate("(step) => own.shown(step)", step).items()
    }
    assert texts == {
        "tokens": "3,125",
        "needed": "375",
        "held": "1.12 TB",
        "activations": "2.5 GB",
        "sent": "455 MB",
        "compute": "3.2 s",
        "communication": "43.2 ms",
        "exposed": "0 µs",
        "total": "25 µs",
        "efficiency": "100 %",
    }


def cells(page) -> list[str]:
    return [text.replace("\u202f", " ") for text in page.locator(".cp-table td").all_inner_texts()]


def test_table_follows_the_controls(stage):
    page = stage.show(ClusterPlanner(8))
    assert cells(page)[:6] == ["3,125", "375", "1.04 GB", "1.23 GB", "455 MB", "406 ms"]
    page.get_by_role("slider", name="GPUs").press("ArrowRight")
    assert cells(page)[0] == "1,563"
    assert cells(page)[4:6] == ["488 MB", "203 ms"]
    page.get_by_role("radio", name="FSDP").check()
    assert cells(page)[2] == "65 MB"
    assert cells(page)[4] == "731 MB"
    page.get_by_role("checkbox", name="Each GPU gets this many tokens").check()
    assert cells(page)[5] == "3.25 s"
    page.get_by_role("checkbox", name="Recompute activations").check()
    assert cells(page)[5] == "4.33 s"
    assert cells(page)[3] == "1.43 GB"
    page.get_by_role("checkbox", name="bfloat16").check()
    assert cells(page)[3:5] == ["717 MB", "366 MB"]


def test_a_second_machine_brings_the_link_between_them(stage):
    page = stage.show(ClusterPlanner(8, inside=400, between=16))
    inside = cells(page)[1]
    page.get_by_role("slider", name="GPUs").press("ArrowRight")
    assert (inside, cells(page)[1]) == ("15", "375")
    page.get_by_role("slider", name="Link between machines").press("End")
    assert cells(page)[1] == "15"  # the slower one decides


def test_hidden_and_not(stage):
    page = stage.show(ClusterPlanner(8))
    assert cells(page)[7] == "0 µs"
    page.get_by_role("checkbox", name="Send while computing").uncheck()
    assert cells(page)[7] == cells(page)[6] == "28.7 ms"


def test_curve_shows_the_efficiency_of_every_number(stage):
    page = stage.show(ClusterPlanner(8))
    described = page.locator(".bw-lines desc")
    wanted = [ClusterPlanner(n).step().efficiency for n in (1, 4096)]
    assert wanted[0] == 1 > 0.1 > wanted[1]
    expect(described).to_contain_text("1 GPUs 100\u202f%")
    expect(described).to_contain_text(f"4096 GPUs {round(100 * wanted[1])}\u202f%")
    page.get_by_role("slider", name="Link between machines").press("End")
    faster = ClusterPlanner(512, between=800).step().efficiency  # held back inside the machines
    expect(described).to_contain_text(f" 512 GPUs {round(100 * faster)}\u202f%")
    page.get_by_role("slider", name="Link inside a machine").press("End")
    faster = ClusterPlanner(512, inside=800, between=800).step().efficiency
    expect(described).to_contain_text(f" 512 GPUs {round(100 * faster)}\u202f%")
