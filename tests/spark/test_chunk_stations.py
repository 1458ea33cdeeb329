"""Chunks at Spark stations: each item is a row, and has an end of its own."""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from stanchion import Retry, Stanchion, Table
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine as stations
from stanchion.spark.stations.batches.item_rows import ItemReader
from stanchion.spark.stations.queries import _Batches
from stanchion.stores.ports import ResultTables
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.streams import StreamSource
from tests.spark.conftest import nightly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TWICE = Retry.constant(0, jitter=0, max_attempts=2)


def values(found: Any) -> list[Any]:
    """Return the items in the content of a job."""
    return list(found) if isinstance(found, Chunk) else [found]


def run(spark: "SparkSession", etl: Pipeline, station: str, batches: int = 100) -> None:
    """Run the batches of a Spark station, as its query does."""
    one = plan_of(etl).station(station)
    assert one.frame is not None
    source = StreamSource(one.context.store, one.queue, one.queue)
    for _ in range(batches):
        start = source.initial()
        end = source.latest(start, one.frame.max_per_batch)
        if start == end:
            return
        source.parts(start, end, 2, one.frame.max_per_batch)
        _Batches(one, 2, {})(spark.range(1), end.seq)


def results(etl: Pipeline, station: str) -> list[Any]:
    """Return the results of the items of a station."""
    done = etl.queue(station).find(state="done", limit=1000)
    return [one for job in done if job.result is not None for one in values(job.result)]


def counts(etl: Pipeline) -> dict[str, tuple[int, ...]]:
    """Return how many items came, went on, were dropped, died, and are left, by station."""
    found = etl.status().stations
    return {one.station: (one.came, one.out, one.dropped, one.dead, one.depth.total) for one in found}


def sorting(app: Stanchion) -> Pipeline:
    """Declare a pipeline whose first station gives items all the ends that there are."""
    etl = app.pipeline("sort")

    @etl.spark_station("raw", to=["small", "large", "sums"], schema="n int", retry=TWICE, max_per_batch=70)
    @etl.expect("n <> 5", on_fail="drop")
    @etl.expect("n <> 6")
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        from pyspark.sql import functions as f

        failed = f.when(items.n == 7, "seven").when((items.n == 8), "eight")
        rows = items.where("n <> 9").withColumn("twice", items.n * 2).withColumn("error", failed)
        sums = items.agg(f.sum("n").alias("sum"))
        return {"small": rows.where("n < 50"), "large": rows.where("n >= 50"), "sums": sums}

    etl.spark_station("small", schema="n int, twice int")(lambda items: items.where("n <> 10"))
    etl.station("large")(lambda item: item["n"])
    etl.station("sums")(lambda item: item["sum"])
    return etl


GONE = {5, 6, 7, 8, 9}
SMALL = [n for n in range(50) if n not in GONE]
LARGE = [*range(50, 90), *range(100, 105)]


def push(etl: Pipeline) -> str:
    """Push chunks of both encodings, and single items; return the id of the first chunk."""
    (chunk, *_) = etl.push_chunks([{"n": n} for n in range(90)], size=30)
    etl.push_chunks([{"n": 100}, {"n": 1.5}, {"n": 101, "more": [1]}])
    etl.push_many([{"n": n} for n in range(102, 105)])
    return chunk.id


