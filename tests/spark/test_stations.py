"""The stations of a pipeline as streams of Spark: with the same result as on workers."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Retry, Send, Stanchion, Table
from stanchion.errors import InvalidInput, StanchionError
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine as stations
from stanchion.spark.stations.batches.ends import ItemEnds
from stanchion.stores.ports import ResultTables
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit, Move
from stanchion.streams.state import KIND, StreamState
from tests.spark.conftest import nightly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FARES = {"a": 3, "b": 5}
ITEMS = [{"n": n, "zone": "ab"[n % 2]} for n in range(40)]


def fares(app: Stanchion) -> Pipeline:
    """Declare a pipeline of plain stations around one that joins its items with a table."""
    etl = app.pipeline("fares")

    @etl.station("raw", to=["priced", "odd"], retry=Retry.constant(0, jitter=0, max_attempts=2))
    def raw(item: dict[str, Any]) -> Any:
        if item["n"] % 10 == 9:
            return None if item["n"] == 9 else []
        if item["n"] == 7:
            raise ValueError("seven")
        if item["n"] == 8:
            return [Send("odd", {"part": part}) for part in range(3)]
        return Send("priced", item)

    @etl.spark_station("priced", to="done", schema="n int, zone string", worker=priced_alone, max_per_batch=15)
    def priced(items: "DataFrame") -> "DataFrame":
        table = items.sparkSession.createDataFrame(list(FARES.items()), "zone string, fare int")
        return items.join(table, "zone").withColumn("discount", items.n * 0.5)

    @etl.station("odd")
    def odd(item: dict[str, Any]) -> dict[str, Any]:
        return item

    @etl.station("done")
    def done(item: dict[str, Any]) -> dict[str, Any]:
        return item

    return etl


def priced_alone(item: dict[str, Any]) -> dict[str, Any]:
    """Do with one item what the station does with many."""
    return {**item, "fare": FARES[item["zone"]], "discount": item["n"] * 0.5}


def outcome(etl: Pipeline) -> dict[str, Any]:
    """Return what a run has left."""
    status = etl.status()
    return {
        "results": {
            name: Counter(str(sorted(job.result.items())) for job in etl.queue(name).find(state="done", limit=1000))
            for name in ("odd", "done")
        },
        "dead": [(job.payload, job.errors[-1]["error"]) for job in etl.dead_letters.find()],
        "stations": [(one.station, one.came, one.out, one.dropped, one.depth.total) for one in status.stations],
    }


def test_stations_keep_what_arrives(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("kept")
    etl.station("raw", to="priced")(lambda item: {**item, "raw": 1})

    @etl.spark_station("priced", to="done", schema="n int, raw int", keep_arrival=True)
    def priced(items: "DataFrame") -> "DataFrame":
        return items.withColumn("fare", items.n * 2)

    etl.station("done", to="end", keep_arrival=True)(lambda item: item["fare"])
    etl.station("end")(lambda fare: fare + 1)
    etl.push_many([{"n": n} for n in range(3)])
    stations.run(etl, spark=spark, available_now=True)
    for station in ("raw", "priced", "done", "end"):
        found = etl.backfill(station)
        assert (station, found.enqueued, found.left_out.get("payload")) == (station, 3, None)
    copies = {name: [job.payload for job in etl.queue(name).find(state="ready")] for name in ("priced", "done")}
    assert sorted(copies["priced"], key=str) == [{"n": n, "raw": 1} for n in range(3)]
    assert sorted(copies["done"], key=str) == [{"n": n, "raw": 1, "fare": 2 * n} for n in range(3)]


@pytest.mark.parametrize("sql_app", [nightly("sqlite"), nightly("postgresql")], indirect=True)
def test_it_does_what_workers_do(spark: "SparkSession", sql_app: Stanchion, tmp_path: Any) -> None:
    etl = fares(sql_app)
    pushed = etl.push_many(ITEMS)
    assert isinstance(pushed, list)
    stations.run(etl, spark=spark, available_now=True)

    beside = Stanchion(f"sqlite:///{tmp_path / 'beside.db'}")
    on_workers = fares(beside)
    on_workers.push_many(ITEMS)
    on_workers.drain()

    assert outcome(etl) == outcome(on_workers)
    assert len(outcome(etl)["results"]["done"]) == 34
    job = sql_app.get(pushed[0].id)
    assert job is not None
    assert (job.state, [stop[0] for stop in job.headers["x-route"]]) == ("done", ["raw", "priced"])
    assert [stop.queue.rpartition(".")[2] for stop in job.trail] == ["raw", "priced", "done"]
    (again,) = etl.replay([job.id])  # the payload of the entry is kept, as on workers
    assert again.payload == pushed[0].payload


@pytest.mark.parametrize("sql_app", [nightly("sqlite"), nightly("postgresql")], indirect=True)
def test_rows_of_tables(spark: "SparkSession", sql_app: Stanchion) -> None:
    """Plain stations and Spark stations write items to tables of the store's database."""
    etl = sql_app.pipeline("tables")

    @etl.station("raw", to=["spark", Table("odd", schema="n bigint not null")])
    def raw(item: dict[str, Any]) -> Send:
        return Send("odd" if item["n"] % 2 else "spark", item)

    @etl.spark_station("spark", to=Table("even", schema="n bigint not null, twice bigint"), schema="n int")
    def spark_station(items: "DataFrame") -> "DataFrame":
        return items.where("n <> 4").withColumn("twice", items.n * 2)

    etl.push_many([{"n": n} for n in range(20)])
    etl.push_chunks([{"n": n} for n in range(21, 61, 2)])
    stations.run(etl, spark=spark, available_now=True)
    found = {}
    for name, station in (("odd", "raw"), ("even", "spark")):
        table = plan_of(etl).station(station).tables[name].result
        tables = sql_app.store.extension(ResultTables)
        assert tables is not None
        found[name] = sorted(row[2:] for some in tables.table_rows(table) for row in some)
    assert found["odd"] == [(n,) for n in (*range(1, 20, 2), *range(21, 61, 2))]
    assert found["even"] == [(n, 2 * n) for n in range(0, 20, 2) if n != 4]
    status = {one.station: (one.came, one.out, one.dropped) for one in etl.status().stations}
    assert status == {"raw": (40, 40, 0), "spark": (10, 9, 1)}


