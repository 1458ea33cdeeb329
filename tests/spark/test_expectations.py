"""Expectations on Spark: items end as they do on workers, and conditions mean what Spark takes them to mean."""

import random
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.context.queues.pauses import pauses_of
from stanchion.ops.reads.expectations import read_expectations
from stanchion.ops.reads.pipelines import Known
from stanchion.pipelines import Pipeline
from stanchion.pipelines.condition import Condition
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine as stations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "a double, b double, s string, t string, p boolean, q boolean, o struct<a: double>"
WORDS = ["", "a", "ab", "b", "Ab", "a b", " a ", "é", "%", "a%b", None]
NUMBERS = [0.0, 1.0, -1.0, 2.5, -7.0, 3.0, 100.0, None]


def declared(app: Stanchion) -> Pipeline:
    """Declare a plain station and a Spark station that expect the same."""
    etl = app.pipeline("etl")

    @etl.station("raw", to="sums")
    @etl.expect("n % 5 <> 1", on_fail="drop")
    @etl.expect("n % 5 <> 2", on_fail="bury")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return item

    @etl.spark_station("sums", schema="n int, zone string", worker=lambda item: item)
    @etl.expect("zone in ('a', 'b')", on_fail="drop")
    @etl.expect("n < 90", on_fail="bury")
    def sums(rows: "DataFrame") -> "DataFrame":
        return rows

    return etl


def left(app: Stanchion, etl: Pipeline) -> dict[str, Any]:
    """Return what a run has left."""
    counted = read_expectations(context_of(app).store, Known(plan_of(etl).record, "code"))
    return {
        "done": sorted(job.payload["n"] for job in etl.queue("sums").find(state="done", limit=1000)),
        "dropped": sorted(job.payload["n"] for job in etl.find(state="cancelled", limit=1000)),
        "dead": sorted((job.payload["n"], job.errors[-1]["error"]) for job in etl.dead_letters.find(limit=1000)),
        "counted": [(one.station, one.condition, one.on_fail, one.failed) for one in counted],
    }


@pytest.mark.nightly
def test_items_end_as_they_do_on_workers(spark: "SparkSession", app: Stanchion) -> None:
    etl = declared(app)
    items = [{"n": n, "zone": "abc"[n % 3]} for n in range(100)]
    etl.push_many(items)
    stations.run(etl, spark=spark, available_now=True)

    found = left(app, etl)
    on = [n for n in range(100) if n % 5 not in (1, 2)]
    assert found["done"] == [n for n in on if n % 3 < 2 and n < 90]
    assert found["dropped"] == [n for n in range(100) if n % 5 == 1 or (n in on and n % 3 == 2)]
    assert [n for n, _ in found["dead"]] == [n for n in range(100) if n % 5 == 2 or (n in on and n % 3 < 2 and n >= 90)]
    assert found["dead"][0] == (2, "ExpectationFailed: n % 5 <> 2\nn = 2")
    assert found["counted"] == [
        ("raw", "n % 5 <> 1", "drop", 20),
        ("raw", "n % 5 <> 2", "bury", 20),
        ("sums", "zone in ('a', 'b')", "drop", len(found["dropped"]) - 20),
        ("sums", "n < 90", "bury", len(found["dead"]) - 20),
    ]


