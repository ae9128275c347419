"""The planner's start, and what it leaves for readers without scripts."""

import re

import pytest

from chapters.distributed.cluster_planner import GPUS, LATENCIES, ClusterPlanner
from measure.costs import Link, data_parallel, plan, ring_time
from tests.helpers import unchecked


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"gpus": 3}, "gpus: expected one of 1, 2, 4, .*, 4096, got 3"),
        ({"parameters": 66}, "parameters: expected one of 65, .*, got 66"),
        ({"compute": 0}, "compute: expected one of 100, .*, got 0"),
        ({"bandwidth": 3}, "bandwidth: expected one of 1, .*, got 3"),
        ({"latency": 0}, "latency: expected one of 1, .*, got 0"),
        ({"overlap": 50}, "overlap: expected one of 0, .*, got 50"),
        ({"same_batch": 1}, "same_batch: expected True or False, got 1"),
        ({"fsdp": None}, "fsdp: expected True or False, got None"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        ClusterPlanner(**start)


def test_every_choice_will_do():
    assert [ClusterPlanner(gpus=n).gpus for n in GPUS] == list(GPUS)
    assert [ClusterPlanner(latency=n).latency for n in LATENCIES] == list(LATENCIES)


def test_the_step_is_that_of_the_formulas():
    widget = ClusterPlanner(64, parameters=213, compute=800, latency=5, overlap=33, same_batch=True)
    link = Link(5e-6, 16e9)
    assert widget.step() == plan(0.8, data_parallel(213_000_000), 64, link, overlap=0.33)
    assert widget.step().communication == ring_time("all_reduce", 852e6, 64, link)


def test_static_table_holds_the_plan():
    html = ClusterPlanner(4, parameters=1000, fsdp=True).static_html()
    cells = re.findall(r"<td>([^<]*)</td>", html)
    assert "4 GPUs, FSDP, 1,000 million parameters" in html
    assert cells[:2] == ["4 GB", "9 GB a step"]
    assert cells[-1] == "100%"


def test_summary_says_the_start():
    assert repr(ClusterPlanner(16)) == "ClusterPlanner: 16 GPUs, DDP, 65 million parameters"
