"""The planner of runs: every number that it shows, against measure.costs."""

import itertools
import math

import pytest
from playwright.sync_api import expect

from chapters.distributed.cluster_planner import (
    BANDWIDTHS,
    COMPUTE,
    GPUS,
    LATENCIES,
    OVERLAPS,
    PARAMETERS,
    STATE_BYTES,
    ClusterPlanner,
)
from measure.costs import bytes_of_step
from tests.gate import sampled

pytestmark = pytest.mark.browser
NAMES = ["gpus", "parameters", "compute", "bandwidth", "latency", "overlap", "same_batch", "fsdp"]


@pytest.fixture
def functions(stage):
    return stage.functions(ClusterPlanner())


def states() -> list[dict]:
    flags = (False, True)
    every = itertools.product(
        GPUS, PARAMETERS, COMPUTE[::5], BANDWIDTHS[::4], LATENCIES[::3], OVERLAPS, flags, flags
    )
    return [dict(zip(NAMES, one, strict=True)) for one in every][::7]


@sampled(20)
def test_the_page_plans_as_the_library_does(functions, stride):
    every = states()[::stride]
    got = functions.evaluate("(every) => every.map((state) => own.plan(state))", every)
    for state, found in zip(every, got, strict=True):
        widget = ClusterPlanner(**state)
        step = widget.step()
        wanted = step._asdict() | {
            "sent": bytes_of_step(widget.operations(), widget.gpus),
            "held": STATE_BYTES * 1e6 * widget.parameters / (widget.gpus if widget.fsdp else 1),
        }
        del wanted["n"]
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            close = math.isclose(found[name], value, rel_tol=1e-9, abs_tol=1e-12)
            assert close, (state, name, found[name], value)


def test_numbers_have_three_digits_and_a_unit(functions):
    step = {
        "held": 1.1236e12,
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
        "held": "1.12 TB",
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
    page = stage.show(ClusterPlanner(8, same_batch=True))
    assert cells(page)[:3] == ["1.04 GB", "455 MB", "400 ms"]
    page.get_by_role("slider", name="GPUs").press("ArrowRight")
    assert cells(page)[1:3] == ["488 MB", "200 ms"]
    page.get_by_role("checkbox", name="FSDP").check()
    assert cells(page)[:2] == ["65 MB", "731 MB"]
    page.get_by_role("checkbox", name="All GPUs divide one batch").uncheck()
    assert cells(page)[2] == "3.2 s"


def test_curve_shows_the_efficiency_of_every_number(stage):
    page = stage.show(ClusterPlanner(8, same_batch=True))
    described = page.locator(".bw-lines desc")
    wanted = [ClusterPlanner(n, same_batch=True).step().efficiency for n in (1, 4096)]
    assert wanted[0] == 1 > 0.1 > wanted[1]
    expect(described).to_contain_text("1 GPUs 100\u202f%")
    expect(described).to_contain_text(f"4096 GPUs {round(100 * wanted[1])}\u202f%")
    page.get_by_role("slider", name="Bandwidth").press("End")
    faster = ClusterPlanner(512, same_batch=True, bandwidth=512).step().efficiency
    expect(described).to_contain_text(f" 512 GPUs {round(100 * faster)}\u202f%")
