"""Pipelines of stations: queues joined by functions, from which items move on in one atomic step each."""

from stanchion.pipelines.pipeline import Pipeline
from stanchion.pipelines.send import Send
from stanchion.pipelines.station import Station
from stanchion.pipelines.status import PipelineStatus, StationStatus

__all__ = ["Pipeline", "PipelineStatus", "Send", "Station", "StationStatus"]