def judge(etl: Pipeline, chunk: str) -> None:
    """Judge the ends of all items."""
    assert sorted(one["n"] for one in results(etl, "small")) == [n for n in SMALL if n != 10]
    assert {one["twice"] - 2 * one["n"] for one in results(etl, "small")} == {0}
    assert sorted(results(etl, "large")) == LARGE
    letters = etl.dead_letters.find()
    assert {str(job.payload["n"]): job.errors[-1]["error"].partition("\n")[0] for job in letters} == {
        "6": "ExpectationFailed: n <> 6",
        "7": "ItemFailed: seven",
        "8": "ItemFailed: eight",
        "1.5": "the item does not fit the schema of station 'raw' (n int): {\"n\":1.5}",
    }
    assert {job.payload["n"]: job.attempts for job in letters} == {6: 1, 7: 2, 8: 2, 1.5: 1}
    found = counts(etl)
    sums = found.pop("sums")[0]
    assert found == {"raw": (96, 90, 2, 4, 0), "small": (45, 45, 0, 0, 0), "large": (45, 45, 0, 0, 0)}
    assert len(results(etl, "sums")) == sums
    # A chunk that goes on as a whole keeps its name, and so do the parts of a divided one.
    done = etl.queue("small").find(state="done")
    names = {name for job in done if job.items for name in job.payload.names(job.id)}
    dropped = f"{chunk}/10"  # it stays only with a chunk that ends as a whole
    assert {name for name in names if name.startswith(chunk)} - {dropped} == {
        f"{chunk}/{n}" for n in SMALL if n < 30 and n != 10
    }


@pytest.mark.parametrize("sql_app", ["sqlite", nightly("postgresql")], indirect=True)
def test_each_item_has_an_end_of_its_own(spark: "SparkSession", sql_app: Stanchion) -> None:
    etl = sorting(sql_app)
    chunk = push(etl)
    run(spark, etl, "raw")
    run(spark, etl, "small")
    while etl.queue("large").size().total or etl.queue("sums").size().total:
        sql_app.drain(queues=[etl.queue(name).name for name in ("large", "sums")])
    judge(etl, chunk)


@pytest.mark.nightly
def test_the_engine_runs_them_on_other_stores(spark: "SparkSession", other_app: Stanchion) -> None:
    etl = sorting(other_app)
    chunk = push(etl)
    stations.run(etl, spark=spark, available_now=True)
    judge(etl, chunk)


def test_chunks_that_become_new_items_end_with_them(spark: "SparkSession", app: Stanchion) -> None:
    """An item that the function did not get ends in the step that publishes what it made of the others."""
    etl = app.pipeline("sums")

    @etl.spark_station("raw", to="sums", schema="n int")
    @etl.expect("n <> 3")
    def raw(items: "DataFrame") -> "DataFrame":
        return items.groupBy().sum("n").toDF("sum")

    etl.station("sums")(lambda item: item)
    etl.push_chunks([{"n": n} for n in range(10)])
    etl.push_chunks([{"n": n} for n in range(10, 20)])
    run(spark, etl, "raw")
    assert [job.payload["sum"] for job in etl.queue("sums").find()] == [sum(range(20)) - 3]
    assert [job.payload for job in etl.dead_letters.find()] == [{"n": 3}]
    assert counts(etl)["raw"] == (20, 0, 19, 1, 0)


@pytest.mark.parametrize("sql_app", ["sqlite", nightly("postgresql")], indirect=True)
def test_new_items_are_packed(spark: "SparkSession", sql_app: Stanchion) -> None:
    """Small chunks and single items become large chunks, in the step that ends them."""
    etl = sql_app.pipeline("packed")

    @etl.spark_station("raw", to=["even", "odd"], schema="n int", rows_per_job=16, max_per_batch=80)
    @etl.expect("n <> 3")
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        new = items.drop("job_id").coalesce(1)
        return {"even": new.where("n % 2 = 0"), "odd": new.where("n % 2 = 1")}

    for end in ("even", "odd"):
        etl.station(end)(lambda item: item)
    etl.push_chunks([{"n": n} for n in range(60)], size=5)
    etl.push_many([{"n": n} for n in range(60, 80)])
    run(spark, etl, "raw")
    for odd, end in enumerate(("even", "odd")):
        jobs = etl.queue(end).find()
        wanted = [n for n in range(odd, 80, 2) if n != 3]
        assert sorted(one["n"] for job in jobs for one in values(job.payload)) == wanted
        assert max(job.items or 1 for job in jobs) == 16
        assert len(jobs) < 6  # a batch leaves one that is not full
        assert all(job.headers["x-lineage"]["station"] == "packed.raw" for job in jobs)
    assert counts(etl)["raw"] == (80, 0, 79, 1, 0)
    assert etl.queue("raw").size().total == 0


