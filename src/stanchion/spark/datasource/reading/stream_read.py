"""Reading a queue as a stream, on Spark's driver and in its tasks.

    latestOffset(start, limit)   acknowledges all up to `start`, which is in Spark's commit log, and reserves a batch
    partitions(start, end)       divides the batch; a replayed batch has the jobs that are left
    read(partition)              runs in tasks, on any machine

Nothing depends on Spark's commit(end), which comes one batch late and never for the last one; nor on stop(), as the
processes of a query may be killed at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.endings import how_ended
from stanchion.spark.datasource.errors import without_traceback
from stanchion.spark.datasource.on_driver import OnDriver
from stanchion.spark.datasource.options import Place, checked_options, given_options, place_of
from stanchion.spark.datasource.reading.admission import Admission, admission_of
from stanchion.spark.datasource.reading.backlog import Backlog
from stanchion.spark.datasource.reading.batching import Batching
from stanchion.spark.datasource.reading.items import ItemRows
from stanchion.spark.datasource.reading.read import columns_of
from stanchion.spark.datasource.reading.typed import NEEDED, Misfits, TypedPayloads
from stanchion.spark.datasource.runs import this_run
from stanchion.spark.datasource.stream_station import StreamStation
from stanchion.stores.ports import ArrowReads
from stanchion.streams import Part, Position, StreamSource
from stanchion.streams.heart import Heart
from stanchion.streams.sink import begin, rows
from stanchion.streams.sizing import Growth
from stanchion.streams.state import reserved

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Offset = dict[str, Any]

IDLE = 0.25
"""Seconds that an idle driver waits for a sign of work before it polls again."""

FEW = 1000
"""Batches up to this size are read row by row, as reading Arrow may need a separate connection."""

WOKEN = "woken"
"""What makes an offset another one to Spark, though it is at the same batch."""

_OF_HISTORY = ("since", "overlap", "purged")


@without_traceback
def stream_reader(given: Mapping[str, str], schema: StructType) -> StreamReader:
    """Return the reader of live jobs for these options and columns. Raises InvalidInput."""
    options = checked_options(given, "readStream")
    for name in given_options(given, "readStream"):
        if name in _OF_HISTORY:
            raise InvalidInput(
                f"the option {name} is for a stream of finished jobs; give of=history too, or leave it out"
            )
    if options["queue"] is None:
        raise InvalidInput("the option queue is missing: name the queue to read")
    if options["lanes"] is not None and options["stream"] is None:
        raise InvalidInput(
            "the option lanes needs the option stream: name a stream for these lanes, such as orders-0-15"
        )
    names, typed = columns_of(options, "jobs", schema)
    return StreamReader(
        place_of(options),
        LiveStream(
            options["stream"] or options["queue"],
            options["queue"],
            options["heartbeat"],
            options["lanes"],
            options["ui"],
            options["growTo"],
        ),
        names,
        Batching(options["maxRecordsPerBatch"], options["partitions"], options["poll"] or IDLE),
        typed=typed,
        most_misfits=options["maxMisfits"],
        admission=admission_of(options),
    )


@dataclass
class StreamPart(InputPartition):
    """The jobs that one task reads."""

    part: Part

    def __post_init__(self) -> None:
        super().__init__(self.part)


class LiveStream(NamedTuple):
    """The stream that a query reads, and how its driver takes part."""

    stream: str
    queue: str
    heartbeat: float
    """Seconds between the driver's heartbeats."""
    lanes: tuple[int, int] | None
    """First and last lane to read; None: the whole queue."""
    ui: str
    """Address of the query's page in Spark's UI."""
    grow_to: int | None = None
    """Maximum number of items of a batch behind full ones; None: they do not grow."""


