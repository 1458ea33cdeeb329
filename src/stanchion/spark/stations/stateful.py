"""The query of a station with a watermark, whose function gets the stream of its items.

    items ──► late ones and misfits go elsewhere ──► watermark ──► function ──► new items of the next station

The items of a batch, its new items and the position of the stream change in one step. Windows that are open are in the
checkpoint of the query, which has to last. A driver that dies between that step and Spark's log computes the batch
from the same items again, out of history, and publishes nothing twice.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from stanchion.context import context_of
from stanchion.context.queues.settings import settings_of
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.options import Frame, Windows
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.station import Station
from stanchion.schemas.ddl import struct_of
from stanchion.spark.datasource.options import reachable_url
from stanchion.spark.datasource.reading.typed import ddl_of
from stanchion.spark.stations.batches.made import as_json, frames_by_target
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.streams.rereading import KEPT
from stanchion.streams.state import compare_and_set, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ID = "job_id"


def windows_of(station: Station) -> Windows | None:
    """Return the options of a station with a watermark; None for other stations."""
    return None if station.frame is None else station.frame.windows


def check(stations: list[Station]) -> None:
    """Raise InvalidInput for stations with a watermark that can't be exact here, and for a lost checkpoint."""
    folders: dict[str, str] = {}
    for station in stations:
        if (windows := windows_of(station)) is not None:
            other = folders.setdefault(windows.checkpoint, station.station)
            if other != station.station:
                raise InvalidInput(
                    f"stations {other!r} and {station.station!r} have the same checkpoint=; use two folders"
                )
            _check(station, windows)


def _check(station: Station, windows: Windows) -> None:
    name, store = f"station {station.station!r}, which has a watermark,", station.context.store
    if not store.capabilities.atomic_batches:
        raise InvalidInput(f"{name} needs a store with transactions: SQLite, PostgreSQL or MariaDB")
    if settings_of(store, station.queue).kept_at_least < KEPT:
        raise InvalidInput(f"{name} reads its last items again after a restart: keep history_ttl of {KEPT:g} s or more")
    if station.context.codec.has_keys:
        raise InvalidInput(f"{name} can't read encrypted items")
    if windows.late is not None and station.topology.stations[windows.late].limits is not None:
        raise InvalidInput(f"station {windows.late!r}, which gets late items, can't have limits")
    state = load(store, station.queue)
    if state is not None and state.seen is not None and _is_missing(windows.checkpoint):
        raise InvalidInput(
            f"the checkpoint of station {station.station!r} is missing in {windows.checkpoint}, and with it the items "
            f"of its open windows; restore it, or begin with none: "
            f"stanchion.spark.stations.stateful.begin_again(pipeline, {station.station!r})"
        )


def _is_missing(checkpoint: str) -> bool:
    """Return whether a checkpoint is not there; False if only Spark can see it: then the query finds out."""
    from pyspark.sql.utils import is_remote

    metadata = _metadata(checkpoint)
    return metadata is not None and not is_remote() and not metadata.exists()


def _metadata(checkpoint: str) -> Path | None:
    """Return the file that each checkpoint has; None if it is in no folder of this machine."""
    address = urlsplit(checkpoint)
    if address.scheme not in ("", "file"):
        return None
    return Path(unquote(address.path) if address.scheme else checkpoint) / "metadata"


def begin_again(pipeline: Pipeline, name: str) -> None:
    """Let a station with a watermark begin without open windows, and take items of any time as not late.

    For a checkpoint that is lost, or to run the station again over older items; delete the folder of the checkpoint.
    A running query of the station must be stopped before. Raises InvalidInput for other stations.
    """
    (station,) = plan_of(pipeline).chosen([name])
    windows, store = windows_of(station), context_of(pipeline).store
    if windows is None:
        raise InvalidInput(f"station {name!r} has no watermark")
    metadata = _metadata(windows.checkpoint)
    if metadata is not None and metadata.exists():
        raise InvalidInput(f"delete the checkpoint of station {name!r} first: {windows.checkpoint}")
    while (state := load(store, station.queue)) is not None and (state.seen, state.seeing) != (None, None):
        compare_and_set(store, station.queue, state.without_times())


def writer_of(spark: SparkSession, station: Station, windows: Windows, partitions: int, ui: str | None) -> Any:
    """Return the writer of the query of a station, with its checkpoint; it is to be named and started."""
    frame, url = station.frame, reachable_url(station.context.url)
    assert frame is not None  # noqa: S101 - it has the windows
    made = frame.function(_items(spark, station, frame, windows, partitions, ui))
    targets = [one for one in station.to if one != windows.late]
    rows = [_new_items(station, to, one) for to, one in frames_by_target(station, made, targets).items()]
    if not rows:
        raise InvalidInput(f"the function of station {station.station!r} returned no DataFrame")
    items = reduce(lambda one, other: one.unionByName(other), rows)
    writer = items.writeStream.format("stanchion").outputMode("append")
    writer = writer.option("url", url).option("mode", "append").option("stream", station.queue)
    writer = writer.option("maxAttempts", str(station.topology.attempts_max))
    return writer.option("checkpointLocation", windows.checkpoint)


def _items(
    spark: SparkSession, station: Station, frame: Frame, windows: Windows, partitions: int, ui: str | None
) -> DataFrame:
    """Return the stream of the items of a station that fit and are not late, with the watermark."""
    stream = spark.readStream.format("stanchion").option("url", reachable_url(station.context.url))
    stream = stream.option("queue", station.queue).option("partitions", partitions)
    stream = stream.option("maxRecordsPerBatch", frame.max_per_batch)
    stream = stream.option("typed", "true").option("payloadSchema", frame.schema).option("misfits", "bury")
    stream = stream.option("eventTime", windows.column).option("lateAfter", windows.delay)
    stream = stream.option("maxMisfits", 100)  # a misfit is a dead letter, however many there are
    if station.expectations is not None:
        expected = [(one.condition.sql, one.on_fail) for one in station.expectations.expected]
        stream = stream.option("expect", json.dumps(expected))
    if windows.late is not None:
        stream = stream.option("late", station.topology.queue(windows.late))
        stream = stream.option("keepArrival", str(station.options.keep_arrival).lower())
    if ui is not None:
        stream = stream.option("ui", ui)
    found = stream.schema(f"id string, payload {ddl_of(struct_of(frame.schema))}").load()
    items = found.selectExpr("payload.*", f"id as {ID}")
    return items.withWatermark(windows.column, f"{round(windows.delay * 1000)} milliseconds")


def _new_items(station: Station, to: str, made: Any) -> DataFrame:
    """Return rows of the function as new items of a station. Raises InvalidInput for other things."""
    from pyspark.sql import functions as f

    if not hasattr(made, "isStreaming"):
        raise InvalidInput(
            f"the function of station {station.station!r}, which has a watermark, must return DataFrames, not "
            f"{type(made).__name__}"
        )
    if not made.isStreaming:
        raise InvalidInput(f"the function of station {station.station!r} must make its rows of the stream that it gets")
    if ID in made.columns:
        raise InvalidInput(
            f"station {station.station!r} has a watermark, so its rows are new items: leave the column {ID} out"
        )
    payload = as_json(made).alias("payload")
    queue = f.lit(station.topology.queue(to)).alias("queue")
    columns = [payload, queue]
    if any(station.topology.stations[one].limits is not None for one in station.to):
        limits = station.topology.stations[to].limits
        names = None if limits is None else f.array(*map(f.lit, limits_in(limits).semaphores))
        columns.append(f.lit(names).cast("array<string>").alias("limits"))
    found: DataFrame = made.select(*columns)
    return found
