"""Spark's Python processes, made to die at given steps: those of a data source, and those of a pipeline's stations.

What is here is pickled by value, so that Spark's processes need not find this module.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import update_wrapper
from pathlib import Path
from typing import Any

import pyspark.cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from stanchion.spark.datasource.delta.sink import DeltaSink
from stanchion.spark.datasource.reading.stream_read import StreamReader
from stanchion.spark.datasource.source import StanchionSource
from stanchion.spark.datasource.writing.stream_write import StreamWriter
from stanchion.spark.datasource.writing.write import JobsWriter

STEPS = {
    "open": "stanchion.streams.source:StreamSource._open",
    "latest": "stanchion.streams.source:StreamSource.latest",
    "claim": "stanchion.streams.source:StreamSource._reserve",
    "compare_and_set": "stanchion.streams.source:compare_and_set",
    "number": "stanchion.streams.source:StreamSource._write",
    "parts": "stanchion.streams.source:StreamSource.parts",
    "begin": "stanchion.spark.datasource.reading.stream_read:begin",
    "rows": "stanchion.spark.datasource.reading.stream_read:batches",
    "logged": "stanchion.spark.datasource.reading.stream_read:StreamReader.commit",
    "plain": "stanchion.spark.datasource.writing.task_stage:TaskStage.add_plain",
    "copy": "stanchion.stores.postgres.prepared:CopyForm.insert",
    "value": "stanchion.stores.sql.values:Values.write",
    "take": "stanchion.spark.datasource.writing.stream_write:StreamWriter._take",
    "settle": "stanchion.streams.sink:SinkBatch.settle",
    "publish": "stanchion.streams.sink:SinkBatch.publish",
    "drop": "stanchion.streams.sink:SinkBatch.drop_rest",
    "acknowledge": "stanchion.streams.sink:acknowledge",
}
STATION_STEPS = {
    "pending": "stanchion.streams.sink:SinkBatch.pending",
    "part": "stanchion.spark.stations.items:ReservedItems.part",
    "read": "stanchion.spark.stations.items:ReservedItems.rows",
    "outcome": "stanchion.pipelines.station:Station.outcome",
    "portion": "stanchion.spark.stations.items:ReservedItems.settle",
    "stage": "stanchion.spark.stations.batches.frames:_Outputs._staged",
    "made": "stanchion.spark.stations.batches.frames:JobMaker.jobs",
    "move": "stanchion.spark.stations.batches.frames:_Outputs._move",
}
"""Steps of stations. A place may end with the station, such as `after portion at priced`."""

WORKER_STEPS = {
    "hand over": "stanchion.worker.claiming.claimer:Claimer._hand_over",
    "outcomes": "stanchion.worker.finisher:Finisher._settle",
}
"""Steps of workers in tasks."""

LAKE_STEPS = {
    "files": "stanchion.lake.files:DeltaFiles.close",
    "opening": "stanchion.lake.delta:DeltaTarget.open",
    "adding": "stanchion.lake.delta:OpenTable.append",
    "added": "stanchion.spark.datasource.delta.sink:DeltaSink._stored",
}
"""Steps of the sink that writes to a Delta table."""

MISFIT_STEPS = {"bury": "stanchion.streams.source:StreamSource.bury"}

WRITE_STEPS = {
    "rows of a task": "stanchion.spark.datasource.writing.task_stage:TaskStage.add",
    "commit": "stanchion.spark.datasource.writing.write:JobsWriter.commit",
}
"""Steps of a bulk write, beside those of `ANY_STORE`."""

ANY_STORE = {
    "some": [
        "stanchion.stores.sql.jobs.settle:Outcomes.settle",
        "stanchion.stores.redis.store:RedisStore.settle",
        "stanchion.stores.mongo.store:MongoStore.settle",
    ],
    "publication": [
        "stanchion.stores.redis.staging:StageRows.begin",
        "stanchion.stores.mongo.staging:Stage.begin",
    ],
    "piece": [
        f"stanchion.stores.{stage}.drop_{kind}"
        for stage in ("redis.staging:StageRows", "mongo.staging:Stage")
        for kind in ("piece", "prepared")
    ],
}
"""Steps that each store has in a place of its own: a few jobs are settled; a publication begins; a piece of it ends."""

TABLE = "table"
"""The Delta table of a query, in its folder."""

HEARTBEAT = 100
"""Seconds between heartbeats of stations. On a busy machine Spark takes longer than half a minute to start a query
again: items given back meanwhile would count again in the new items of a later batch."""

STAGED = "staged"
"""A file in the folder of a query whose tasks stage all jobs, as large tasks do."""


def kill_at(folder: Path, *steps: str, **how: Any) -> None:
    """Have the processes that look into `folder` die at these steps, one after the other.

    `zombie`: so many seconds later they go on instead. `pids`: those who die with them.
    """
    (folder / "done").unlink(missing_ok=True)
    _arm(folder, {"steps": steps, **how})


def _arm(folder: Path, told: dict[str, Any]) -> None:
    fresh = folder / f"at.{os.getpid()}"
    fresh.write_text(json.dumps(told))
    fresh.rename(folder / "at")


def install(folder: Path) -> None:
    """Let this process die at the steps that the file `at` in `folder` names, such as `after publish`."""
    from stanchion.spark.datasource.writing import task_stage
    from stanchion.stores.cas import staging
    from stanchion.streams import poison, state

    # Spark keeps its processes for later queries, which have folders of their own.
    task_stage.CARRIED_BYTES = -1 if (folder / STAGED).exists() else 1 << 20
    known, sys._stanchion_kills = hasattr(sys, "_stanchion_kills"), folder  # type: ignore[attr-defined]
    if known:
        return
    poison.HALVED_FROM = 1_000_000  # what dies here is no job's fault
    state.PORTION = 3
    staging._PIECE_JOBS = 5
    of_stores = [(step, path) for step, paths in ANY_STORE.items() for path in paths]
    known_steps = {**STEPS, **STATION_STEPS, **WORKER_STEPS, **LAKE_STEPS, **MISFIT_STEPS, **WRITE_STEPS}
    for step, path in [*known_steps.items(), *of_stores]:
        module, _, names = path.partition(":")
        owner: Any = sys.modules.get(module) or __import__(module, fromlist=["_"])
        *above, name = names.split(".")
        for one in above:
            owner = getattr(owner, one)
        setattr(owner, name, deadly(step, getattr(owner, name)))


def deadly(step: str, function: Any) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        station = getattr(args[0], "station", None)
        at = f" at {getattr(station, 'station', station)}"
        die_if_told(f"before {step}", at)
        answer = function(*args, **options)
        die_if_told(f"after {step}", at)
        return answer

    return call


def die_if_told(place: str, at_station: str) -> None:
    folder: Path = sys._stanchion_kills  # type: ignore[attr-defined]
    at = folder / "at"
    try:
        told = json.loads(at.read_text())
    except FileNotFoundError:
        return
    step, *later = told["steps"]
    if step not in (place, place + at_station):
        return
    try:
        at.rename(folder / "done")
    except FileNotFoundError:  # another process of this query was quicker
        return
    if later:
        _arm(folder, {**told, "steps": later})
    for pid in told.get("pids", ()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if told.get("zombie"):
        time.sleep(told["zombie"])
    else:
        os.kill(os.getpid(), signal.SIGKILL)


class Doomed:
    """A station's function; the processes that it is sent to die as `folder` tells them."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        update_wrapper(self, function)
        self.function, self.folder = function, folder

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        install(self.folder)


