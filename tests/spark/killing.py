"""A data source whose Python processes die at a given step, once.

It is pickled by value, so that Spark's processes need not find this module.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark.cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from stanchion.spark.source import StanchionSource
from stanchion.spark.stream_sink import StreamWriter
from stanchion.spark.stream_source import StreamReader

STEPS = {
    "open": "stanchion.streams.source:StreamSource._open",
    "latest": "stanchion.streams.source:StreamSource.latest",
    "claim": "stanchion.streams.source:StreamSource._reserve",
    "note": "stanchion.streams.source:swap",
    "parts": "stanchion.streams.source:StreamSource.parts",
    "begin": "stanchion.spark.stream_source:begin",
    "rows": "stanchion.spark.stream_source:rows",
    "take": "stanchion.spark.stream_sink:StreamWriter._take",
    "settle": "stanchion.streams.sink:SinkBatch.settle",
    "publish": "stanchion.streams.sink:SinkBatch.publish",
    "drop": "stanchion.streams.sink:SinkBatch.drop_rest",
    "acknowledge": "stanchion.streams.sink:acknowledge",
}


def install(folder: Path) -> None:
    """Let this process die at the step that the file `at` in `folder` names, such as `after publish`."""
    import stanchion.streams.source as source

    # Spark keeps its processes for later queries, which have folders of their own.
    known, sys._stanchion_kills = hasattr(sys, "_stanchion_kills"), folder  # type: ignore[attr-defined]
    if known:
        return
    source.HALVED_FROM = source.BURIED_FROM = 1_000_000  # what dies here is no job's fault
    for step, path in STEPS.items():
        module, _, names = path.partition(":")
        owner: Any = sys.modules.get(module) or __import__(module, fromlist=["_"])
        *above, name = names.split(".")
        for one in above:
            owner = getattr(owner, one)
        setattr(owner, name, deadly(step, getattr(owner, name)))


def deadly(step: str, function: Any) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        die_if_told(f"before {step}")
        answer = function(*args, **options)
        die_if_told(f"after {step}")
        return answer

    return call


def die_if_told(place: str) -> None:
    folder: Path = sys._stanchion_kills  # type: ignore[attr-defined]
    at = folder / "at"
    try:
        told = json.loads(at.read_text())
    except FileNotFoundError:
        return
    if told["step"] != place:
        return
    try:
        at.rename(folder / "done")
    except FileNotFoundError:  # another process of this query was quicker
        return
    for pid in told.get("pids", ()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if told.get("zombie"):
        time.sleep(told["zombie"])
    else:
        os.kill(os.getpid(), signal.SIGKILL)


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


class KilledSource(StanchionSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    @property
    def _given(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name.lower() != "folder"}

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        install(Path(self.options["folder"]))
        reader: Any = super().streamReader(schema)
        reader.__class__ = KilledReader
        reader.folder = Path(self.options["folder"])
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        install(Path(self.options["folder"]))
        writer: Any = super().streamWriter(schema, overwrite)
        writer.__class__ = KilledWriter
        writer.folder = Path(self.options["folder"])
        return writer


def register(spark: SparkSession) -> None:
    """Make `format("killed")` known."""
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(KilledSource)


def run(spark: SparkSession, url: str, folder: Path, mode: str, batch: int = 20, source: str = "killed") -> None:
    """Send all that is ready from `raw` to `clean`, from the checkpoint on; an error when the query died."""
    options = {"url": url, "stream": "etl", **({"folder": str(folder)} if source == "killed" else {})}
    frame = (
        spark.readStream.format(source)
        .options(**options, queue="raw", maxRecordsPerBatch=str(batch), partitions="2")
        .load()
    )
    columns = ["payload"] if mode == "append" else ["id as job_id", "payload"]
    query = (
        frame.selectExpr(*columns)
        .writeStream.format(source)
        .options(**options, mode=mode, to="clean", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":  # a driver of its own, for those who kill all of it
    from stanchion.spark import session
    from tests.spark import killing
    from tests.spark.conftest import FAST

    told = Path(sys.argv[2], "at")
    mine = session("local[2]", **FAST)
    killing.register(mine)
    if told.exists():
        java = int(mine.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        told.write_text(json.dumps({**json.loads(told.read_text()), "pids": [os.getpid(), java]}))
    killing.run(mine, sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    mine.stop()
