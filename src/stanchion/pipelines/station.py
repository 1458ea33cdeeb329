"""A station: a queue of items, and the function that processes them.

item ──function──► value    the item moves on as this value, to the only station in to=
                 ► Send     the item moves to that station
                 ► [Send]   the item moves on as several items; with an empty list it is dropped
                 ► None     the item is dropped; without to=, any value is the result of the job, which is done
                 ► raised   the item is retried by the retry policy; after the last attempt it is a dead letter
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stanchion.context.context import Context
from stanchion.context.work import Work
from stanchion.core.functions import is_async, refuse_generator
from stanchion.core.ids import new_ids
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.jobs.job import Job
from stanchion.jobs.outcome import UNCHANGED
from stanchion.pipelines.chunks.ends import Takes, Way
from stanchion.pipelines.chunks.parts import part_of
from stanchion.pipelines.chunks.work import ChunkWork
from stanchion.pipelines.expectation import Expectations
from stanchion.pipelines.options import Frame, StationOptions
from stanchion.pipelines.outputs import Output, key_in, newer, replace_older, version_of
from stanchion.pipelines.route import headers_after, rounds_of
from stanchion.pipelines.send import Send, delay_of, priority_of, refuse_options
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.pipelines.tables.returned import schema_of
from stanchion.pipelines.tables.rows import TableTarget
from stanchion.pipelines.tables.table import Table
from stanchion.pipelines.topology import Topology, checked_station, only_on_spark
from stanchion.schemas.kinds import Schema
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob
from stanchion.stores.records.outcomes import Abandon, Continue, Ending, Move, Outcome, TableRows
from stanchion.stores.rules.flows import position_of
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.stores.rules.lifecycle.trail import split_trail
from stanchion.tasks.execution import Attempted, Superseded, attempted
from stanchion.tasks.parameters import hints_of, parameter_of, signature_of


class Station:
    """One station of a pipeline. Made by `@pipeline.station(...)`.

    `function` is None if only Spark can run the station, by its `frame`.
    """

    def __init__(
        self,
        context: Context,
        topology: Topology,
        name: str,
        function: Callable[..., object] | None,
        options: StationOptions,
        frame: Frame | None = None,
        expectations: Expectations | None = None,
    ) -> None:
        self.context, self.topology, self.station, self.frame = context, topology, checked_station(name), frame
        self.name = self.queue = topology.queue(name)
        """The name of the queue; in logs, it takes the place of a task's name."""
        self.options = options
        self.to, self.entry, self.payload, self.retry = options.to, options.entry, options.payload, options.retry
        self.limits, self.timeout, self.max_rounds, self.max_rate = options[4:8]
        self.key, self.takes = options.key, options.takes
        self.targets = (*options.to, *(one.name for one in options.tables))
        """The names of the stations and tables that items may go to."""
        self.attempts_max: int | None = options.retry.max_attempts
        self.on_workers = function is not None
        self.function: Callable[..., object] = function or _on_spark_only
        self.is_async = is_async(function)
        self.signature = signature_of(self.function)
        self.job_parameter = None if function is None else parameter_of(hints_of(function), Job)
        self.keeps_order = True
        self.models, self.failure_parameter, self.expectations = None, None, expectations
        self.batching = None
        refuse_generator(self.function, f"station {name!r}")
        self._check_function()
        self.batch_function = self.function
        self.tables = {one.name: TableTarget(one, self._fields_of(one, frame)) for one in options.tables}
        """The tables of the store's database that items may go to, by name."""
        self.folders = {one.name: FolderTarget(one, self._fields_of(one, frame)) for one in options.folders}
        """The tables in folders that items may go to, by name; each is a station."""
        if self.takes is not None:
            self.function = self._of_one(self.takes)
        is_plain = len(self.targets) == 1 and not self.tables and not self.folders
        self._onward = Way(self.targets[0], 0.0, None) if is_plain else None
        """The way of all items that are returned without a Send, if it leads to a station."""

    @property
    def functions(self) -> list[Callable[..., object]]:
        """The function of batches, if there is one, and the function of items."""
        return [self.function] if self.frame is None else [self.frame.function, self.function]

    @property
    def queues(self) -> list[str]:
        """The queues of all stations of the pipeline."""
        return self.topology.queues

    def passes_to(self, queue: str) -> bool:
        """Return whether items may pass in memory to a queue, as far as that follows from the code."""
        return self.topology.passes(self.station, queue)

    def prepare(self, store: Store) -> None:
        """Make what the station needs in the store: the tables that it writes to."""
        for table in self.tables.values():
            table.prepare(store)

    @property
    def merges(self) -> bool:
        """True if what its function returns is merged into the item."""
        return self.payload == "merge"

    @property
    def loops(self) -> bool:
        """True if an item can return to this station."""
        return self.station in self.topology.followers[self.station]

    def check_worked(self) -> None:
        """Raise InvalidInput unless workers can run this station."""
        self.topology.check()
        if not self.on_workers:
            raise only_on_spark(self.station)

    # -- a reserved item

    def step(self, row: JobRow) -> Outcome | None:
        """Run the function on a reserved item; return the outcome to settle, None if the function settled it itself.

        It changes nothing in the store and needs no worker: an async function gets its own event loop. Choose the
        lanes of the outcome with `LaneChooser.place`.
        """
        return self.attempt(row).outcome

    def attempt(self, row: JobRow) -> Attempted:
        """Run the function on a reserved item, as `step` does; also return its exception."""
        return attempted(self.context, row)

    def refused(self, row: JobRow) -> str | None:
        """Return why an item must not run, or None."""
        if row.attempts > self.retry.max_attempts:
            return (
                f"LeaseLost: {self.retry.max_attempts} attempts of station {self.station!r} at item {row.id} did not "
                f"finish: each time the worker died or was cut off; find the cause in the item, then retry"
            )
        if self.loops and rounds_of(row, self.station) >= self.max_rounds:
            return (
                f"item {row.id} has been at station {self.station!r} {self.max_rounds} times and is there again; fix "
                f"the loop, or raise max_rounds= of the station, then retry"
            )
        if self.key is not None and (key := self._key(row)) is not None:
            found = newer(self.context.current_store(), self.queue, key, Output(version_of(row), row.id))
            if found is not None:
                raise Superseded(_superseded(key, found))
        return None

    def arguments(self, payload: object) -> tuple[list[object], dict[str, object]]:
        """Return the item as the only argument."""
        return [payload], {}

    def outcome(self, row: JobRow, item: object, value: object) -> Outcome:
        """Return the outcome of an item for the value its function returned. Raises InvalidInput for a wrong value."""
        outcome = self._outcome(row, item, value)
        if self.key is not None and (key := self._key(row)) is not None:
            mine = Output(version_of(row), row.id)
            if (found := replace_older(self.context.current_store(), self.queue, key, mine)) is not None:
                return Abandon(row.lease, _superseded(key, found))
        return outcome

    def _key(self, row: JobRow) -> str | None:
        return None if self.key is None else key_in(self.context.codec.decode(row.payload), self.key)

    def _outcome(self, row: JobRow, item: object, value: object) -> Outcome:
        way = self._onward
        if (
            way is not None
            and way.to in self.topology.stations
            and not (value is None or value is UNCHANGED or isinstance(value, Send | list))
        ):  # what nearly all functions return: without the checks of a Send
            payload = self.context.codec.encode(self.merged(item, value))
            self._check_fit(way.to, payload)
            return self.moved(row, way, payload)
        sends = self.sends_of(value)
        if sends is not None:
            return self.sent(row, sends, item)
        result = None if value is None else self.context.codec.encode(value, "result")
        return commit_of(row, result)

    def sent(self, row: JobRow, sends: Sequence[Send], item: object = UNCHANGED) -> Outcome:
        """Return the outcome that passes an item on: one item keeps its id, several get new ones, none drops it.

        `item`: the item's value, for a station that merges. Raises InvalidInput for a station it can't move to.
        """
        if not sends:
            return commit_of(row)
        rows = self._rows(row, sends, item) if self.tables else ()
        if rows:
            sends = [send for send in sends if send.to not in self.tables]
        targets = [self.checked_target(send.to) for send in sends]
        for send in sends:
            if (folder := self.folders.get(send.to)) is not None:
                value = self.context.codec.decode(row.payload) if send.item is UNCHANGED else send.item
                folder.refuse_misfit(self.context.codec, self.merged(item, value))
        payloads = [self._payload(row, item, send) for send in sends]
        for target, payload in zip(targets, payloads, strict=True):
            self._check_fit(target, payload)
        if len(sends) == 1 and not rows:
            (send,), (target,), (payload,) = sends, targets, payloads
            return self.moved(row, Way(target, delay_of(send), priority_of(send)), payload)
        headers = headers_after(row, self.station, counting=self.loops, forking=True)
        trail = split_trail(row)
        made = zip(new_ids(len(sends)), sends, targets, payloads, strict=True)
        jobs = (
            self.part_for(row, Way(target, delay_of(send), priority_of(send)), payload, headers)._replace(
                id=job_id, origin=row.id, trail=trail
            )
            for job_id, send, target, payload in made
        )
        return commit_of(row, jobs=tuple(jobs))._replace(rows=rows)

    def _rows(self, row: JobRow, sends: Sequence[Send], item: object) -> tuple[TableRows, ...]:
        """Return the rows that an item becomes. Raises InvalidInput if one does not fit its table."""
        codec, found = self.context.codec, []
        for number, send in enumerate(send for send in sends if send.to in self.tables):
            refuse_options(send)
            value = codec.decode(row.payload) if send.item is UNCHANGED else self.merged(item, send.item)
            found.append(self.tables[send.to].row_of(codec, value, row.id, number))
        return tuple(found)

    def moved(self, row: JobRow, way: Way, payload: Content) -> Ending:
        """Return the outcome that passes a whole job on: it keeps its id."""
        keep = self.topology.keep_entry
        headers = headers_after(row, self.station, counting=self.loops, forking=False)
        same_limits = self.topology.stations[way.to].limits == row.limits
        if same_limits and way.priority in (None, row.priority):
            changed = None if payload == row.payload else payload
            going = Move(row.lease, self.topology.queue(way.to), changed, way.delay, UNLANED, headers, keep)
            return going._replace(keep_arrival=True) if self.options.keep_arrival else going
        job = self.part_for(row, way, payload, headers)._replace(id=row.id)
        position = position_of(row)  # in a flow, an item is one member until it leaves the pipeline
        going_on = job if position is None else job._replace(**position._asdict())
        return Continue(row.lease, going_on, keep_entry=keep, keep_arrival=self.options.keep_arrival)

    def part_for(self, row: JobRow, way: Way, payload: Content, headers: str) -> NewJob:
        """Return a job, without an id, that goes on to another station. `row`: the item or chunk at this one."""
        job = self.part_of(row, self.topology.queue(way.to), payload)
        return job._replace(
            priority=row.priority if way.priority is None else way.priority,
            delay=way.delay,
            headers=headers,
            limits=self.topology.stations[way.to].limits,
        )

    def part_of(self, row: JobRow, queue: str, payload: Content) -> NewJob:
        """Return a job, without an id, in a queue, with what an item keeps at all stations and its place here."""
        return part_of(row, queue, payload)

    def of_chunk(self, row: JobRow) -> Work:
        """Return the work of a chunk of items."""
        return ChunkWork(self, row)

    def cut(self, row: JobRow) -> Ending:
        """Return the outcome that cuts a chunk into parts, which run as if it had not been begun."""
        return ChunkWork(self, row).cut(self.context.value_of(row.payload))

    def fitted(self, job: NewJob) -> NewJob:
        """Return a new job with the limits and attempts of the station; a call of a task is left unchanged."""
        if job.task is not None:
            return job
        if job.limits is not None and job.limits != self.limits:
            raise InvalidInput(
                f"limits and rates belong to a station, not to its items: declare them for {self.station!r}"
            )
        return job._replace(limits=self.limits, max_attempts=self.topology.attempts_max)

    def sends_of(self, value: object) -> list[Send] | None:
        """Return where a value goes; None if it is the result."""
        if isinstance(value, Send):
            return [value]
        if isinstance(value, list) and (self.targets or value):
            of_sends = [isinstance(one, Send) for one in value]
            if all(of_sends):
                return value
            if any(of_sends):
                raise InvalidInput(
                    f"station {self.station!r} returned a list of Sends and other values; return Sends only"
                )
        if not self.targets:
            return None
        if value is None:
            return []
        first, *others = self.targets
        if others:
            raise InvalidInput(
                f"station {self.station!r} returned an item, but not where it goes; return Send({first!r}, item), "
                f"or one to {_listed(others)}"
            )
        return [Send(first, value)]

    def checked_target(self, to: str) -> str:
        """Return a station or table that items may go to. Raises InvalidInput."""
        if to in self.tables:
            return to
        stations = self.topology.stations
        if to not in stations:
            raise InvalidInput(
                f"station {self.station!r} sent an item to {to!r}, which is no station of pipeline "
                f"{self.topology.pipeline!r} (known: {_listed(stations)}); correct the name, then retry the item"
            )
        if to not in self.to:
            raise InvalidInput(
                f"station {self.station!r} sent an item to {to!r}, which is not in its to= "
                f"({_listed(self.targets) or 'empty'}); add it there, then retry the item"
            )
        return to

    def _payload(self, row: JobRow, item: object, send: Send) -> Content:
        if send.item is UNCHANGED:
            return row.payload
        return self.context.codec.encode(self.merged(item, send.item))

    def merged(self, item: object, value: object) -> object:
        """Return the value that goes on for an item. Raises InvalidInput if it can't be merged into the item."""
        if self.payload == "merge" and value is not UNCHANGED:
            if not isinstance(item, dict) or not isinstance(value, dict):
                raise InvalidInput(
                    f"station {self.station!r} merges its return value into the item, so both must be dicts, not "
                    f"{type(value).__name__} into {type(item).__name__}; or declare it with payload='replace'"
                )
            return {**item, **value}
        return value

    def _check_fit(self, target: str, payload: Content) -> None:
        """Raise PayloadMisfit for an item that does not fit the schema of its next station."""
        try:  # noqa: SIM105 - `suppress` costs three calls, for each item
            self.context.check_fits(NewJob("", self.topology.queue(target), payload))
        except StoreUnavailable:  # losing the finished work would be worse
            pass

    # -- the declaration

    def _check_function(self) -> None:
        try:
            given = {} if self.job_parameter is None else {self.job_parameter: None}
            self.signature.bind(None, **given) if self._item_first() else self.signature.bind(None, None)
        except TypeError:
            raise InvalidInput(
                f"the function of station {self.station!r} must take an item, and may take a Job: "
                f"def {getattr(self.function, '__name__', 'function')}(item) or (item, job: Job)"
            ) from None

    def _of_one(self, takes: Takes) -> Callable[[object], object]:
        """Return the batch function as one of a single item. Raises InvalidInput for one that can't be called so."""
        from stanchion.pipelines.chunks.tables import of_one

        if self.is_async or self.job_parameter is not None:
            raise InvalidInput(
                f"the function of station {self.station!r} takes tables, so it must be a plain function of a table, "
                f"without async and without a Job"
            )
        return of_one(self.function, takes, self.sends_of)

    def _fields_of(self, table: Table, frame: Frame | None) -> Schema:
        """Return the fields of a table's rows. Raises InvalidInput unless they are known."""
        function, part = (self.function, False) if frame is None else (frame.function, True)
        only_part = part or self.takes is not None or self.merges
        return schema_of(table, self.station, function, only_part=only_part)

    def _item_first(self) -> bool:
        return self.job_parameter is None or next(iter(self.signature.parameters)) != self.job_parameter

    def __repr__(self) -> str:
        return f"<Station {self.name}>"


def _on_spark_only(_item: object) -> None:
    """Take the place of the function of a Spark-only station; workers refuse it before they call this."""
    raise InvalidInput("this station runs on Spark only: run the pipeline with --engine spark")


def _superseded(key: str, by: Output) -> str:
    return f"superseded: item {by.item} is the output of key {key!r}, and is of a later input, or run again later"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
