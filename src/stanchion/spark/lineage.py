"""Lineage of streaming queries as events of OpenLineage: which queue each micro-batch read, and where its rows went.

    query reads a stream of Stanchion ──progress──► listener ──START, COMPLETE──► the client of OpenLineage
                     └─ ends with an error ─────────────────► FAIL
    tasks work on a plain station ──counts of its queue──► listener ──START, COMPLETE──► the client

The id of a run is made from the query's and the batch's, so that a repeated batch is the same run. A plain station has
no batches: a run is the work of some seconds. Events that a client can't send are logged, and cost no item anything.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakSet

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.context.context import Context
from stanchion.core.times import moment
from stanchion.errors import MissingExtra, StanchionError
from stanchion.pipelines.record import recorded
from stanchion.stores.registry import shown_url
from stanchion.streams.state import KIND, StreamState

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ModuleNotFoundError:
    raise MissingExtra("spark", "lineage") from None

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

log = logging.getLogger("stanchion.spark")

PRODUCER: Final = f"https://pypi.org/project/stanchion/{version('stanchion')}"


def follow(
    spark: SparkSession,
    app: Stanchion,
    *,
    outputs: Mapping[str, Collection[str]] | None = None,
    namespace: str = "stanchion",
    client: OpenLineageClient | None = None,
) -> StreamingQueryListener:
    """Send events of all streaming queries of a session, from now on; return the listener, for `removeListener`.

    `app`: the store of the queues that are read. `outputs`: the queues or tables that a query writes to, by its name;
    a station's are known. `namespace`: of the jobs. `client`: by default one that is configured by the
    environment, such as `OPENLINEAGE_URL`. The plain stations of pipelines that this process runs on Spark are
    followed while the listener is referenced. Raises MissingExtra without the client of OpenLineage.
    """
    try:
        from openlineage.client import OpenLineageClient
    except ModuleNotFoundError:
        raise MissingExtra("openlineage", "lineage") from None
    listener = LineageListener(app, outputs or {}, namespace, client or OpenLineageClient())
    spark.streams.addListener(listener)
    _FOLLOWERS.add(listener)
    return listener


def followers(context: Context) -> list[LineageListener]:
    """Return the listeners that follow what is done with a store."""
    return [one for one in _FOLLOWERS if one.follows(context)]


class LineageListener(StreamingQueryListener):
    """Turns Spark's reports on queries into events. Made by `follow`."""

    def __init__(
        self, app: Stanchion, outputs: Mapping[str, Collection[str]], namespace: str, client: OpenLineageClient
    ) -> None:
        self._app, self._outputs, self._namespace, self._client = app, outputs, namespace, client
        self._queues: dict[str, str] = {}
        """The queues of streams, by the id of the stream."""
        self._names: dict[str, str] = {}
        """Names of the queries' jobs, by query id."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Note the name of a query."""
        self._names[str(event.id)] = event.name or ""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Send the events of a batch that had rows."""
        if event.progress.numInputRows:
            self._send(self._batch(event.progress))

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """Send nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Send the error that ended a query."""
        name = self._names.pop(str(event.id), "")
        if event.exception:
            self._send(self._failure(name, str(event.runId), event.exception))

    def follows(self, context: Context) -> bool:
        """Return whether it follows what is done with this store."""
        return context_of(self._app).url == context.url

    def worked(self, queue: str, items: int, began: int, ended: int) -> None:
        """Send the events of items that left a plain station between two times of the store's clock."""
        self._send(self._work(queue, items, moment(began), moment(ended)))

    def _send(self, events: Iterator[RunEvent]) -> None:
        try:
            for one in events:
                self._client.emit(one)
        except Exception as error:  # a client may raise anything, and the query must continue
            log.warning("an event of lineage was not sent: %s", error)

    # -- events

    def _batch(self, progress: StreamingQueryProgress) -> Iterator[RunEvent]:
        read = list(self._read(progress))
        name = progress.name or (read[0].name if read else str(progress.id))
        self._names[str(progress.id)] = name
        began = datetime.fromisoformat(progress.timestamp)
        ended = began + timedelta(milliseconds=progress.batchDuration)
        written = list(self._written(name, progress.sink.numOutputRows))
        yield from self._completed(f"{progress.id}/{progress.batchId}", name, (read, written), (began, ended))

    def _work(self, queue: str, items: int, began: datetime, ended: datetime) -> Iterator[RunEvent]:
        datasets = [_input(self._store, queue, items)], list(self._written(queue, -1))
        yield from self._completed(f"{self._store}/{queue}/{began}", queue, datasets, (began, ended))

    def _completed(
        self,
        named: str,
        name: str,
        datasets: tuple[list[InputDataset], list[OutputDataset]],
        times: tuple[datetime, datetime],
    ) -> Iterator[RunEvent]:
        """Yield the events of a run. `named`: what its id is made from; `name`: of its job; `times`: start and end."""
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

        run, job = Run(str(uuid5(NAMESPACE_URL, named))), Job(self._namespace, name)
        read, written = datasets
        began, ended = times
        for state, at in ((RunState.START, began), (RunState.COMPLETE, ended)):
            yield RunEvent(
                eventType=state,
                eventTime=at.isoformat(),
                run=run,
                job=job,
                inputs=read,
                outputs=written,
                producer=PRODUCER,
            )

    def _failure(self, name: str, run: str, error: str) -> Iterator[RunEvent]:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import error_message_run

        now = datetime.now().astimezone().isoformat()
        facet = error_message_run.ErrorMessageRunFacet(error, "python", producer=PRODUCER)
        yield RunEvent(
            eventType=RunState.FAIL,
            eventTime=now,
            run=Run(run, {"errorMessage": facet}),
            job=Job(self._namespace, name or run),
            producer=PRODUCER,
        )

    def _read(self, progress: StreamingQueryProgress) -> Iterator[InputDataset]:
        for source in progress.sources:
            queue = self._queue(source.endOffset)
            namespace, name = (self._store, queue) if queue else ("spark", source.description.partition("@")[0])
            yield _input(namespace, name, source.numInputRows)

    def _written(self, name: str, rows: int) -> Iterator[OutputDataset]:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

        targets = list(self._outputs.get(name, ()) or self._stations_after(name))
        known = len(targets) == 1 and rows >= 0
        facet = statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows if known else None, producer=PRODUCER)
        for target in targets:
            namespace = target.partition(":")[0] if "://" in target else self._store
            yield OutputDataset(namespace, target, {"outputStatistics": facet} if known else {})

    @property
    def _store(self) -> str:
        return shown_url(str(self._app.url))

    def _queue(self, offset: str) -> str | None:
        """Return the queue whose stream has this offset; None if it is not one of Stanchion's."""
        found = json.loads(offset) if offset else None
        stream = found.get("stream") if isinstance(found, dict) else None
        if not isinstance(stream, str):
            return None
        if stream not in self._queues:
            states = map(StreamState.of, context_of(self._app).store.values(KIND))
            self._queues |= {one.id: one.queue for one in states}
        return self._queues.get(stream)

    def _stations_after(self, name: str) -> list[str]:
        """Return the queues of the next stations, if the name is a station's queue."""
        try:
            pipelines = recorded(context_of(self._app).store)
        except StanchionError:
            return []
        return [
            pipeline.queue(to)
            for pipeline in pipelines
            for station in pipeline.stations
            if pipeline.queue(station.name) == name
            for to in station.to
        ]


def _input(namespace: str, name: str, rows: int) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    facet = statistics.InputStatisticsInputDatasetFacet(rowCount=rows, producer=PRODUCER)
    return InputDataset(namespace, name, {"inputStatistics": facet})


_FOLLOWERS: Final = WeakSet[LineageListener]()
"""The listeners of this process that are in use."""