@pytest.mark.nightly
def test_a_station_stops_and_keeps_the_item(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.spark_station("raw", schema="n int", max_per_batch=10)
    @etl.expect("n <> 3", on_fail="stop")
    def raw(rows: "DataFrame") -> "DataFrame":
        return rows

    etl.push_many([{"n": n} for n in range(20)])
    stations.run(etl, spark=spark, available_now=True)

    queue = etl.queue("raw")
    assert [job.payload["n"] for job in queue.find(state="done")] == [9, 8, 7, 6, 5, 4, 2, 1, 0]
    assert {job.payload["n"]: job.attempts for job in queue.find(state="ready")} == dict.fromkeys(
        (3, *range(10, 20)), 0
    )
    pause = pauses_of(context_of(app).store, ["etl.raw"])["etl.raw"]
    assert pause.note.endswith(" failed n <> 3 with n = 3")
    (counted,) = read_expectations(context_of(app).store, Known(plan_of(etl).record, "code"))
    assert counted.failed == 1


def number(of: random.Random, depth: int) -> str:
    """Return a random expression that is a number."""
    if depth == 0:
        return of.choice(["a", "b", "o.a", "1D", "2D", "0D", "2.5D"])
    one, other = number(of, depth - 1), number(of, of.randrange(depth))
    return of.choice([
        f"({one} {of.choice('+-*/%')} {other})", f"abs({one})", f"(-{one})", f"coalesce({one}, {other})",
    ])  # fmt: skip


def text(of: random.Random, depth: int) -> str:
    """Return a random expression that is a text."""
    if depth == 0:
        return of.choice(["s", "t", "'a'", "'ab'", "' a '", "''"])
    inner = text(of, depth - 1)
    return of.choice([f"upper({inner})", f"lower({inner})", f"trim({inner})", f"coalesce({inner}, 'b')"])


def condition(of: random.Random, depth: int) -> str:
    """Return a random condition on the columns of SCHEMA."""
    some = of.randrange
    if depth == 0:
        low, high = sorted([of.choice(["-1", "0", "2.5"]), of.choice(["-1", "0", "2.5"])])
        return of.choice([
            f"{number(of, some(3))} {of.choice(['=', '<>', '<', '<=', '>', '>='])} {number(of, some(2))}",
            f"{text(of, some(2))} {of.choice(['=', '<>', '<', '<=', '>', '>='])} {text(of, some(2))}",
            f"{number(of, some(2))} {of.choice(['', 'not '])}between {low} and {high}",
            f"{number(of, some(2))} {of.choice(['', 'not '])}in (1D, {number(of, 0)}, {of.choice(['null', '3D'])})",
            f"{text(of, some(2))} {of.choice(['', 'not '])}like {of.choice(['a%', '_', '%b', '', '%', 'a_b'])!r}",
            f"length({text(of, some(2))}) = {some(4)}",
            f"{of.choice(['p', 'q', 's', 'a', 'o.a'])} is {of.choice(['', 'not '])}null",
            f"{of.choice(['p', 'q'])} is {of.choice(['', 'not '])}{of.choice(['true', 'false'])}",
            of.choice(["p", "q"]),
        ])  # fmt: skip
    one, other = condition(of, depth - 1), condition(of, some(depth))
    return of.choice([f"({one} and {other})", f"({one} or {other})", f"not ({one})"])


@pytest.mark.parametrize(
    ("seed", "many"), [(1, 15), *(pytest.param(seed, 150, marks=pytest.mark.nightly) for seed in (1, 2))]
)
def test_conditions_mean_what_they_mean_to_spark(spark: "SparkSession", seed: int, many: int) -> None:
    from pyspark.sql import functions as f

    of = random.Random(seed)
    rows = [
        {
            **{name: of.choice(NUMBERS) for name in "ab"},
            **{name: of.choice(WORDS) for name in "st"},
            **{name: of.choice([True, False, None]) for name in "pq"},
            "o": of.choice([{"a": of.choice(NUMBERS)}, None]),
        }
        for _ in range(60)
    ]
    texts = [condition(of, of.randrange(4)) for _ in range(many)]
    spark.conf.set("spark.sql.ansi.enabled", "false")  # a division by zero is null, and no error
    try:
        frame = spark.createDataFrame(rows, SCHEMA).select(
            *(f.expr(text).alias(str(n)) for n, text in enumerate(texts))
        )
        answers = frame.collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    for place, text_ in enumerate(texts):
        ours = Condition(text_.replace("D", ""))
        for row, answer in zip(rows, answers, strict=True):
            assert ours.of(row) == answer[place], f"{text_} of {row}"
