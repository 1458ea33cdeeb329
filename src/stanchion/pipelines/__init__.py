"""Pipelines: queues connected by functions, with items moving on in one atomic step each."""

from stanchion.pipelines.pipeline import Pipeline
from stanchion.pipelines.segments.edges import Edge
from stanchion.pipelines.segments.plan import ExecutionPlan
from stanchion.pipelines.send import Send
from stanchion.pipelines.station import Station
from stanchion.pipelines.status import PipelineStatus, StationStatus

__all__ = ["Edge", "ExecutionPlan", "Pipeline", "PipelineStatus", "Send", "Station", "StationStatus"]
