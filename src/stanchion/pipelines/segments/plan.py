"""The execution plan of a pipeline: where its items are stored, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stanchion.pipelines.segments.edges import Edge, segments_of
from stanchion.stores.fields.queues import restraints
from stanchion.stores.records.queues import QueueSettings


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Where the items of a pipeline are stored, by its code and the settings of its queues now.

    `segments`: stations that run as one, by their first; a station that several segments lead to is in each of them.
    `tables`: from stations to the tables where their items become rows.
    """

    pipeline: str
    edges: tuple[Edge, ...]
    segments: tuple[tuple[str, ...], ...]
    tables: tuple[Edge, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "pipeline": self.pipeline,
            "edges": [
                {
                    "from": edge.source,
                    "to": edge.target,
                    "stored": edge.stored,
                    "reasons": edge.reasons,
                    "keeps_arrival": edge.keeps_arrival,
                }
                for edge in self.edges
            ],
            "segments": self.segments,
            "tables": [{"from": one.source, "to": one.target, "reasons": one.reasons} for one in self.tables],
        }


def execution_plan(
    pipeline: str, edges: Iterable[Edge], settings: Mapping[str, QueueSettings], tables: Iterable[Edge] = ()
) -> ExecutionPlan:
    """Return the plan of a pipeline. `edges`: by its code; `settings`: those in force, by station."""
    found = tuple(edge if edge.source is None else _in_force(edge, edge.source, settings) for edge in edges)
    return ExecutionPlan(pipeline, found, tuple(segments_of(found).values()), tuple(tables))


def _in_force(edge: Edge, source: str, settings: Mapping[str, QueueSettings]) -> Edge:
    """Return an edge, stored also for settings that others have changed since the code declared its own."""

    def reasons(station: str, *held: bool) -> Iterator[str]:
        if station in settings:
            yield from (f"{station} {why}" for each in held for why in restraints(settings[station], held=each))

    found = (*edge.reasons, *reasons(edge.target, True, False), *reasons(source, True))
    return edge._replace(reasons=tuple(dict.fromkeys(found)))