class StreamReader(OnDriver, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue in micro-batches. The driver's object lives as long as the query; tasks get copies."""

    _ends_when_done = _may_be_new = _has_looked = False
    _end: Offset | None = None
    _limit: int | None = None
    """Maximum number of items of a batch, as Spark has asked for it."""

    def __init__(
        self,
        place: Place,
        live: LiveStream,
        names: Sequence[str],
        batching: Batching,
        *,
        typed: TypedPayloads | None = None,
        most_misfits: float = 100.0,
        admission: Admission | None = None,
    ) -> None:
        self.place, self.names = place, names
        self.stream, self.queue, self.heartbeat, self.lanes, self.ui, self.grow_to = live
        self.most, self.parts, self.poll = batching
        self.typed, self.most_misfits, self.admission = typed, most_misfits, admission

    # -- on the driver

    @cached_property
    def _source(self) -> StreamSource:
        """The stream, taken over from its previous driver at first use."""
        station = StreamStation(context_of(self._app), self.stream)
        source = StreamSource(
            self._app.store,
            *(self.stream, self.queue, self.heartbeat),
            how_ended,
            *(self.lanes, self.ui),
            station.cut,
        )
        source.growth = Growth(self.grow_to)
        source.initial()
        Heart(source, self._app.store, self.heartbeat).start()
        return source

    @cached_property
    def _backlog(self) -> Backlog:
        return Backlog(lambda: self._source.behind())

    @cached_property
    def _listener(self) -> Any:
        return self._app.store.listen([self.queue])

    @without_traceback
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts, or one that computes its first batch again."""
        self._may_be_new = True
        return self._source.initial()._asdict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the largest number of items of a batch."""
        return ReadMaxRows(self.most)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read only jobs that are ready now."""
        self._ends_when_done = True
        self._source.stop_after_ready()

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Acknowledge finished batches, reserve the next one, and return its end, or `start` if there is none."""
        if isinstance(limit, ReadAllAvailable):  # its only batch would never be acknowledged
            raise InvalidInput("trigger(once=True) is not for streams of jobs; write trigger(availableNow=True)")
        place, most = _position(start), limit.max_rows if isinstance(limit, ReadMaxRows) else self.most
        self._limit = most
        begins, self._has_looked = not self._has_looked, True
        if begins and self._may_be_new and self._had_batches():
            raise InvalidInput(
                f"the stream {self.stream!r} has a watermark from earlier batches, and its checkpoint is missing, "
                f"which has the jobs of open windows; restore it, or begin with none, see "
                f"stanchion.spark.stations.stateful.begin_again"
            )
        end = self._source.latest(place, most)
        if end == place and begins and self._had_batches():
            # An earlier driver may have died before it published windows that its last batch had closed. Spark does
            # that in the next batch, and of itself begins none without jobs after a start.
            self._end = {**start, WOKEN: start.get(WOKEN, 0) + 1}
            return self._end
        if end == place and not self._ends_when_done and self._listener.wait(self.poll):
            end = self._source.latest(place, most)
        # Spark compares offsets as text.
        self._end = start if end == place else end._asdict()
        return self._end

    def _had_batches(self) -> bool:
        """Return whether the stream has a watermark from earlier batches."""
        return self.admission is not None and self._source.state().seen is not None

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        """Return where the stream would end if all ready items were read, and their number, for Spark's progress.

        Spark asks after each batch and while it waits for one.
        """
        behind = self._backlog.size()
        if behind is None or self._end is None:
            return None
        return {**self._end, "seq": self._end["seq"] + -(-behind // self.most), "behind": behind}

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide the batch among tasks; one that only wakes the query has no jobs."""
        self._has_looked = True
        if WOKEN in end:
            return []
        span = _position(start), _position(end)
        parts = self._source.parts(*span, self.parts, self._limit or self.most)
        if self.typed is not None and self.admission is not None:
            if not any(part.finished for part in parts) and self._takes_out(self.typed, self.admission, parts):
                parts = self._source.parts(*span, self.parts, self._limit or self.most)
        elif self.typed is not None and self.typed.policy == "bury":
            misfits = self._misfits(self.typed, parts)
            if misfits.are_too_many(self.most_misfits):
                raise misfits.stopped()
            if misfits.jobs:
                self._source.bury(misfits.errors)
                parts = self._source.parts(*span, self.parts, self._limit or self.most)
        return [StreamPart(part) for part in parts]

    def _takes_out(self, typed: TypedPayloads, admission: Admission, parts: Sequence[Part]) -> bool:
        """Remove jobs from a batch that the query does not get, before any is read; return whether there were some."""
        found = (batch for part in parts for batch in batches(self._app, part, ItemRows("jobs", NEEDED)))
        taken = admission.taken_out(self._app, typed, self._source.state(), found)
        self._source.bury(taken.misfits)
        self._source.settle(taken.others, taken.latest)
        return bool(taken.misfits or taken.others)

    def _misfits(self, typed: TypedPayloads, parts: Sequence[Part]) -> Misfits:
        """Return the jobs of a batch that do not fit, before any of them is read: the batch begins without them."""
        found = [
            typed.misfits(self._app, batch)
            for part in parts
            for batch in batches(self._app, part, ItemRows("jobs", NEEDED))
            if not part.finished
        ]
        jobs = {job: why for some in found for job, why in some.jobs.items()}
        return Misfits(self.queue, typed.schema.version, sum(some.of for some in found), jobs)

    def commit(self, end: Offset) -> None:
        """Do nothing: the next `latestOffset` acknowledges."""

    def stop(self) -> None:
        """Do nothing: the next run of the query gets the reserved jobs, or they go back without heartbeats."""

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the jobs of a part."""
        part: Part = partition.value
        run = this_run()
        with self.place.app() as app:
            if run is not None:
                begin(app.store, part, run)
            yield from batches(app, part, ItemRows("jobs", self.names, self.typed))


def batches(app: Stanchion, part: Part, made: ItemRows) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part: made from Arrow if the store can, and there are many."""
    store = app.store
    reads = store.extension(ArrowReads)
    if reads is not None and part.size > FEW and not part.finished:
        query = reserved(part.queue, part.token, part.first, part.last)
        for batch in reads.select_arrow(replace(query, columns=made.fields)):
            yield from made.of_arrow(app, batch)
    elif found := rows(store, part):
        yield from made.of_rows(app, found, again=part.finished)


def _position(offset: Offset) -> Position:
    return Position(offset["stream"], offset["seq"])
