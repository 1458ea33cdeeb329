"""Pipelines of stations: queues joined by functions, from which items move on in one atomic step each."""

from stanchion.pipeline.definition import Pipeline
from stanchion.pipeline.send import Send
from stanchion.pipeline.station import Station
from stanchion.pipeline.status import PipelineStatus, StationStatus

__all__ = ["Pipeline", "PipelineStatus", "Send", "Station", "StationStatus"]
