"""The stations of a pipeline and the links between them, checked before the first item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import get_args

from stanchion.core.checks import brief, checked_name
from stanchion.errors import InvalidInput
from stanchion.pipelines.options import StationOptions, Stored
from stanchion.pipelines.segments.edges import Edge, edges_of
from stanchion.pipelines.tables.table import how_written

DEAD = "dead"
"""The name of the dead-letter queue, in place of a station's."""


class Topology:
    """The declared stations of one pipeline, by name."""

    def __init__(self, pipeline: str, *, keep_entry: bool = True, stored: Stored = "needed") -> None:
        if stored not in get_args(Stored):
            raise InvalidInput(
                f"stored of a pipeline must be one of {', '.join(get_args(Stored))}, not {brief(stored)}"
            )
        self.pipeline, self.keep_entry, self.stored = pipeline, keep_entry, stored
        self.stations: dict[str, StationOptions] = {}
        self.dead_letters: dict[str, str | None] = {}
        """The dead-letter queues of the stations, by their queues."""
        self._pushed: set[str] = set()
        """The stations that items were pushed to."""
        self._checked = False

    def add(self, station: str, options: StationOptions) -> None:
        """Add a station, replacing an earlier one of the same name."""
        self.stations[station] = options
        self._changed()

    def pushed(self, station: str) -> None:
        """Record that items are pushed to a station."""
        if station not in self._pushed:
            self._pushed.add(station)
            self._changed()

    def _changed(self) -> None:
        self._checked = False
        for derived in ("followers", "edges", "_in_memory"):
            self.__dict__.pop(derived, None)

    def queue(self, station: str) -> str:
        """Return the name of a station's queue."""
        return f"{self.pipeline}.{station}"

    @property
    def queues(self) -> list[str]:
        """The names of the stations' queues."""
        return [self.queue(station) for station in self.stations]

    def had(self, queue: str) -> bool:
        """Return whether a queue may belong to a station that was removed or renamed."""
        head, dot, station = queue.rpartition(".")
        return bool(dot) and head == self.pipeline and station not in self.stations and station != DEAD

    def queues_after(self, queue: str | None) -> list[str]:
        """Return the queues where items that have passed this one may be (None: any station's)."""
        stations = [name for name in self.stations if queue is None or self.queue(name) == queue]
        after = {other for name in stations for other in self.followers[name]} | set(stations)
        queues = [self.queue(name) for name in self.stations if name in after]
        return list(dict.fromkeys([*queues, *filter(None, (self.dead_letters.get(one) for one in queues))]))

    @property
    def entries(self) -> list[str]:
        """The stations where items enter: the first, those declared as entries, and those pushed to."""
        more = [name for name, one in self.stations.items() if one.entry or name in self._pushed]
        return list(dict.fromkeys([*list(self.stations)[:1], *more]))

    @property
    def attempts_max(self) -> int:
        """The most attempts that any station gives an item."""
        return max(one.retry.max_attempts for one in self.stations.values())

    @cached_property
    def followers(self) -> dict[str, set[str]]:
        """For each station, the stations that an item can reach from it."""
        return reachable(self.stations)

    @cached_property
    def edges(self) -> list[Edge]:
        """The edges, with the reasons why items are stored at them."""
        return edges_of(self.stations, self.entries, always=self.stored == "always")

    @property
    def rows(self) -> list[Edge]:
        """The edges from stations to tables."""
        written = [(name, one) for name, station in self.stations.items() for one in station.tables]
        return [Edge(name, one.name, (how_written(one),)) for name, one in written]

    def passes(self, source: str, queue: str) -> bool:
        """Return whether items may pass in memory from a station to a queue, as far as that follows from the code."""
        return (source, queue) in self._in_memory

    @cached_property
    def _in_memory(self) -> set[tuple[str | None, str]]:
        return {(edge.source, self.queue(edge.target)) for edge in self.edges if not edge.stored}

    def check(self) -> None:
        """Raise InvalidInput for links to unknown stations, and for stations that can't be reached or left.

        Called before the first item.
        """
        if not self._checked:
            check_links(self.pipeline, self.stations, self.entries)
            self._checked = True

    def named(self, station: str) -> str:
        """Return the name of a station as given. Raises InvalidInput if it is not declared."""
        if station not in self.stations:
            known = ", ".join(self.stations) or "none"
            raise InvalidInput(f"pipeline {self.pipeline!r} has no station {station!r} (known: {known})")
        return station


def checked_station(name: str) -> str:
    """Return the name of a station as given, if it is allowed."""
    checked_name(name, "the name of a station")
    if "." in name or name == DEAD:
        raise InvalidInput(f"a station can't be named {name!r}: no dots, and {DEAD!r} is for the dead letters")
    return name


def only_on_spark(station: str) -> InvalidInput:
    """Return the error for a station that workers can't run."""
    return InvalidInput(
        f"station {station!r} works on DataFrames: run the pipeline with `stanchion pipeline run --engine "
        f"spark`, or give the station a function for workers: spark_station({station!r}, worker=function, ...)"
    )


def check_links(pipeline: str, stations: Mapping[str, StationOptions], entries: Iterable[str]) -> None:
    """Raise InvalidInput unless items can reach every station from `entries`, and an end from every station."""
    if not stations:
        raise InvalidInput(f"pipeline {pipeline!r} has no stations; declare one with @{pipeline}.station('raw')")
    for name, station in stations.items():
        for target in station.to:
            if target not in stations:
                raise InvalidInput(
                    f"station {name!r} of pipeline {pipeline!r} sends items to {target!r}, which is no station "
                    f"(known: {', '.join(stations)}); declare it, or correct to="
                )
    entries = list(entries)
    followers = reachable(stations)
    reached = set(entries).union(*(followers[entry] for entry in entries))
    fed = {target for station in stations.values() for target in station.to}
    for name in stations:
        if name not in reached:
            why = (
                f"only stations that can't be reached themselves lead to {name!r}"
                if name in fed
                else (f"nothing leads to station {name!r}")
            )
            raise InvalidInput(
                f"{why} of pipeline {pipeline!r}; name it in the to= of a station that {entries[0]!r} leads to, or "
                f"declare it with entry=True if items are pushed there"
            )
    for name, followed in followers.items():
        if all(stations[one].to and not stations[one].tables for one in (name, *followed)):
            raise InvalidInput(
                f"items at station {name!r} of pipeline {pipeline!r} can never finish: every station they reach goes "
                f"on to another; add one without to=, and link the loop to it"
            )


def reachable(stations: Mapping[str, StationOptions]) -> dict[str, set[str]]:
    """Return for each station the ones that an item can reach from it, including itself if there is a loop."""
    return {name: _from(stations, name) for name in stations}


def _from(stations: Mapping[str, StationOptions], start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(stations[start].to)
    while ahead:
        name = ahead.pop()
        if name in stations and name not in found:
            found.add(name)
            ahead += stations[name].to
    return found
