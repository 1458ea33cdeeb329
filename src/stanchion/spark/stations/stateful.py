"""The query of a station with a watermark, whose function gets the stream of its items.

    items ──► late ones and misfits go elsewhere ──► watermark ──► function ──► new items of the next station

The items of a batch, its new items and the position of the stream change in one step. Windows that are open are in the
checkpoint of the query, which has to last. A driver that dies between that step and Spark's log computes the batch
from the same items again, out of history, and publishes nothing twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from stanchion.context.settings import settings_of
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.options import Frame
from stanchion.pipelines.station import Station
from stanchion.pipelines.windows import Windows
from stanchion.schemas.ddl import struct_of
from stanchion.spark.datasource.options import reachable_url
from stanchion.spark.datasource.typed import ddl_of
from stanchion.stores.rules.limits import limits_in
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
    if settings_of(store, station.queue).history_ttl < KEPT:
        raise InvalidInput(f"{name} reads its last items again after a restart: keep history_ttl of {KEPT:g} s or more")
    if station.context.codec.has_keys:
        raise InvalidInput(f"{name} can't read encrypted items")
    if station.expectations is not None:
        raise InvalidInput(f"{name} can't have expectations: put them on the station before it")
    if windows.late is not None and station.topology.stations[windows.late].limits is not None:
        raise InvalidInput(f"station {windows.late!r}, which gets late items, can't have limits")
    state = load(store, station.queue)
    if state is not None and state.seen is not None and not _exists(windows.checkpoint):
        raise InvalidInput(
            f"the checkpoint of station {station.station!r} is missing in {windows.checkpoint}, and with it the items "
            f"of its open windows; restore it, or begin with none: "
            f"stanchion.spark.stations.stateful.begin_again(pipeline, {station.station!r})"
        )


def _exists(checkpoint: str) -> bool:
    address = urlsplit(checkpoint)
    if address.scheme not in ("", "file"):
        return True  # Spark tells
    return (Path(unquote(address.path) if address.scheme else checkpoint) / "metadata").exists()


def begin_again(pipeline: Pipeline, name: str) -> None:
    """Let a station with a watermark begin without open windows, and take items of any time as not late.

    For a checkpoint that is lost, or to run the station again over older items; delete the folder of the checkpoint.
    A running query of the station must be stopped before. Raises InvalidInput for other stations.
    """
    (station,) = pipeline.chosen([name])
    windows, store = windows_of(station), pipeline.context.store
    if windows is None:
        raise InvalidInput(f"station {name!r} has no watermark")
    if urlsplit(windows.checkpoint).scheme in ("", "file") and _exists(windows.checkpoint):
        raise InvalidInput(f"delete the checkpoint of station {name!r} first: {windows.checkpoint}")
    while (state := load(store, station.queue)) is not None and (state.seen, state.seeing) != (None, None):
        compare_and_set(store, station.queue, state.without_times())


def writer_of(spark: SparkSession, station: Station, windows: Windows, partitions: int, ui: str | None) -> Any:
    """Return the writer of the query of a station, with its checkpoint; it is to be named and started."""
    frame, url = station.frame, reachable_url(station.context.url)
    assert frame is not None  # noqa: S101 - it has the windows
    made = frame.function(_items(spark, station, frame, windows, partitions, ui))
    payloads = _payloads(station, made)
    (target,) = (one for one in station.to if one != windows.late)
    options = station.topology.stations[target]
    writer = payloads.writeStream.format("stanchion").outputMode("append")
    writer = writer.option("url", url).option("mode", "append").option("stream", station.queue)
    writer = writer.option("to", station.topology.queue(target))
    writer = writer.option("maxAttempts", str(station.topology.attempts_max))
    if options.limits is not None:
        writer = writer.option("limits", ",".join(limits_in(options.limits).semaphores))
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
    if windows.late is not None:
        stream = stream.option("late", station.topology.queue(windows.late))
    if ui is not None:
        stream = stream.option("ui", ui)
    found = stream.schema(f"id string, payload {ddl_of(struct_of(frame.schema))}").load()
    items = found.selectExpr("payload.*", f"id as {ID}")
    return items.withWatermark(windows.column, f"{round(windows.delay * 1000)} milliseconds")


def _payloads(station: Station, made: Any) -> DataFrame:
    """Return the rows of the function as payloads of new items. Raises InvalidInput for other things."""
    from pyspark.sql import functions as f

    if not hasattr(made, "isStreaming"):
        raise InvalidInput(
            f"the function of station {station.station!r}, which has a watermark, must return one DataFrame, not "
            f"{type(made).__name__}"
        )
    if not made.isStreaming:
        raise InvalidInput(f"the function of station {station.station!r} must make its rows of the stream that it gets")
    if ID in made.columns:
        raise InvalidInput(
            f"station {station.station!r} has a watermark, so its rows are new items: leave the column {ID} out"
        )
    names = [f.col(f"`{name}`") for name in made.columns]
    payloads: DataFrame = made.select(f.to_json(f.struct(*names), {"ignoreNullFields": "false"}).alias("payload"))
    return payloads