def test_packing_is_checked(app: Stanchion) -> None:
    etl = app.pipeline("wrong")
    with pytest.raises(InvalidInput, match="rows_per_job"):
        etl.spark_station("raw", schema="n int", rows_per_job=0)(lambda items: items)
    windows: dict[str, Any] = {"watermark": ("at", 60), "checkpoint": "x", "to": "end"}
    with pytest.raises(InvalidInput, match="without a watermark"):
        etl.spark_station("raw", schema="at timestamp", rows_per_job=10, **windows)(lambda items: items)


def test_rows_of_tables(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("tables")

    @etl.spark_station("raw", to=Table("even", schema="n bigint not null, twice bigint"), schema="n int")
    def raw(items: "DataFrame") -> "DataFrame":
        return items.where("n <> 4").withColumn("twice", items.n * 2)

    plan_of(etl).prepare()
    etl.push_chunks([{"n": n} for n in range(10)])
    run(spark, etl, "raw")
    tables = app.store.extension(ResultTables)
    assert tables is not None
    table = plan_of(etl).station("raw").tables["even"].result
    assert sorted(row[2:] for some in tables.table_rows(table) for row in some) == [
        (n, 2 * n) for n in range(10) if n != 4
    ]
    assert counts(etl)["raw"] == (10, 9, 1, 0, 0)


def test_what_is_read_as_columns_is_what_spark_reads_as_json(spark: "SparkSession", app: Stanchion) -> None:
    schema = "a int, b bigint, c double, d string, e boolean, f tinyint"
    etl = app.pipeline("exact")
    etl.spark_station("raw", schema=schema)(lambda items: items)
    station, rng = plan_of(etl).station("raw"), random.Random(7)
    kinds: list[Callable[[], Any]] = [
        lambda: rng.randrange(-130, 130),
        lambda: rng.choice([2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 0]),
        lambda: rng.choice([0.5, -0.0, 1e300, 2.0]),
        lambda: rng.choice(["", "é", "7", "\n", "null", "\U0001f600"]),
        lambda: rng.random() < 0.5,
        lambda: None,
        lambda: [1],
    ]
    read, typed = ItemReader.of(station, schema), 0
    jobs = []
    for _ in range(200):
        made = {
            name: rng.choice([own, own, rng.choice(kinds)])
            for name, own in zip("abcdef", [*kinds[:5], kinds[0]], strict=True)
        }
        left_out = rng.choice("abcdefg")
        items = [{name: make() for name, make in made.items() if name != left_out} for _ in range(3)]
        jobs.append(row_of(app, items))
    found = {}
    for reader in (read, ItemReader(station, None)):
        (table,) = [pa.Table.from_batches(list(reader.rows(jobs)))]
        typed += 0 if reader.typed is None else table.num_rows - table.column("typed").null_count
        fits, refused = reader.parsed(spark.createDataFrame(table, reader.ddl), schema)
        ids = fits.schema.names.index("job_id")
        rows = {row[ids]: repr(tuple(row)) for row in fits.collect()}
        found[reader.typed is None] = rows, {row["id"] for row in refused.collect()}
        assert (
            fits.schema.simpleString() == "struct<a:int,b:bigint,c:double,d:string,e:boolean,f:tinyint,job_id:string>"
        )
    assert found[True] == found[False]
    assert 50 < typed < 550
    assert len(found[True][1]) > 10


def row_of(app: Stanchion, items: Sequence[object]) -> JobRow:
    """Return a reserved job that carries items."""
    codec = context_of(app).codec
    made = created(NewJob(new_id(), "exact.raw", stored(codec, Chunk.of(items))), app.store.now())
    return made._replace(token="token")
