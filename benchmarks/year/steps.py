"""The steps: flights become jobs, go through three streams, and end in an archive with a report.

flights ──write──► raw ──flown, with delays──► clean ──with airports──► joined ──finished──► archive ──► report
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from flights import source
from stanchion import Stanchion
from stanchion.spark import archive, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW, CLEAN, JOINED = "raw", "clean", "joined"
PER_BATCH = 50_000
FLIGHT = "tailnum string, carrier string, origin string, dest string, dep_delay double, arr_delay double, distance int"

Tell = Callable[[int], None]
"""Takes how many rows or jobs a step has done so far."""


@dataclass
class Year:
    """A year of flights, so many times, in one store. `folder`: for files and checkpoints."""

    spark: SparkSession
    app: Stanchion
    folder: Path
    times: int

    def steps(self) -> Iterator[tuple[str, int, Callable[[Tell], int]]]:
        """Yield each step: what it does, the rows that it should do, and a function that returns how many it did."""
        self._files()
        flown, everything = self._counts()
        yield "write the flights as jobs", everything, self._write
        yield "stream 1: drop what was cancelled, compute", everything, lambda tell: self._stream(RAW, CLEAN, tell)
        yield "stream 2: join with airports", flown, lambda tell: self._stream(CLEAN, JOINED, tell)
        yield "stream 3: finish, with results", flown, lambda tell: self._stream(JOINED, None, tell)
        yield "archive", flown, self._archive
        yield "report", flown, self._report

    def _files(self) -> None:
        """Write what is read: the flights of a year once, and the airports."""
        names = [column.split()[0] for column in FLIGHT.split(", ")]
        rows = [
            {name: source.value(row[name], type_) for name, type_ in (column.split() for column in _kinds())}
            for row in source.flights(everything=source.are_real())
        ]
        pq.write_table(pa.Table.from_pylist(rows).select(names), self.folder / "flights.parquet")
        airports = [{"faa": key[0], **known} for key, known in source.known()["airport"].items()]
        pq.write_table(pa.Table.from_pylist(airports), self.folder / "airports.parquet")

    def _flights(self) -> DataFrame:
        from pyspark.sql import functions as f

        year = self.spark.read.parquet(str(self.folder / "flights.parquet"))
        return year.select(
            *(f.col(name).cast(kind) for name, kind in (column.split() for column in FLIGHT.split(", ")))
        )

    def _counts(self) -> tuple[int, int]:
        flights = self._flights()
        return self.times * flights.where("dep_delay is not null").count(), self.times * flights.count()

    def _write(self, _tell: Tell) -> int:
        from pyspark.sql import functions as f

        rows = self.spark.range(self.times).withColumnRenamed("id", "copy").crossJoin(f.broadcast(self._flights()))
        payload = f.to_json(f.struct(*(name.split()[0] for name in FLIGHT.split(", ")))).alias("payload")
        frame = rows.repartition(max(2, self.times)).select(payload)
        frame.write.format("stanchion").mode("append").options(url=self.app.url, queue=RAW, writeId="year").save()
        return self.app.queue(RAW).counts().pushed  # of a counter: there are too many jobs to count them again

    def _stream(self, queue: str, to: str | None, tell: Tell) -> int:
        from pyspark.sql import functions as f

        jobs = self.spark.readStream.format("stanchion")
        jobs = jobs.options(url=self.app.url, queue=queue, maxRecordsPerBatch=PER_BATCH)
        rows = jobs.load().select("id", f.from_json("payload", f"{FLIGHT}, late boolean").alias("flight"))
        rows = rows.select("id", "flight.*")
        if queue == RAW:
            rows = rows.where("dep_delay is not null").withColumn("late", f.col("arr_delay") > 60)
        if queue == CLEAN:
            airports = self.spark.read.parquet(str(self.folder / "airports.parquet"))
            rows = rows.join(f.broadcast(airports), rows.dest == airports.faa, "left")
        content = f.to_json(f.struct(*(name for name in rows.columns if name != "id")))
        options = {"mode": "finish"} if to is None else {"queue": to}
        frame = (
            rows.select(f.col("id").alias("job_id"), content.alias("result"))
            if to is None
            else rows.select(content.alias("payload"))
        )
        writer = frame.writeStream.format("stanchion").options(
            url=self.app.url, stream=queue, checkpointLocation=str(self.folder / queue), **options
        )
        source = self.app.queue(queue)
        finished = source.counts().committed
        query = writer.trigger(availableNow=True).start()
        while query.isActive:
            tell(source.counts().committed - finished)
            time.sleep(1.0)
        query.awaitTermination()
        return source.counts().committed - finished

    def _archive(self, tell: Tell) -> int:
        place = self.folder / "archive"
        done = archive(self.app, place, queues=[JOINED], older_than=0, engine="spark", spark=self.spark, watch=tell)
        return done.archived

    def _report(self, _tell: Tell) -> int:
        made = report(None, self.folder / "archive", spark=self.spark)
        (self.folder / "report.html").write_text(made.html(), encoding="utf-8")
        return made.jobs


def _kinds() -> list[str]:
    """Return the columns of a flight with the types that the files of flights know."""
    return [column.replace(" int", " bigint") for column in FLIGHT.split(", ")]
