"""A station as the work of a chunk: its function runs for each item, and each item has an end of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput, TaskTimeout
from stanchion.jobs.held_job import is_told
from stanchion.jobs.outcome import Outcome
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.ends import END, Ends, ForTable
from stanchion.pipelines.chunks.folder_items import refused
from stanchion.pipelines.chunks.in_order import raising, refuse_several
from stanchion.pipelines.chunks.recording import Recording
from stanchion.pipelines.chunks.station import ItemStation
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Ending
from stanchion.stores.records.outcomes import Outcome as StoreOutcome
from stanchion.tasks.current import RUNNING, HasJob
from stanchion.tasks.parameters import signature_of

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.jobs.reservation import Reservation
    from stanchion.pipelines.chunks.tables import Returned

SLICE: Final = 10.0
"""Seconds after which a worker returns the items of a chunk that it has not begun, so that any worker can take them."""

LOOK: Final = 1.0
"""Seconds between two checks for a request to stop, where no worker runs the job: each reads the job from the store."""

LOOK_TOLD: Final = 0.001
"""The same under a worker, which passes the request on to the job: a check costs nothing but its call."""


class _Pace:
    """When to stop running the items of a chunk: at the end of the slice, or when the job was asked to stop."""

    def __init__(self, job: Reservation | None) -> None:
        self._job, self._until = job, time.monotonic() + SLICE
        self.look = 0.0
        """When `ends` must be called next, on the monotonic clock."""

    def ends(self, now: float) -> bool:
        """Return whether no further item may begin at this time."""
        if now >= self._until:
            return True
        if self._job is None:
            self.look = self._until
            return False
        self.look = min(self._until, now + (LOOK_TOLD if is_told(self._job) else LOOK))
        return self._job.cancelled


def _of_items(items: Chunk) -> Ends:
    raise NotImplementedError


_SIGNATURE: Final = signature_of(_of_items)


class ChunkWork:
    """The work of one chunk at a station. It is a `context.work.Work`.

    An expectation, a failure or an outcome concerns the item alone. What one attempt has done is settled in one step.
    """

    models = failure_parameter = job_parameter = expectations = batching = None

    def __init__(self, station: ItemStation, row: JobRow) -> None:
        self.station, self.row = station, row
        self.name, self.queue, self.retry = station.name, station.queue, station.retry
        self.timeout, self.attempts_max, self.is_async = station.timeout, station.attempts_max, station.is_async
        self.signature, self.refused = _SIGNATURE, station.refused

    @property
    def function(self) -> Callable[[Chunk], object]:
        """The function of the chunk; kept here, it would keep the decoded items until cycles are collected."""
        one_by_one = self._arun if self.is_async else self._run
        return one_by_one if self.station.takes is None else self._run_table

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
        return Division(self.station, row, payload).outcome(value, in_memory=True)

    def cut(self, payload: object) -> Ending:
        """Return the outcome that cuts the chunk into parts, none of which was begun."""
        assert isinstance(payload, Chunk)  # noqa: S101 - of a job with items
        ends = Ends()
        ends.left = 0
        return Division(self.station, self.row, payload).outcome(ends)

    # -- the items, one by one

    def _run(self, items: Chunk) -> Ends:
        ends, values = Ends(), list[object]()
        recording, call, expect, add = self._recording(ends), self._call(), self._expected(), values.append
        for index, item in self._begun(items, ends):
            try:
                if expect is not None:
                    expect(item)
                value = call(item)
            except (Exception, SystemExit) as error:  # as of a job of one item
                if recording.fail(index, items, error):
                    break
            except BaseException:
                if not self._timed_out(recording, index, items):
                    raise
                break
            else:
                add(value)
        recording.record(items, values)
        return ends

    async def _arun(self, items: Chunk) -> Ends:
        ends, values = Ends(), list[object]()
        recording, call, expect, add = self._recording(ends), self._call(), self._expected(), values.append
        for index, item in self._begun(items, ends):
            try:
                if expect is not None:
                    expect(item)
                made = call(item)
                value = await made if isinstance(made, Awaitable) else made
            except (Exception, SystemExit) as error:
                if recording.fail(index, items, error):
                    break
            except BaseException:
                if not self._timed_out(recording, index, items):
                    raise
                break
            else:
                add(value)
        recording.record(items, values)
        return ends

    def _begun(self, items: Chunk, ends: Ends) -> Iterator[tuple[int, object]]:
        """Yield the items with their indices until the slice ends, or the job is asked to stop."""
        if self._is_cut(items, ends):
            return
        limit, pace, monotonic = _limit(), _Pace(_running().job), time.monotonic
        look = pace.look
        for index, item in enumerate(items.values):
            now = monotonic()
            if now >= look:
                if pace.ends(now) and index:
                    ends.left = index
                    return
                look = pace.look
            if limit is not None:
                limit.deadline = now + limit.seconds  # a time-out of the station is one of each item
            yield index, item

    def _is_cut(self, items: Chunk, ends: Ends) -> bool:
        """Cut a chunk whose last holder died into parts, instead of running it: few items die with a poisoned one."""
        if not self.row.lost_leases or len(items) == 1:
            return False
        ends.left = 0
        return True

    def _timed_out(self, recording: Recording, index: int, items: Chunk) -> bool:
        """Record that an item ran too long, if that is why it was interrupted; the others go back."""
        limit = _limit()
        if limit is None or not limit.expired:
            return False
        recording.fail(index, items, TaskTimeout(f"ran longer than {limit.seconds:g} s"))
        if index + 1 < len(items):
            recording.ends.left = index + 1
        return True

    def _recording(self, ends: Ends) -> Recording:
        return Recording(self.station, self.row, ends)

    # -- the items, as a table

    def _run_table(self, items: Chunk) -> Ends:
        from stanchion.pipelines.chunks.tables import halved, library_for, table_for

        ends, takes = Ends(), self.station.takes
        recording = self._recording(ends)
        if self._is_cut(items, ends):
            return ends
        assert takes is not None  # noqa: S101 - of a station that takes tables
        library_for(takes)  # without it, no part of the table could be processed
        met = self._met(recording, items)

        def call(some: Chunk, first: int) -> None:
            value = self.station.batch_function(table_for(takes, some))
            self._record_tables(recording, some, met.slice(first, len(some)), value)

        def fail(first: int, stop: int, error: Exception) -> None:
            for place in met.slice(first, stop - first).to_pylist():
                recording.fail(place, items, error)

        if len(met):
            halved(call, fail, items if len(met) == len(items) else items.take(met))
        return ends

    def _met(self, recording: Recording, items: Chunk) -> pa.Array:
        """Return the places of the items that meet the expectations; the others have ended."""
        from stanchion.core.chunks.arrow import counting, pa

        if (expect := self._expected()) is None:
            return counting(0, len(items))
        met: list[int] = []
        for index, item in enumerate(items.values):
            try:
                expect(item)
            except Outcome as error:
                recording.fail(index, items, error)
            else:
                met.append(index)
        return pa.array(met, pa.int32())

    def _record_tables(self, recording: Recording, some: Chunk, places: pa.Array, value: object) -> None:
        """Record what a function has returned for some items, which have these places in the chunk."""
        from stanchion.pipelines.chunks.tables import ItemFailed, ended_in, returned, sends_in

        station, ends = self.station, recording.ends
        sends = sends_in(value, station.sends_of(value))
        tables = [(send, returned(send.item, some, merges=station.merges)) for send in sends]
        tables = [(send, self._fitting(ends, send.to, table, places)) for send, table in tables]
        if any(table.items is not None and table.places is None for _, table in tables):
            refuse_several(self.row)
        for send, table in tables:
            for place, error in table.failed:
                recording.fail(places[place].as_py(), some, ItemFailed(error), at=place)
            if table.items is None:
                continue
            if send.to in station.tables:
                at = places if table.places is None else places.take(table.places)
                named = table.places is not None
                ends.for_tables.append(ForTable(recording.way(send).to, table.items, at.to_pylist(), named))
            elif send.to == END:
                ends.result_tables.append(table.items)
                ends.result_places.append(places if table.places is None else places.take(table.places))
            else:
                ends.tables[recording.way(send)].append(table.items)
        ends.dropped += len(some) - ended_in([table for _, table in tables], len(some))

    def _fitting(self, ends: Ends, to: str, table: Returned, places: pa.Array) -> Returned:
        """Bury the items whose rows do not fit a table in a folder; return the others."""
        folder = self.station.folders.get(to)
        if folder is None or table.items is None or not (misfits := folder.misfits(table.items)):
            return table
        if table.places is None:  # it is no item of the chunk, so nobody else is at fault
            raise InvalidInput(folder.told(misfits[0][1]))
        at = places.take(table.places).to_pylist()
        ends.failed += refused(folder, self.row, [(at[place], misfit) for place, misfit in misfits])
        bad = {place for place, _ in misfits}
        kept = [place for place in range(len(table.items)) if place not in bad]
        items = table.items.take(kept) if kept else None
        return table._replace(items=items, places=table.places.take(kept) if kept else table.places.slice(0, 0))

    def _call(self) -> Callable[[object], object]:
        """Return the function as it is called for an item."""
        function, name = self.station.function, self.station.job_parameter
        call = function
        if name is not None:
            job = _running().job
            first = next(iter(self.station.signature.parameters)) == name
            call = partial(function, job) if first else lambda item: function(item, **{name: job})
        return call if self.row.order_key is None else raising(call)

    def _expected(self) -> Callable[[object], None] | None:
        """Return what raises an Outcome for an item that does not meet the expectations; None without any."""
        if (expected := self.station.expectations) is None:
            return None
        return partial(expected.check, self.station.context.store, self.row)


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
