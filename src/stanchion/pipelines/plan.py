"""The plan of a pipeline: its stations and links, checked, stored and worked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Unpack

from stanchion.context.context import Context
from stanchion.context.declarations.declared_texts import DeclaredTexts
from stanchion.context.queues.options import StationQueueOptions
from stanchion.context.work import Work
from stanchion.core.checks import checked_name
from stanchion.core.functions import is_async, redefines
from stanchion.core.graph.model import PLAIN, Graph, GraphNode
from stanchion.core.retry import Retry
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.search import PageOptions
from stanchion.pipelines.expectation import DeclaredExpectations, Expectation
from stanchion.pipelines.finding import checked_query, found_ids
from stanchion.pipelines.options import MAX_ROUNDS, Frame, StationOptions, Stored
from stanchion.pipelines.record import KIND, Engine, PipelineRecord, StationRecord
from stanchion.pipelines.replay import FINAL, Reruns
from stanchion.pipelines.station import Station
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.pipelines.topology import DEAD, Topology
from stanchion.queues.queue import declared_queue
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.lifecycle.trail import KEPT_BYTES

_TABLE_RETRY: Final = Retry.exponential(base=1, max=300, max_attempts=30)
"""About two hours for a folder that is away."""


class TableStation(Station):
    """The station that a table in a folder is: it appends its items to the table, those of each job once.

    station ──Move──► queue of the table ──► rows, by the job's id ──► the job is done

    A step of the store moves items to the table's queue, so they are there exactly once. A worker may die between the
    rows and the end of the job. The job then comes again, under the same id and with the same items, and its rows are
    found.
    """

    def __init__(self, context: Context, topology: Topology, target: FolderTarget) -> None:
        self.target = target
        options = StationOptions.of(None, False, "replace", _TABLE_RETRY, None, (), None, MAX_ROUNDS, {})
        super().__init__(context, topology, target.name, self.append, options._replace(writes=target.table.address))
        self.folders = {target.name: target}

    def append(self, item: object, job: Job) -> None:
        """Append an item, or those of a chunk."""
        self.target.append(job.id, item)

    def prepare(self, store: Store) -> None:  # noqa: ARG002 - the table is outside of it
        """Make the table if it is missing. Raises InvalidInput if it does not fit."""
        self.target.prepare()

    def of_chunk(self, row: JobRow) -> Work:  # noqa: ARG002 - a chunk is never cut, as its id names its rows
        """Return itself."""
        return self


class PipelinePlan:
    """The stations of a pipeline and the links between them.

    `pipeline`: the `pipelines.pipeline.Pipeline` that programs have.
    """

    pipeline: object

    def __init__(self, context: Context, name: str, *, keep_entry: bool = True, stored: Stored = "needed") -> None:
        self.context, self.name = context, checked_name(name, "the name of a pipeline")
        self.stations: dict[str, Station] = {}
        self.topology = Topology(name, keep_entry=keep_entry, stored=stored)
        self._expected = DeclaredExpectations()
        self._record = DeclaredRecord(name, self.stations)

    def declare(
        self,
        name: str,
        function: Callable[..., object],
        options: StationOptions,
        settings: StationQueueOptions,
        frame: Frame | None = None,
        worker: Callable[..., object] | None = None,
    ) -> None:
        """Add a station. `frame`: its batches on Spark; `worker` then processes single items, if anything does."""
        if options.keep_arrival and self.context.codec.max_payload > KEPT_BYTES:
            raise InvalidInput(
                f"station {name!r} keeps the payload of each arrival, so a payload may have at most {KEPT_BYTES:,} "
                f"bytes: set max_payload to that, or leave keep_arrival out"
            )
        tells = not self.context.codec.has_keys
        of_items = function if frame is None else worker
        options = options._replace(is_async=is_async(of_items))
        expected = self._expected.of(*((function,) if frame is None else (function, worker)), tells=tells)
        station = Station(self.context, self.topology, name, of_items, options, frame, expected)
        written = [self._table_station(station, target) for target in station.folders.values()]
        self._add(station, settings)
        for table in written:
            self._add(table, {})

    def expect(self, function: Callable[..., object], expected: Expectation) -> None:
        """Require a condition of each item of the station that this function will process."""
        if any(function in one.functions for one in self.stations.values()):
            raise InvalidInput(
                f"put @{self.name}.expect({expected.condition.text!r}) below the decorator that declares its station"
            )
        self._expected.add(function, expected)

    def _table_station(self, source: Station, target: FolderTarget) -> TableStation:
        """Return the station of a table in a folder. Raises InvalidInput if something else has its name."""
        known = self.stations.get(target.name)
        if known is None:
            return TableStation(self.context, self.topology, target)
        if not isinstance(known, TableStation):
            raise InvalidInput(
                f"table {target.table.address} and a station of pipeline {self.name!r} are both named {target.name!r}: "
                f"give the table another name, Table({target.table.address!r}, name='...')"
            )
        others = [one for one in self.stations.values() if target.name in one.to and one.station != source.station]
        if others and not known.target.same_as(target):
            raise InvalidInput(
                f"stations {others[0].station!r} and {source.station!r} write to a table {target.name!r} with other "
                f"fields or in other folders: let both return the same class, or give one table another name"
            )
        return TableStation(self.context, self.topology, target)

    def _add(self, station: Station, given: StationQueueOptions) -> None:
        other = self.stations.get(station.station)
        if other is not None and not _same_code(other, station) and not redefines(station.function, other.function):
            raise InvalidInput(
                f"two functions are registered for station {station.station!r} of pipeline {self.name!r}; rename one"
            )
        settings: dict[str, Any] = {"dead_letter": self.dead_letters, **given}
        declared_queue(self.context, station.queue, settings)
        self.topology.dead_letters[station.queue] = settings["dead_letter"]
        self.stations[station.station] = self.context.registry.stations[station.queue] = station
        self.topology.add(station.station, station.options)
        self._record.changed()

    @property
    def entries(self) -> list[str]:
        """The stations where items enter: the first, those declared as entries, and those pushed to."""
        return self.topology.entries

    def first(self) -> str:
        """Return the first station, where items are stored by default. Raises InvalidInput if the plan is wrong."""
        self.check()
        return next(iter(self.stations))

    def check(self) -> None:
        """Raise InvalidInput for links to unknown stations, and for stations that can't be reached or left.

        Called before the first item.
        """
        self.topology.check()

    def check_worked(self, queues: Collection[str]) -> None:
        """Raise InvalidInput unless workers can serve the stations among these queues."""
        for station in self.stations.values():
            if station.queue in queues:
                station.check_worked()

    def prepare(self) -> None:
        """Check the links, store the declared settings of the queues, and make the tables that stations write to."""
        self.check()
        self.context.declare(self.queues[0])
        self.context.registry.prepare(self.context.store, self.queues)

    @property
    def record(self) -> PipelineRecord:
        """The stations and links as they are stored."""
        return self._record.value

    def store_record(self, store: Store) -> None:
        """Store the stations and links, once for each store, for processes without this code."""
        self._record.store(store)

    @property
    def queues(self) -> list[str]:
        """The names of the stations' queues."""
        return self.topology.queues

    @property
    def dead_letters(self) -> str:
        """The name of the queue of dead items."""
        return f"{self.name}.{DEAD}"

    @property
    def graph(self) -> Graph:
        """The graph of its stations, whose links are checked."""
        stations = self.stations
        written = {name: [table.address for table in one.options.tables] for name, one in stations.items()}
        links = {name: [*one.to, *map(_table, written[name])] for name, one in stations.items()}
        tables = {_table(one): GraphNode(one, "table", "table", "table") for some in written.values() for one in some}
        nodes = {name: _node(station) for name, station in stations.items()}
        return Graph(f"Pipeline {self.name}", nodes | tables, links | dict.fromkeys(tables, ()), self.entries)

    def station(self, name: str) -> Station:
        """Return a station. Raises InvalidInput if it is not declared."""
        return self.stations[self.topology.named(name)]

    def queue_of(self, station: str | None) -> str | None:
        """Return the name of a station's queue; None for all stations."""
        return None if station is None else self.station(station).queue

    def chosen(self, names: Collection[str]) -> list[Station]:
        """Return the stations of these names, or all. Raises InvalidInput if one is not declared."""
        return [self.station(name) for name in names] if names else list(self.stations.values())

    def chosen_ids(self, station: str | None = None, **search: Unpack[PageOptions]) -> Iterator[str]:
        """Yield the ids of the finished items that a search finds, oldest first; `limit`: of the newest only."""
        if not any(value is not None for value in search.values()):
            raise InvalidInput("which items? give ids, or options that select them, such as state='dead'")
        search.setdefault("state", FINAL)
        limit, query = search.get("limit"), checked_query(search)
        return found_ids(self.context.store, self.topology, self.queue_of(station), query, limit)

    def reruns(self, station: str | None = None, write_id: str | None = None) -> Reruns:
        """Return the replay of items from a station, to be planned, staged batch by batch, and published."""
        return Reruns(self.context, self.topology, station, write_id)


