"""The stations of a pipeline and their links, as a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stanchion.core.graph.model import PLAIN, Graph, GraphNode
from stanchion.pipelines.station import Station
from stanchion.stores.rules.limits import limits_in


def graph_of(pipeline: str, stations: Mapping[str, Station], entries: Sequence[str]) -> Graph:
    """Return the graph of a pipeline whose links are checked."""
    return Graph(
        f"Pipeline {pipeline}",
        {name: _node(station) for name, station in stations.items()},
        {name: station.to for name, station in stations.items()},
        entries,
    )


def _node(station: Station) -> GraphNode:
    kind = "spark" if station.frame else PLAIN if station.to else "end"
    return GraphNode(station.station, _note(station), kind, "spark" if station.frame else "")


def _note(station: Station) -> str:
    """Return the special properties of a station."""
    notes = ["Spark"] if station.frame else []
    notes += limits_in(station.limits).semaphores
    if station.max_rate is not None:
        notes.append(f"{station.max_rate:g}/s")
    if not station.to:
        notes.append("end")
    return ", ".join(notes)
