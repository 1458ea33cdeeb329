"""Spark stations that follow each other: items pass them in one micro-batch, and end as if stored at each."""

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Retry, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.options import Stored
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine
from stanchion.spark.stations.queries import _Batches
from stanchion.stores.rules.lifecycle.trail import stops_of
from stanchion.streams import StreamSource
from tests.spark.conftest import nightly
from tests.spark.test_chunk_stations import counts, results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Function = Callable[[DataFrame], DataFrame]

TWICE = Retry.constant(0, jitter=0, max_attempts=2)
STATIONS = ("raw", "clean", "end")


def run(spark: "SparkSession", etl: Pipeline, station: str, behind: Iterable[str] = STATIONS) -> int:
    """Run the batches of a Spark station, as its query does; return how many there were."""
    one = plan_of(etl).station(station)
    assert one.frame is not None
    source = StreamSource(one.context.store, one.queue, one.queue)
    for number in range(100):
        start = source.initial()
        end = source.latest(start, one.frame.max_per_batch)
        if start == end:
            return number
        source.parts(start, end, 2, one.frame.max_per_batch)
        _Batches(one, 2, {}, frozenset(behind))(spark.range(1), end.seq)
    raise AssertionError("there is always another batch")


def drain(spark: "SparkSession", app: Stanchion, etl: Pipeline) -> None:
    """Run all stations until nothing is left."""
    while any(etl.queue(name).size().total for name in (*STATIONS, "large")):
        for name in STATIONS:
            run(spark, etl, name)
        app.drain(queues=[etl.queue("large").name])


