"""A station as the work of a chunk: its function runs for each item, and each item has an end of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput, TaskTimeout
from stanchion.jobs.failures import failure_of
from stanchion.jobs.outcome import UNCHANGED, Outcome
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.ends import END, Ends, Failed, Way
from stanchion.pipelines.chunks.station import ItemStation
from stanchion.pipelines.send import Send, delay_of, priority_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon, Bury, Rollback
from stanchion.stores.records.outcomes import Outcome as StoreOutcome
from stanchion.tasks.current import RUNNING, HasJob
from stanchion.tasks.execution import Execution, outcome_of_error
from stanchion.tasks.parameters import signature_of

SLICE: Final = 10.0
"""Seconds of items after which the rest of a chunk goes back, for any worker to go on with."""


class ChunkWork:
    """The work of one chunk at a station. It is a `context.work.Work`.

    An expectation, a failure or an outcome concerns the item alone. What one attempt has done is settled in one step.
    """

    models = failure_parameter = job_parameter = expectations = batching = None

    def __init__(self, station: ItemStation, row: JobRow) -> None:
        self.station, self.row = station, row
        self.name, self.queue, self.retry = station.name, station.queue, station.retry
        self.timeout, self.attempts_max, self.is_async = station.timeout, station.attempts_max, station.is_async
        one_by_one = self._arun if station.is_async else self._run
        self.function: Callable[[Chunk], object] = one_by_one if station.takes is None else self._run_table
        self.signature = signature_of(self.function)
        self.refused = station.refused

    def of_chunk(self, row: JobRow) -> ChunkWork:  # noqa: ARG002 - see Work
        """Return itself."""
        return self

    def arguments(self, payload: object) -> tuple[list[object], dict[str, object]]:
        """Return the chunk as the only argument."""
        return [payload], {}

    def outcome(self, row: JobRow, payload: object, value: object) -> StoreOutcome:
        """Return the outcome of the chunk for the ends of its items."""
        assert isinstance(payload, Chunk)  # noqa: S101 - `arguments` passes it on
        assert isinstance(value, Ends)  # noqa: S101 - the functions return it
        return Division(self.station, row, payload).outcome(value)

    # -- the items, one by one

    def _run(self, items: Chunk) -> Ends:
        ends, call = Ends(), self._call()
        for index, item in self._begun(items, ends):
            try:
                self._expect(item)
                value = call(item)
            except (Exception, SystemExit) as error:  # as of a job of one item
                self._fail(ends, index, items, error)
            except BaseException:
                if not self._timed_out(ends, index, items):
                    raise
                break
            else:
                self._end(ends, index, items, item, value)
        return ends

    async def _arun(self, items: Chunk) -> Ends:
        ends, call = Ends(), self._call()
        for index, item in self._begun(items, ends):
            try:
                self._expect(item)
                made = call(item)
                value = await made if isinstance(made, Awaitable) else made
            except (Exception, SystemExit) as error:
                self._fail(ends, index, items, error)
            except BaseException:
                if not self._timed_out(ends, index, items):
                    raise
                break
            else:
                self._end(ends, index, items, item, value)
        return ends

    def _begun(self, items: Chunk, ends: Ends) -> Iterator[tuple[int, object]]:
        """Yield the items with their indices until the slice ends, or the job is asked to stop."""
        if self._is_cut(items, ends):
            return
        limit, job, until = _limit(), _running().job, time.monotonic() + SLICE
        for index, item in enumerate(items.values):
            now = time.monotonic()
            if index and (now >= until or (job is not None and job.cancelled)):
                ends.left = index
                return
            if limit is not None:
                limit.deadline = now + limit.seconds  # a time-out of the station is one of each item
            yield index, item

    def _is_cut(self, items: Chunk, ends: Ends) -> bool:
        """Cut a chunk whose last holder died into parts, instead of running it: few items die with a poisoned one."""
        if not self.row.lost_leases or len(items) == 1:
            return False
        ends.left = 0
        return True

    def _timed_out(self, ends: Ends, index: int, items: Chunk) -> bool:
        """Record that an item ran too long, if that is why it was interrupted; the others go back."""
        limit = _limit()
        if limit is None or not limit.expired:
            return False
        self._fail(ends, index, items, TaskTimeout(f"ran longer than {limit.seconds:g} s"))
        if index + 1 < len(items):
            ends.left = index + 1
        return True

    # -- the items, as a table

    def _run_table(self, items: Chunk) -> Ends:
        from stanchion.pipelines.chunks.tables import halved, table_for

        ends, takes = Ends(), self.station.takes
        if self._is_cut(items, ends):
            return ends
        assert takes is not None  # noqa: S101 - of a station that takes tables
        met = self._met(ends, items)

        def call(some: Chunk, first: int) -> None:
            value = self.station.batch_function(table_for(takes, some))
            self._record_tables(ends, some, [met[first + n] for n in range(len(some))], value)

        def fail(first: int, stop: int, error: Exception) -> None:
            for place in range(first, stop):
                self._fail(ends, met[place], items, error)

        if met:
            halved(call, fail, items if len(met) == len(items) else items.take(met))
        return ends

    def _met(self, ends: Ends, items: Chunk) -> Sequence[int]:
        """Return the places of the items that meet the expectations; the others have ended."""
        if self.station.expectations is None:
            return range(len(items))
        met = []
        for index, item in enumerate(items.values):
            try:
                self._expect(item)
            except Outcome as error:
                self._fail(ends, index, items, error)
            else:
                met.append(index)
        return met

    def _record_tables(self, ends: Ends, some: Chunk, places: Sequence[int], value: object) -> None:
        """Record what a function has returned for some items, which have these places in the chunk."""
        from stanchion.pipelines.chunks.tables import ItemFailed, returned, sends_in

        station = self.station
        sends = sends_in(value, station.sends_of(value))
        tables = [(send, returned(send.item, some, merges=station.merges)) for send in sends]
        ended: set[int] = set()
        for send, table in tables:
            ended.update(range(len(some)) if table.places is None else table.places)
            for place, error in table.failed:
                ended.add(place)
                self._fail(ends, places[place], some, ItemFailed(error), at=place)
            if table.items is None:
                continue
            if send.to == END:
                ends.result_tables.append(table.items)
                ends.result_places += places if table.places is None else [places[place] for place in table.places]
            else:
                ends.tables[self._way(send)].append(table.items)
        ends.dropped += len(some) - len(ended)

    def _call(self) -> Callable[[object], object]:
        """Return the function as it is called for an item."""
        function, name = self.station.function, self.station.job_parameter
        if name is None:
            return function
        job = _running().job
        first = next(iter(self.station.signature.parameters)) == name
        return partial(function, job) if first else lambda item: function(item, **{name: job})

    def _expect(self, item: object) -> None:
        if (expected := self.station.expectations) is not None:
            expected.check(self.station.context.store, self.row, item)

    # -- the ends of items

    def _end(self, ends: Ends, index: int, items: Chunk, item: object, value: object) -> None:
        """Record what an item became. An outcome that was returned is as if it had been raised."""
        if isinstance(value, Outcome):
            self._fail(ends, index, items, value)
            return
        try:
            self._record(ends, index, item, value)
        except InvalidInput as error:  # a retry would return the same
            ends.failed.append(Failed(index, Bury(self.row.lease, *failure_of(error, None))))

    def _record(self, ends: Ends, index: int, item: object, value: object) -> None:
        station = self.station
        if len(station.to) == 1 and value is not None and not isinstance(value, Send | list):
            ends.values[Way(station.to[0])].add(index, station.merged(item, value))
            return
        sends = station.sends_of(value)
        if sends is None:
            ends.results.add(index, value)
        elif not sends:
            ends.dropped += 1
        elif len(sends) == 1:
            (send,) = sends
            ends.values[self._way(send)].add(index, station.merged(item, send.item))
        else:
            made = [(self._way(send), station.merged(item, send.item)) for send in sends]
            ends.forked += 1
            for way, new in made:
                ends.several[way].append(item if new is UNCHANGED else new)

    def _way(self, send: Send) -> Way:
        return Way(self.station.checked_target(send.to), delay_of(send), priority_of(send))

    def _fail(self, ends: Ends, index: int, items: Chunk, error: BaseException, at: int | None = None) -> None:
        """Record the outcome of an item as it would be if the item were a job of its own.

        `index`: its place in the chunk; `at`: its place among `items`, if these are only some.
        """
        context = self.station.context
        text = items.text(index if at is None else at)
        alone = self.row._replace(payload=context.codec.encode_json(text), items=None)
        ended = outcome_of_error(Execution(context, alone), error)
        assert isinstance(ended, Rollback | Bury | Abandon)  # noqa: S101 - no item settles itself
        ends.failed.append(Failed(index, ended))


class _Limited(Protocol):
    seconds: float
    deadline: float
    expired: bool


def _limit() -> _Limited | None:
    """Return how long the attempt may run, if a worker limits it."""
    found: _Limited | None = getattr(_running(), "limit", None)
    return found


def _running() -> HasJob:
    found = RUNNING.get()
    assert found is not None  # noqa: S101 - the function of a chunk runs as a job
    return found