@pytest.mark.nightly
def test_rows_of_tables_keep_their_items(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("tables")
    table = Table("sums", schema="total bigint")
    etl.spark_station("raw", to=table, schema="n int")(lambda items: items.agg({"n": "sum"}).toDF("total"))
    etl.push({"n": 1})
    with pytest.raises(StanchionError, match="ends an item: keep the column job_id"):
        stations.run(etl, spark=spark, available_now=True)
    with pytest.raises(InvalidInput, match="makes new items"):
        etl.spark_station("w", schema="n int, at timestamp", to=table, watermark=("at", 60), checkpoint="x")


@pytest.mark.nightly
def test_rows_without_the_id_of_an_item_are_new_items(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("sums")

    @etl.spark_station("raw", to=["sums", "large"], schema="n int")
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        sums = items.groupBy((items.n % 2).alias("odd")).sum("n").withColumnRenamed("sum(n)", "sum")
        return {"sums": sums, "large": items.where("n >= 8")}

    for end in ("sums", "large"):
        etl.station(end)(lambda item: item)
    pushed = etl.push_many([{"n": n} for n in range(10)])
    assert isinstance(pushed, list)
    stations.run(etl, spark=spark, available_now=True)

    def results(station: str) -> list[Any]:
        return sorted((job.result for job in etl.queue(station).find(state="done")), key=str)

    assert results("sums") == [{"odd": 0, "sum": 20}, {"odd": 1, "sum": 25}]
    assert results("large") == [{"n": 8}, {"n": 9}]
    (made_from,) = {json.dumps(job.headers["x-lineage"]) for job in etl.queue("sums").find(state="done")}
    ranges = json.loads(made_from)["items"]
    assert (json.loads(made_from)["station"], ranges[0][0], ranges[-1][1]) == ("sums.raw", pushed[0].id, pushed[-1].id)
    assert etl.queue("raw").size().total == 0


@pytest.mark.parametrize("sql_app", [nightly("sqlite"), nightly("postgresql")], indirect=True)
def test_aggregates_only(spark: "SparkSession", sql_app: Stanchion) -> None:
    etl, names = sql_app.pipeline("counts"), list[Any]()

    @etl.spark_station("raw", to="counts", schema="zone string, n int")
    def raw(items: "DataFrame") -> "DataFrame":
        names.append(items.sparkSession.sparkContext.getLocalProperty("spark.job.description"))
        return items.groupBy("zone").count()

    etl.station("counts")(lambda item: item)
    etl.push_many(ITEMS)
    stations.run(etl, spark=spark, available_now=True)
    counts = sorted((job.result["zone"], job.result["count"]) for job in etl.queue("counts").find(state="done"))
    assert counts == [("a", 20), ("b", 20)]
    assert etl.queue("raw").counts().committed == 40
    assert {name.split()[0] for name in names} == {"counts.raw"}  # what its jobs are called in Spark's UI


@pytest.mark.nightly
def test_items_that_do_not_fit_the_schema_are_dead(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("fit")

    @etl.spark_station("raw", schema="n int")
    def raw(items: "DataFrame") -> "DataFrame":
        return items

    etl.push_many([{"n": 1}, {"n": "many"}, {"n": 3}])
    stations.run(etl, spark=spark, available_now=True)
    (dead,) = etl.dead_letters.find()
    assert dead.payload == {"n": "many"}
    assert "does not fit the schema of station 'raw' (n int)" in dead.errors[-1]["error"]
    assert sorted(job.result["n"] for job in etl.queue("raw").find(state="done")) == [1, 3]


@pytest.mark.nightly
def test_items_that_break_the_function_are_dead_in_the_end(spark: "SparkSession", app: Stanchion) -> None:
    """The new items beside them are made once, however often the batch is tried."""
    etl = app.pipeline("poison")

    twice = Retry.constant(0, jitter=0, max_attempts=2)

    @etl.spark_station("raw", to=["on", "counts"], schema="n int", max_per_batch=4, retry=twice)
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        from pyspark.sql import functions as f

        too_long = f.when(items.n == 1, f.repeat(f.lit("x"), 2**21)).otherwise("fine")
        text = f.when(items.n == 2, f.raise_error(f.lit("two"))).otherwise(too_long)
        return {"on": items.withColumn("x", text), "counts": items.groupBy().count()}

    for end in ("on", "counts"):
        etl.station(end)(lambda item: item)
    etl.push_many([{"n": n} for n in range(4)])
    stations.run(etl, spark=spark, available_now=True)
    dead = {job.payload["n"]: job.errors[-1]["error"] for job in etl.dead_letters.find()}
    assert {n: error.partition(":")[0] for n, error in dead.items()} == {1: "InvalidInput", 2: "PoisonJob"}
    assert "two" in dead[2], dead[2]
    assert sum(job.result["count"] for job in etl.queue("counts").find(state="done")) == 3
    assert sorted(job.result["n"] for job in etl.queue("on").find(state="done")) == [0, 3]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda items: {"nowhere": items}, "returned rows for 'nowhere', which is not in its to="),
        pytest.param(lambda items: items.union(items), "an item moves on once", marks=pytest.mark.nightly),
        pytest.param(
            lambda items: items.drop("job_id"),
            "is an end, so each row it returns is the result of an item",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_mistakes_are_told_and_nothing_is_lost(
    spark: "SparkSession", app: Stanchion, monkeypatch: pytest.MonkeyPatch, make: Any, told: str
) -> None:
    monkeypatch.setattr(type(spark.sparkContext), "uiWebUrl", "http://driver-1:4040")
    etl = app.pipeline("wrong")
    seen: list[str] = []

    @etl.spark_station("raw", schema="n int")
    def mistaken(items: "DataFrame") -> "DataFrame":
        seen.extend(StreamState.of(value).ui for value in app.store.values(KIND))
        made: DataFrame = make(items)
        return made

    etl.push_many([{"n": 1}])
    with pytest.raises(StanchionError, match=told):
        stations.run(etl, spark=spark, available_now=True)
    assert etl.queue("raw").size().ready == 1
    assert seen[0] == "http://driver-1:4040"


def test_what_goes_on_keeps_its_digits(app: Stanchion) -> None:
    """Spark's text is not taken for a float on its way."""
    etl = app.pipeline("exact")
    for name, to in (("raw", "end"), ("end", ())):
        etl.spark_station(name, to=to, schema="a decimal(38, 20)")(lambda items: items)
    exact = '{"a":0.12345678901234567890}'
    found = []
    for name, to in (("raw", "end"), ("end", "")):
        etl.push({"a": 1}, station=name)
        (row,) = app.store.claim(Claim(f"exact.{name}", 1, f"token of {name}", lease=30.0)).rows
        found.append(
            ItemEnds(plan_of(etl).stations[name]).single(
                row, {"job_id": row.id, "payload": exact, "to": to, "error": None}
            )
        )
    assert [(type(one), getattr(one, name)) for one, name in zip(found, ("payload", "result"), strict=True)] == [
        (Move, exact),
        (Commit, exact),
    ]


def test_memory_is_refused(spark: "SparkSession") -> None:
    etl = Stanchion("memory://").pipeline("none")
    etl.station("raw")(lambda item: item)
    with pytest.raises(InvalidInput, match="memory:// lives in one process"):
        stations.run(etl, spark=spark)


@pytest.mark.parametrize("paused", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_paused_station_keeps_its_items(spark: "SparkSession", app: Stanchion, paused: bool) -> None:
    etl = app.pipeline("still")
    etl.station("raw")(lambda item: item)
    etl.push(1)
    if paused:
        etl.pause()
    stations.run(etl, spark=spark, available_now=True)
    assert etl.queue("raw").size().total == int(paused)


@pytest.mark.nightly
def test_other_stores(spark: "SparkSession", other_app: Stanchion) -> None:
    etl = fares(other_app)
    etl.push_many(ITEMS)
    stations.run(etl, spark=spark, available_now=True)
    assert sum(outcome(etl)["results"]["done"].values()) == 34
    assert len(outcome(etl)["dead"]) == 1


@pytest.mark.nightly
def test_items_of_a_backfill_run_as_others(spark: "SparkSession", app: Stanchion) -> None:
    etl = fares(app)
    etl.push_many(ITEMS)
    etl.drain()
    before = outcome(etl)["results"]
    done = etl.backfill("raw", name="with Spark", priority=-50)
    assert done.enqueued == len(ITEMS)
    stations.run(etl, spark=spark, available_now=True)
    assert outcome(etl)["results"] == {
        name: Counter({item: 2 * n for item, n in found.items()}) for name, found in before.items()
    }
    assert etl.backfill("raw", name="with Spark", priority=-50).was_done