def _same_code(one: Station, other: Station) -> bool:
    """Return whether two declarations come from the same source, as when a module is loaded twice."""
    first, second = (station.functions[0] for station in (one, other))
    return getattr(first, "__code__", first) == getattr(second, "__code__", second)


class DeclaredRecord:
    """The record of a pipeline. `stations`: those declared so far, by name."""

    def __init__(self, name: str, stations: Mapping[str, Station]) -> None:
        self._name, self._stations = name, stations
        self._texts = DeclaredTexts(KIND)

    def changed(self) -> None:
        """Store the record again when it is asked for: a station was declared."""
        self._texts.declare(self._name)

    @property
    def value(self) -> PipelineRecord:
        """The stations and links as they are stored."""
        return PipelineRecord(self._name, tuple(_record_of(one) for one in self._stations.values()))

    def store(self, store: Store) -> None:
        """Store the stations and links, where they are new or were lost, for processes without this code.

        A caller of a manager that may not change them works without: they are for people who look on.
        """
        if self._stations:
            self._texts.keep(store, lambda: {self._name: self.value.text})


def _record_of(one: Station) -> StationRecord:
    engine: Engine = "workers" if one.frame is None else "both" if one.on_workers else "spark"
    expectations = () if one.expectations is None else one.expectations.texts
    tables = tuple(table.table.address for table in one.tables.values())
    return StationRecord(one.station, one.to, one.entry, engine, expectations, tables, one.options.writes)


def _table(address: str) -> str:
    """Return the name of the node of a table; no station has such a name."""
    return f"table {address}."


def _node(station: Station) -> GraphNode:
    if station.options.writes is not None:
        return GraphNode(station.station, station.options.writes, "table", "table")
    kind = "spark" if station.frame else "end" if station.options.ends else PLAIN
    return GraphNode(station.station, _note(station), kind, "spark" if station.frame else "")


def _note(station: Station) -> str:
    """Return the special properties of a station."""
    notes = ["Spark"] if station.frame else []
    notes += limits_in(station.limits).semaphores
    if station.max_rate is not None:
        notes.append(f"{station.max_rate:g}/s")
    if station.options.ends:
        notes.append("end")
    return ", ".join(notes)