class DoomedSession:
    """A session whose streams die as `folder` tells them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    @property
    def readStream(self) -> "DoomedSession":  # noqa: N802 - Spark's name
        return self

    def format(self, _source: str) -> Any:
        killed = self._spark.readStream.format("killed").option("folder", str(self._folder))
        return killed.option("heartbeat", HEARTBEAT)


class KilledReader(StreamReader):
    folder: Path

    def read(self, partition: InputPartition) -> Iterator[Any]:
        install(self.folder)
        return super().read(partition)


class KilledWriter(StreamWriter):
    folder: Path

    def write(self, iterator: Iterator[Any]) -> Any:
        install(self.folder)
        return super().write(iterator)


class KilledJobsWriter(JobsWriter):
    folder: Path

    def write(self, iterator: Iterator[Any]) -> Any:
        install(self.folder)
        return super().write(iterator)

    def commit(self, messages: list[Any]) -> None:
        install(self.folder)
        super().commit(messages)


class KilledSink(DeltaSink):
    folder: Path

    def write(self, iterator: Iterator[Any]) -> Any:
        install(self.folder)
        return super().write(iterator)


class KilledSource(StanchionSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    @property
    def _given(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name.lower() != "folder"}

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        writer: Any = super().writer(schema, overwrite)
        writer.__class__ = KilledJobsWriter
        writer.folder = Path(self.options["folder"])
        return writer

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        install(Path(self.options["folder"]))
        reader: Any = super().streamReader(schema)
        reader.__class__ = KilledReader
        reader.folder = Path(self.options["folder"])
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        install(Path(self.options["folder"]))
        writer: Any = super().streamWriter(schema, overwrite)
        writer.__class__ = KilledSink if isinstance(writer, DeltaSink) else KilledWriter
        writer.folder = Path(self.options["folder"])
        return writer


def register(spark: SparkSession) -> None:
    """Make `format("killed")` known."""
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(KilledSource)


def reading(
    spark: SparkSession, url: str, folder: Path, queue: str, batch: int = 20, source: str = "killed", **given: str
) -> Any:
    """Return the rows of a queue as a stream, whose processes die as `folder` tells them."""
    options = {"folder": str(folder)} if source == "killed" else {}
    options |= {"url": url, "stream": "etl" if queue == "raw" else queue, "queue": queue}
    options |= given
    return spark.readStream.format(source).options(**options, maxRecordsPerBatch=str(batch), partitions="2").load()


def run(
    spark: SparkSession,
    url: str,
    folder: Path,
    mode: str,
    batch: int = 20,
    source: str = "killed",
    make: Callable[[SparkSession, str, Path], Any] | None = None,
) -> None:
    """Send all that is ready from `raw` to `clean`, from the checkpoint on; an error when the query died.

    `make`: returns the rows to be written; those of the queue, if left out.
    """
    columns = ["id as job_id", "payload"] if mode in ("move", "finish") else ["payload"]
    frame = make(spark, url, folder) if make else reading(spark, url, folder, "raw", batch, source).selectExpr(*columns)
    options = {"folder": str(folder)} if source == "killed" else {}
    options |= {"path": str(folder / TABLE)} if mode == "delta" else {"to": "clean"}
    query = (
        frame.writeStream.format(source)
        .options(**options, url=url, stream="etl", mode=mode)
        .options(checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def drive(work: Callable[[SparkSession, str, Path], None]) -> None:
    """Work in a driver of its own, all of which is killed; the program's arguments are a URL and the folder."""
    from stanchion.spark import session
    from tests.spark.conftest import FAST
    from tests.spark.supervision import one_at_a_time

    url, folder = sys.argv[1], Path(sys.argv[2])
    with one_at_a_time():
        mine = session("local[2]", **FAST)
    register(mine)
    at = folder / "at"
    if at.exists():
        java = int(mine.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        at.write_text(json.dumps({**json.loads(at.read_text()), "pids": [java, os.getpid()]}))
    install(folder)
    work(mine, url, folder)
    mine.stop()


if __name__ == "__main__":
    from tests.spark import killing

    killing.drive(lambda spark, url, folder: killing.run(spark, url, folder, sys.argv[3]))
