"""Cases of lanes."""

from stanchion_conformance.lanes.lanes import TestFairness, TestInsideALane, TestRoundRobin, laned
from stanchion_conformance.lanes.lanes_beside import (
    TestLaneDepths,
    TestLanesAndLimits,
    TestLanesElsewhere,
    TestRangesOfLanes,
)
from stanchion_conformance.lanes.lanes_model import TestLanesAgainstTheReference, TestRoundRobinAgainstTheReference
from stanchion_conformance.lanes.lanes_of_tenants import TestLaneOfATenant, TestLaneSettings, TestResizing

__all__ = [
    "TestFairness",
    "TestInsideALane",
    "TestLaneDepths",
    "TestLaneOfATenant",
    "TestLaneSettings",
    "TestLanesAgainstTheReference",
    "TestLanesAndLimits",
    "TestLanesElsewhere",
    "TestRangesOfLanes",
    "TestResizing",
    "TestRoundRobin",
    "TestRoundRobinAgainstTheReference",
    "laned",
]
