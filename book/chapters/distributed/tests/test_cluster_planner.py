"""The planner's start, and what it leaves for readers without scripts."""

import re

import pytest

from chapters.distributed.cluster_planner import (
    GPUS,
    LATENCIES,
    SHAPES,
    STAGES,
    THOUSANDS,
    ClusterPlanner,
)
from measure.costs import Link, data_parallel, plan, ring_time, sharded
from tests.helpers import unchecked


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"gpus": 3}, "gpus: expected one of 1, 2, 4, .*, 4096, got 3"),
        ({"parameters": 66}, "parameters: expected one of 65, .*, got 66"),
        ({"thousands": 3}, "thousands: expected one of 1, .*, got 3"),
        ({"speed": 0}, "speed: expected one of 3, .*, got 0"),
        ({"inside": 3}, "inside: expected one of 1, .*, got 3"),
        ({"between": 0}, "between: expected one of 1, .*, got 0"),
        ({"latency": 0}, "latency: expected one of 1, .*, got 0"),
        ({"sharing": "ZeRO 3"}, "sharing: expected one of .*DDP.*, got 'ZeRO 3'"),
        ({"growing": 1}, "growing: expected True or False, got 1"),
        ({"overlap": None}, "overlap: expected True or False, got None"),
        ({"recompute": 1}, "recompute: expected True or False, got 1"),
        ({"mixed": 0}, "mixed: expected True or False, got 0"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        ClusterPlanner(**start)


def test_every_choice_will_do():
    assert [ClusterPlanner(gpus=n).gpus for n in GPUS] == list(GPUS)
    assert [ClusterPlanner(latency=n).latency for n in LATENCIES] == list(LATENCIES)
    assert [ClusterPlanner(thousands=n).thousands for n in THOUSANDS] == list(THOUSANDS)
    assert [ClusterPlanner(sharing=name).sharing for name in STAGES] == list(STAGES)


def test_the_step_is_that_of_the_formulas():
    widget = ClusterPlanner(64, parameters=213, thousands=50, speed=10, inside=400, between=8)
    link = Link(20e-6, 8e9)
    compute = 6 * 213e6 * 50e3 / 10e12
    assert widget.step() == plan(compute, data_parallel(213_000_000), 64, link, overlap=True)
    assert widget.step().communication == ring_time("all_reduce", 852e6, 64, link)
    twice = ClusterPlanner(8, inside=400, between=8, sharing="FSDP", recompute=True, growing=True)
    compute, operations = 8 * 65e6 * 25e3 / 3e12, sharded(65_000_000)
    wanted = plan(
        compute,
        operations,
        8,
        Link(20e-6, 400e9),  # one machine: its own links
        overlap=True,
        backward=3 / 4,
        same_batch=False,
    )
    assert twice.step() == pytest.approx(wanted)


def test_the_work_grows_with_parameters_and_tokens():
    of = [ClusterPlanner(parameters=n).step().compute for n in (65, 7000)]
    assert of[1] / of[0] == pytest.approx(7000 / 65)
    of = [ClusterPlanner(thousands=n).step().compute for n in (25, 100)]
    assert of[1] / of[0] == pytest.approx(4)


def test_a_batch_of_the_paper_feeds_about_65_gpus():
    found = ClusterPlanner(64).numbers()
    assert found["needed"] == pytest.approx(375)  # 2 * 3e12 / 16e9
    assert found["tokens"] == pytest.approx(390.625)
    efficiency = [ClusterPlanner(n).step().efficiency for n in (64, 128, 256)]
    assert efficiency == pytest.approx([0.987, 0.5545, 0.2712], abs=5e-4)


def test_the_shapes_have_about_as_many_parameters_as_they_say():
    """12 d_model^2 for a layer; the paper's models add embeddings and the decoder's second look."""
    for millions, (layers, d_model) in list(SHAPES.items())[2:]:
        assert 12 * layers * d_model**2 == pytest.approx(1e6 * millions, rel=0.1)


def test_static_table_holds_the_plan():
    html = ClusterPlanner(4, parameters=1000, sharing="FSDP").static_html()
    cells = re.findall(r"<td>([^<]*)</td>", html)
    assert "4 GPUs, FSDP, 1,000 million parameters" in html
    assert cells[:5] == ["6,250", "375", "4 GB", "16.4 GB", "9 GB a step"]
    assert cells[-1] == "100%"


def test_summary_says_the_start():
    assert repr(ClusterPlanner(16)) == "ClusterPlanner: 16 GPUs, DDP, 65 million parameters"
