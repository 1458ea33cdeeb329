"""Reading the jobs that finish as a stream, from history: each finish once per checkpoint.

An offset is a time: all finishes up to it were read. It never passes the time before which no finish can appear any
more, so that a batch has the same jobs whenever it is read, as long as history keeps them and no dead one is retried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import accumulate, pairwise
from time import sleep
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from stanchion.core.checks import aware
from stanchion.core.spark_errors import HistoryPurged
from stanchion.core.times import micros, moment
from stanchion.errors import InvalidInput
from stanchion.feed.horizon import Settled
from stanchion.feed.reader import NOW
from stanchion.spark.datasource.errors import without_traceback
from stanchion.spark.datasource.on_driver import OnDriver
from stanchion.spark.datasource.options import Place, checked_options, given_options, place_of
from stanchion.spark.datasource.reading.batching import Batching
from stanchion.spark.datasource.reading.read import JobsReader, Part, columns_of
from stanchion.spark.datasource.reading.typed import TypedPayloads
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Offset = dict[str, int]

IDLE = 0.25
"""Seconds that an idle driver waits before it looks again."""

FEW = 1000
"""Items that one task reads."""

ADVANCE = 600 * SECOND
"""Microseconds without a finish after which the offset moves on, so that it does not fall behind history."""

_OF_JOBS = ("stream", "lanes", "heartbeat", "ui", "maxMisfits")


@without_traceback
def history_feed(given: Mapping[str, str], schema: StructType) -> HistoryFeed:
    """Return the reader for these options and columns. Raises InvalidInput."""
    options = checked_options(given, "readStream")
    for name in given_options(given, "readStream"):
        if name in _OF_JOBS:
            raise InvalidInput(f"the option {name} is for a stream of live jobs; leave it out with of=history")
    if options["misfits"] == "bury":
        raise InvalidInput("finished jobs can't be buried; give misfits=stop or misfits=null")
    names, typed = columns_of(options, "history", schema)
    since: datetime | None = options["since"]
    return HistoryFeed(
        place_of(options),
        options["queue"],
        names,
        typed,
        Batching(options["maxRecordsPerBatch"], options["partitions"], options["poll"] or IDLE),
        since=0 if since is None else micros(aware(since, "since")) - 1,
        overlap=options["overlap"],
        skips=options["purged"] == "skip",
    )


class HistoryFeed(OnDriver, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads history in micro-batches. The driver's object lives as long as the query; tasks get copies."""

    _ends_at: int | None = None

    def __init__(
        self,
        place: Place,
        queue: str | None,
        names: Sequence[str],
        typed: TypedPayloads | None,
        batching: Batching,
        *,
        since: int,
        overlap: float,
        skips: bool,
    ) -> None:
        self.place, self.queue, self.names, self.typed = place, queue, names, typed
        self.most, self.parts, self.poll = batching
        self.since, self.overlap, self.skips = since, overlap, skips

    # -- on the driver

    @cached_property
    def _settled(self) -> Settled:
        return Settled(0, int(self.overlap * SECOND))

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts."""
        return {"after": self.since}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the largest number of items of a batch; finishes of the same microsecond stay together."""
        return ReadMaxRows(self.most)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read only what can't change any more now."""
        self._ends_at = self._complete_until()

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the end of the next batch, or `start` if nothing has finished since."""
        end = self._next(start, limit)
        if end == start and self._ends_at is None:
            sleep(self.poll)
            end = self._next(start, limit)
        return end

    def _next(self, start: Offset, limit: ReadLimit) -> Offset:
        if isinstance(limit, ReadAllAvailable):
            most = None
        else:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.most
        until = self._complete_until() if self._ends_at is None else self._ends_at
        self._check_kept(start["after"])
        found, last = 0, start["after"]
        for last, items in self._finishes(start["after"], until):
            found += items
            if most is not None and found >= most:
                return {"after": last}
        if last != start["after"]:
            return {"after": last}
        return {"after": until} if until - start["after"] > ADVANCE else start

    def _complete_until(self) -> int:
        """Return the time before which no finish can appear any more."""
        page = self._app.store.select(NOW)
        assert page.horizon is not None  # noqa: S101 - the query asks for it
        return self._settled.move(page.horizon)

    def _check_kept(self, after: int) -> None:
        """Raise HistoryPurged if history of a queue does not reach back to a time; 0: wherever it begins."""
        store = self._app.store
        for settings in store.queues(None if self.queue is None else [self.queue]):
            if settings.history_ttl <= 0:
                if self.queue is not None:
                    raise InvalidInput(f"queue {self.queue!r} keeps no history; set its history_ttl")
                continue
            kept_from = store.now() - int(settings.shortest_ttl * SECOND)
            if after and kept_from > after and not self.skips:
                raise HistoryPurged(settings.name, _shown(after), _shown(kept_from))

    def _finishes(self, after: int, until: int) -> Iterator[tuple[int, int]]:
        """Yield the times of the finishes in a period, in order, and the number of their items."""
        query = self._query(after, until)
        if query is not None:
            for page in pages(self._app.store, replace(query, columns=("id", "finished_at", "items"))):
                for _, finished_at, items in page:
                    yield finished_at, 1 if items is None else items

    def _query(self, after: int, until: int) -> Query | None:
        names = [self.queue] if self.queue is not None else [one.name for one in self._app.store.queues()]
        period = Condition("finished_at", ">", after), Condition("finished_at", "<=", until)
        where = Condition("queue", "in", tuple(names)), *period
        return Query("history", where, order="finished", limit=PAGE) if names else None

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide the batch among tasks, by time."""
        self._check_kept(start["after"])
        found = list(self._finishes(start["after"], end["after"]))
        items = list(accumulate(number for _, number in found))
        count = max(1, min(self.parts, items[-1] // FEW)) if items else 1
        cuts = sorted({found[bisect_right(items, items[-1] * n // count)][0] for n in range(1, count)})
        bounds = [start["after"], *cuts, end["after"]]
        spans = [(low, high) for low, high in pairwise(bounds) if low < high]
        return [Part(query) for span in spans if (query := self._query(*span)) is not None]

    def commit(self, end: Offset) -> None:
        """Do nothing: the store keeps nothing of this reader."""

    def stop(self) -> None:
        """Do nothing."""

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the jobs of a part."""
        reader = JobsReader(self.place, partition.value, self.names, 1, by_lane=False, typed=self.typed)
        return reader.read(partition)


def _shown(at: int) -> str:
    return moment(at).isoformat(timespec="seconds")
