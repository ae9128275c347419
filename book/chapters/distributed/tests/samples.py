"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.distributed.cluster_planner import ClusterPlanner

SAMPLES = {
    "cluster_planner": lambda: ClusterPlanner(64, parameters=213, sharing="FSDP"),
}