def all_ends(app: Stanchion, stored: Stored, kind: str = "int") -> Pipeline:
    """Declare a pipeline whose stations give items all the ends that there are. `kind`: of the field `twice`."""
    etl = app.pipeline(stored, stored=stored)

    @etl.spark_station("raw", to=["clean", "large"], schema="n int", retry=TWICE, max_per_batch=70)
    @etl.expect("n <> 5", on_fail="drop")
    @etl.expect("n <> 6")
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        from pyspark.sql import functions as f

        failed = f.when(items.n == 7, "seven")
        rows = items.where("n <> 9").withColumn("twice", (items.n * 2).cast(kind)).withColumn("error", failed)
        return {"clean": rows.where("n < 80"), "large": rows.where("n >= 80")}

    @etl.spark_station("clean", to="end", schema="n int, twice int", retry=TWICE)
    def clean(items: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        return items.where("n <> 10").withColumn("error", f.when(items.n == 11, "eleven"))

    @etl.spark_station("end", schema="n int, twice int", retry=TWICE)
    @etl.expect("n <> 12", on_fail="drop")
    @etl.expect("n <> 13")
    def end(items: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        return items.where("n <> 14").withColumn("error", f.when(items.n == 15, "fifteen"))

    etl.station("large")(lambda item: item["n"])
    return etl


def push(etl: Pipeline) -> None:
    """Push chunks of both encodings, with one that stays whole, and single items."""
    etl.push_chunks([{"n": n} for n in range(60)], size=30)
    etl.push_chunks([{"n": 60}, {"n": 1.5}, {"n": 61, "more": [1]}])
    etl.push_many([{"n": n} for n in (5, 6, 7, 9, 10, 11, 12, 13, 14, 15, *range(70, 85))])


def told(etl: Pipeline) -> dict[str, Any]:
    """Return how the items have ended, and by which stations."""
    letters = etl.dead_letters.find(limit=1000)
    rows = app_rows(etl)
    return {
        "counts": counts(etl),
        "totals": totals(etl),
        "results": sorted((one["n"], one["twice"]) for one in results(etl, "end")),
        "large": sorted(results(etl, "large")),
        "letters": sorted(
            (job.payload["n"], job.attempts, job.errors[-1]["error"].partition("\n")[0]) for job in letters
        ),
        "stops": sorted({tuple(stop.queue.removeprefix(f"{etl.name}.") for stop in stops_of(row)) for row in rows}),
        "routes": sorted({tuple(one[0] for one in json.loads(row.headers or "{}").get("x-route", [])) for row in rows}),
    }


def totals(etl: Pipeline) -> dict[str, dict[str, int]]:
    """Return what the queues count."""
    stations = plan_of(etl).stations.values()
    stats = [(one.station, one.context.store.stats([one.queue], ["totals"])[one.queue]) for one in stations]
    return {name: one.totals._asdict() for name, one in stats}


def app_rows(etl: Pipeline) -> list[Any]:
    """Return the rows of all jobs that have ended at the last station."""
    one = plan_of(etl).station("end")
    ids = [job.id for job in etl.queue("end").find(state="done", limit=1000)]
    return list(one.context.store.fetch(ids).values())


@pytest.mark.parametrize("sql_app", ["sqlite", nightly("postgresql")], indirect=True)
@pytest.mark.parametrize("kind", ["int", "double"])
def test_items_end_as_if_they_were_stored_at_each(spark: "SparkSession", sql_app: Stanchion, kind: str) -> None:
    """With `double`, the next station reads the rows from JSON, as they are no whole numbers for Spark."""
    found = []
    for stored in ("needed", "always"):
        etl = all_ends(sql_app, stored, kind)
        push(etl)
        drain(spark, sql_app, etl)
        found.append(told(etl))
    assert found[0] == found[1]


def linear(app: Stanchion, clean: "Function" = lambda items: items, **options: Any) -> Pipeline:
    """Declare three stations in a line, of which the second one has this function and these options."""
    etl = app.pipeline("plan")
    etl.spark_station("raw", to="clean", schema="n int")(lambda items: items.withColumn("twice", items.n * 2))
    etl.spark_station("clean", to="end", schema="n int, twice int", **options)(clean)
    etl.spark_station("end", schema="n int, twice int")(lambda items: items)
    return etl


def test_one_batch_takes_items_to_their_end(spark: "SparkSession", app: Stanchion) -> None:
    etl = linear(app)
    etl.push_chunks([{"n": n} for n in range(50)])
    etl.push_many([{"n": n} for n in range(50, 60)])
    assert run(spark, etl, "raw") == 1
    assert sorted(one["twice"] for one in results(etl, "end")) == [2 * n for n in range(60)]
    assert counts(etl) == dict.fromkeys(STATIONS, (60, 60, 0, 0, 0))


@pytest.mark.parametrize("why", ["stored", "paused", "elsewhere", "aggregate"])
def test_items_are_stored_where_they_have_to_be(spark: "SparkSession", app: Stanchion, why: str) -> None:
    """At a station that asks for it, that is paused, that runs elsewhere, or that makes new items."""
    etl = linear(app, lambda items: items.drop("job_id") if why == "aggregate" else items, stored=why == "stored")
    etl.push_many([{"n": n} for n in range(3)])
    if why == "paused":
        etl.queue("clean").pause()
    run(spark, etl, "raw", behind=["raw"] if why == "elsewhere" else STATIONS)
    assert etl.queue("clean").size().total == 3
    assert results(etl, "end") == []


def test_a_failure_is_found_at_its_station(spark: "SparkSession", app: Stanchion) -> None:
    """A function that raises takes only the item with it that it can't take, and no item of the station before it."""
    etl = app.pipeline("plan")
    etl.spark_station("raw", to="clean", schema="n int")(lambda items: items)

    @etl.spark_station("clean", to="end", schema="n int", retry=TWICE)
    def clean(items: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        return items.withColumn("n", f.when(items.n != 3, items.n).otherwise(f.raise_error(f.lit("this query"))))

    etl.spark_station("end", schema="n int")(lambda items: items)
    etl.push_many([{"n": n} for n in range(6)])
    run(spark, etl, "raw")
    assert etl.queue("clean").size().total == 6
    engine.run(etl, spark=spark, available_now=True)
    assert sorted(one["n"] for one in results(etl, "end")) == [0, 1, 2, 4, 5]
    (letter,) = etl.dead_letters.find()
    assert (letter.payload, letter.died_in) == ({"n": 3}, "plan.clean")


def test_items_with_two_ends_at_a_later_station(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("plan")
    etl.spark_station("raw", to="end", schema="n int")(lambda items: items)
    etl.spark_station("end", schema="n int")(lambda items: items.union(items))
    etl.push({"n": 1})
    run(spark, etl, "raw")
    assert etl.queue("end").size().total == 1
    with pytest.raises(InvalidInput, match="station 'end' returned 2 rows"):
        run(spark, etl, "end")


def test_an_item_that_has_to_be_stored_is_stored_alone(spark: "SparkSession", app: Stanchion) -> None:
    etl = linear(app)
    etl.push({"n": 1}, expires=3600)
    etl.push({"n": 2})
    run(spark, etl, "raw")
    assert results(etl, "end") == [{"n": 2, "twice": 4}]
    assert [job.payload for job in etl.queue("clean").find()] == [{"n": 1, "twice": 2}]
