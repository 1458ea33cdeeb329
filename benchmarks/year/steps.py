"""The steps: flights become items, go through three stations on Spark, and end in an archive with a report.

flights ──write, in chunks──► raw ──flown, with delays──► clean ──with airports──► landed ──► archive ──► report
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flights import source
from stanchion import Stanchion
from stanchion.pipelines import Pipeline
from stanchion.pipelines.status import StationProgress
from stanchion.spark import archive, report
from stanchion.spark.stations import engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_JOB = 10_000
FLIGHT = "tailnum string, carrier string, origin string, dest string, dep_delay double, arr_delay double, distance int"

Tell = Callable[[int], None]
"""Takes how many rows or jobs a step has done so far."""


@dataclass
class Year:
    """A year of flights, so many times, in one store. `folder`: for files."""

    spark: SparkSession
    app: Stanchion
    folder: Path
    times: int

    def steps(self) -> Iterator[tuple[str, int, Callable[[Tell], int]]]:
        """Yield each step: what it does, the rows that it should do, and a function that returns how many it did."""
        self._files()
        flown, everything = self._counts()
        yield "write the flights", everything, self._write
        yield "three stations: drop and compute, join with airports, finish", flown, self._stations
        yield "archive, a row for each flight", flown, self._archive
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
        frame = rows.repartition(max(2, self.times)).drop("copy")
        writer = frame.write.format("stanchion").mode("append")
        writer.options(url=self.app.url, queue="year.raw", rowsPerJob=ROWS_PER_JOB, writeId="year").save()
        return self.app.queue("year.raw").counts().pushed

    def _stations(self, tell: Tell) -> int:
        etl = stations(self.app, pq.read_table(self.folder / "airports.parquet"))

        def watch(progress: Sequence[StationProgress]) -> None:
            tell(progress[-1].done)

        engine.run(etl, spark=self.spark, available_now=True, watch=watch)
        return self.app.queue("year.landed").counts().committed

    def _archive(self, tell: Tell) -> int:
        place = self.folder / "archive"
        done = archive(
            self.app, place, queues=["year.landed"], older_than=0, engine="spark", spark=self.spark, watch=tell
        )
        return done.items

    def _report(self, _tell: Tell) -> int:
        made = report(None, self.folder / "archive", spark=self.spark)
        (self.folder / "report.html").write_text(made.html(), encoding="utf-8")
        return made.jobs


def stations(app: Stanchion, airports: pa.Table) -> Pipeline:
    """Declare the stations: plain functions of tables, which Spark's tasks run one after the other in memory."""
    etl = app.pipeline("year")

    @etl.station("raw", to="clean", takes="arrow")
    def flown(flights: pa.Table) -> pa.Table:
        flights = flights.filter(pc.is_valid(flights["dep_delay"]))
        return flights.append_column("late", pc.greater(flights["arr_delay"], 60))

    @etl.station("clean", to="landed", takes="arrow")
    def joined(flights: pa.Table) -> pa.Table:
        return flights.join(airports, "dest", "faa", "left outer")

    @etl.station("landed", takes="arrow")
    def landed(flights: pa.Table) -> pa.Table:
        return flights

    return etl


def _kinds() -> list[str]:
    """Return the columns of a flight with the types that the files of flights know."""
    return [column.replace(" int", " bigint") for column in FLIGHT.split(", ")]
