"""A station as the work of a chunk: its function runs for each item, and each item has an end of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.jobs.failures import failure_of
from stanchion.jobs.outcome import UNCHANGED, Outcome
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.ends import Ends, Failed, Way
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
        self.function: Callable[[Chunk], object] = self._arun if station.is_async else self._run
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
            else:
                self._end(ends, index, items, item, value)
        return ends

    def _begun(self, items: Chunk, ends: Ends) -> Iterator[tuple[int, object]]:
        """Yield the items with their indices until the slice ends, or the job is asked to stop."""
        execution, until = _running(), time.monotonic() + SLICE
        limit, job = getattr(execution, "limit", None), execution.job
        for index, item in enumerate(items.values):
            now = time.monotonic()
            if index and (now >= until or (job is not None and job.cancelled)):
                ends.left = index
                return
            if limit is not None:
                limit.deadline = now + limit.seconds  # a time-out of the station is one of each item
            yield index, item

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

    def _fail(self, ends: Ends, index: int, items: Chunk, error: BaseException) -> None:
        """Record the outcome of an item as it would be if the item were a job of its own."""
        context = self.station.context
        alone = self.row._replace(payload=context.codec.encode_json(items.text(index)), items=None)
        ended = outcome_of_error(Execution(context, alone), error)
        assert isinstance(ended, Rollback | Bury | Abandon)  # noqa: S101 - no item settles itself
        ends.failed.append(Failed(index, ended))


def _running() -> HasJob:
    found = RUNNING.get()
    assert found is not None  # noqa: S101 - the function of a chunk runs as a job
    return found
