"""Rows as jobs."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from cryptography.fernet import Fernet
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.options import Place
from stanchion.spark.datasource.writing.new_jobs import JobMaker, check_columns
from stanchion.spark.datasource.writing.write import JobsWriter, Staged
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from tests.spark.places import opened, read, write
from tests.worker.conftest import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def numbers(spark: "SparkSession", rows: int, parts: int = 2) -> "DataFrame":
    """Return rows whose payload holds their number."""
    return spark.range(0, rows, 1, parts).select(F.struct(F.col("id").alias("n")).alias("payload"))


def pushed(app: Stanchion, queue: str = "q") -> list[int]:
    return sorted(job.payload["n"] for job in app.queue(queue).find(limit=100_000))


def nothing_staged(app: Stanchion) -> bool:
    with app.transaction() as connection:
        return not connection.exec_driver_sql("SELECT count(*) FROM stanchion_stage").scalar()


@pytest.mark.nightly_except("postgresql")
class TestWrite:
    def test_all_columns(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        sql_app.semaphore("smtp", 2).resize(2)
        rows = spark.sql(
            """SELECT struct(1 AS a, array(struct(date'2026-01-31' AS day)) AS b, map('k', 1.5D) AS c) AS payload,
                      'mail' AS queue, 7 AS priority, timestamp'2026-01-31 12:00:00' AS run_at, 'acme' AS tenant,
                      'key' AS key, map('h', 1) AS headers, 'o' AS order_key, array('smtp') AS limits,
                      3 AS max_attempts, 2.5D AS timeout, '5/s' AS rate"""
        )
        write(rows, sql_app)
        [job] = sql_app.queue("mail").find()
        assert job.payload == {"a": 1, "b": [{"day": "2026-01-31"}], "c": {"k": 1.5}}
        assert (job.priority, job.run_at, job.tenant, job.key, job.headers) == (7, NOON, "acme", "key", {"h": 1})
        assert (job.max_attempts, job.timeout) == (3, 2.5)
        row = sql_app.store.fetch([job.id])[job.id]
        assert (row.order_key, row.limits) == ("o", '{"hold":["smtp"],"rate":["queue:mail",5.0]}')

    def test_options_hold_for_all_rows(self, spark: "SparkSession", app: Stanchion) -> None:
        write(numbers(spark, 3), app, queue="q", priority=5, delay=100, tenant="t", maxAttempts=2)
        jobs = app.queue("q").find()
        assert {(job.priority, job.tenant, job.max_attempts, job.state) for job in jobs} == {(5, "t", 2, "scheduled")}

    def test_every_row_once(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        write(numbers(spark, 5000), sql_app, queue="q")
        assert pushed(sql_app) == list(range(5000))
        assert sql_app.queue("q").counts().pushed == 5000
        assert nothing_staged(sql_app)

    def test_a_repeat_under_the_same_write_id_adds_nothing(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        for _ in range(2):
            write(numbers(spark, 50), sql_app, queue="q", writeId="2026-01-31/load")
        assert pushed(sql_app) == list(range(50))
        write(numbers(spark, 50), sql_app, queue="q", writeId="2026-02-01/load")
        assert len(pushed(sql_app)) == 100
        assert nothing_staged(sql_app)

    def test_calls_of_a_task(self, spark: "SparkSession", app: Stanchion) -> None:
        seen = []

        @app.task(name="add")
        def add(a: int, b: int = 0) -> None:
            seen.append((a, b))

        rows = spark.sql("SELECT array(1) AS args, struct(2 AS b) AS kwargs UNION ALL SELECT array(3), struct(4 AS b)")
        write(rows, app, queue="q", task="add")
        app.drain(["q"])
        assert sorted(seen) == [(1, 2), (3, 4)]

    @pytest.mark.nightly
    def test_finished_jobs_go_round_again(self, spark: "SparkSession", app: Stanchion) -> None:
        seen = []

        @app.task(name="see", queue="q")
        def see(n: int) -> None:
            seen.append(n)

        see.enqueue_many([(n,) for n in range(3)])
        app.drain()
        write(read(spark, app, of="history").select("queue", "task", "payload"), app)
        app.drain()
        assert sorted(seen) == [0, 0, 1, 1, 2, 2]

    def test_keys_are_unique_among_live_jobs(self, spark: "SparkSession", app: Stanchion) -> None:
        rows = numbers(spark, 10).withColumn("key", (F.col("payload.n") % 3).cast("string"))
        write(rows, app, queue="q")
        assert len(pushed(app)) == 3

    def test_lanes_are_chosen_as_in_a_push(self, spark: "SparkSession", app: Stanchion) -> None:
        queue = app.queue("q")
        queue.configure(lanes=8, lanes_per_tenant=2)
        write(numbers(spark, 50).withColumn("tenant", F.lit("one")), app, queue="q")
        lanes = queue.lanes()
        assert len(lanes) == 2
        assert sum(lanes.values()) == 50

    def test_payloads_are_encrypted_with_keys(self, spark: "SparkSession", app: Stanchion) -> None:
        key = Fernet.generate_key().decode()
        write(numbers(spark, 1), app, queue="q", keys=key)
        [job] = app.queue("q").find()
        assert str(app.store.fetch([job.id])[job.id].payload).startswith("enc:")
        with opened(app.url, keys=[key]) as opening:
            assert pushed(opening) == [0]

    def test_every_other_store(self, spark: "SparkSession", other_app: Stanchion) -> None:
        for _ in range(2):
            write(numbers(spark, 2500), other_app, queue="q", writeId="once")
        assert pushed(other_app) == list(range(2500))


@pytest.mark.nightly_except("postgresql")
class TestFailure:
    def test_a_bad_row_is_named_and_nothing_is_enqueued(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        rows = numbers(spark, 5000).withColumn("priority", F.when(F.col("payload.n") == 4321, 500).otherwise(1))
        with pytest.raises(AnalysisException) as caught:
            write(rows, sql_app, queue="q")
        message = str(caught.value)
        assert "priority must be a whole number from -100 to 100, not 500; no row was enqueued" in message
        assert "Traceback" not in message
        assert pushed(sql_app) == []
        assert nothing_staged(sql_app)

    def test_a_task_that_fails_leaves_nothing(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        @F.udf("string")
        def broken(n: int) -> str:
            if n == 4999:
                raise ValueError("a broken row")
            return "t"

        with pytest.raises(PythonException, match="a broken row"):
            write(numbers(spark, 5000).withColumn("tenant", broken("payload.n")), sql_app, queue="q")
        assert pushed(sql_app) == []
        # Spark does not wait for its other tasks, which may stage their rows after the end.
        until(lambda: not spark.sparkContext.statusTracker().getActiveStageIds())
        sql_app.store.clock_offset = 86_401
        until(lambda: sql_app.store.maintain() == [] and nothing_staged(sql_app))

    def test_attempts_that_spark_does_not_name_are_dropped(self, sql_app: Stanchion) -> None:
        writer = JobsWriter(Place(sql_app.url), JobMaker("q"), "w")
        batch = pa.RecordBatch.from_pylist([{"payload": '{"n":1}'}, {"payload": '{"n":2}'}])
        first, second = writer.write(iter([batch])), writer.write(iter([batch]))
        assert first.attempt != second.attempt
        writer.commit([second])
        assert pushed(sql_app) == [1, 2]
        writer.commit([first])
        writer.abort([None])
        assert pushed(sql_app) == [1, 2]
        assert nothing_staged(sql_app)

    def test_overwrite_is_refused(self, spark: "SparkSession", app: Stanchion) -> None:
        with pytest.raises(AnalysisException, match=r"never replaced: write with \.mode\('append'\)"):
            numbers(spark, 1).write.format("stanchion").mode("overwrite").options(url=app.url, queue="q").save()

    def test_a_queue_must_be_named(self, spark: "SparkSession", app: Stanchion) -> None:
        with pytest.raises(AnalysisException, match="the target queue is missing"):
            write(numbers(spark, 1), app)

    def test_an_unknown_semaphore_is_refused(self, spark: "SparkSession", app: Stanchion) -> None:
        with pytest.raises(AnalysisException, match="smtp"):
            write(numbers(spark, 1), app, queue="q", limits="smtp")


def schema(ddl: str) -> StructType:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return parsed


@pytest.mark.usefixtures("spark")  # which reads a schema
class TestColumns:
    @pytest.mark.parametrize(
        ("ddl", "message"),
        [
            ("payload string, prioritie int", r"'prioritie' is unknown for jobs; did you mean priority\?"),
            ("payload string, customer_name_of string", "put parts of the payload into a struct"),
            ("payload string, priority double", "the column priority must be of type tinyint or smallint or int"),
            ("payload string, run_at timestamp_ntz", "the column run_at must be of type timestamp, not timestamp_ntz"),
            ("payload struct<a: array<decimal(10,2)>>", r"the column payload\.a\[\] is of type decimal\(10,2\)"),
            ("payload binary", "the column payload is of type binary, which JSON can't hold"),
            ("payload map<int, int>", "the keys of payload are of type int"),
            ("queue string", "there is no payload column"),
            ("payload string, args array<int>", "not both"),
        ],
    )
    def test_those_that_cannot_be_are_named(self, ddl: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            check_columns(schema(ddl))

    def test_those_that_can(self) -> None:
        assert check_columns(schema("payload string")) == ["payload"]
        assert check_columns(schema("args array<int>, task string, other int"), ["other"]) == ["args", "task"]


Rows = list[dict[str, Any]]


def made(app: Stanchion, maker: JobMaker, rows: Rows, **types: pa.DataType) -> list[Any]:
    table = pa.Table.from_pylist(rows)
    for name, kind in types.items():
        at = table.schema.names.index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    [batch] = table.combine_chunks().to_batches()
    return maker.jobs(context_of(app), batch)


class TestRows:
    def test_a_row_goes_before_the_option(self, app: Stanchion) -> None:
        maker = JobMaker("q", defaults={"priority": 5, "delay": 10.0})
        rows: Rows = [
            {"payload": "1", "queue": None, "priority": None, "run_at": None},
            {"payload": "2", "queue": "r", "priority": 6, "run_at": NOON},
        ]
        first, second = made(app, maker, rows, run_at=pa.timestamp("us", "UTC"))
        assert (first.queue, first.priority, first.run_at, first.delay) == ("q", 5, None, 10.0)
        assert (second.queue, second.priority, second.delay) == ("r", 6, None)
        assert second.run_at == int(NOON.timestamp()) * 1_000_000

    def test_a_batch_without_rows_has_no_jobs(self, app: Stanchion) -> None:
        empty = pa.RecordBatch.from_pydict({"payload": pa.array([], pa.string()), "priority": pa.array([], pa.int32())})
        assert JobMaker("q", defaults={"delay": 1.0, "limits": ()}).jobs(context_of(app), empty) == []

    def test_ids_are_in_the_order_of_the_rows(self, app: Stanchion) -> None:
        jobs = made(app, JobMaker("q"), [{"payload": str(n)} for n in range(100)])
        assert [job.payload for job in sorted(jobs)] == [str(n) for n in range(100)]

    def test_json_is_stored_as_by_a_push(self, app: Stanchion) -> None:
        texts = ['{"a": [1, 2.5, null]}', ' "text" ', "null", "12345678901234567890123"]
        jobs = made(app, JobMaker("q"), [{"payload": text} for text in texts])
        assert [job.payload for job in jobs] == ['{"a":[1,2.5,null]}', '"text"', "null", "12345678901234567890123"]

    def test_numbers_keep_all_their_digits(self, app: Stanchion) -> None:
        texts = ['{"a": 0.12345678901234567890, "b": "x \\" 1 : 2"}', '{"a":12345678901234567.890}']
        jobs = made(app, JobMaker("q"), [{"payload": text} for text in texts])
        packed = ['{"a":0.12345678901234567890,"b":"x \\" 1 : 2"}', '{"a":12345678901234567.890}']
        assert [job.payload for job in jobs] == packed

    def test_limits_may_depend_on_the_row(self, app: Stanchion) -> None:
        app.semaphore("a", 1).resize(1)
        rows: Rows = [{"payload": "1", "tenant": "x", "limits": ["a"]}, {"payload": "2", "tenant": "y", "limits": None}]
        first, second = made(app, JobMaker("q", defaults={"rate": "2/s", "rate_by": "tenant"}), rows)
        assert first.limits == '{"hold":["a"],"rate":["7:queue:q/x",2.0]}'
        assert second.limits == '{"rate":["7:queue:q/y",2.0]}'

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"payload": "{"}, "the column payload contains text that is not JSON"),
            ({"payload": "NaN"}, "NaN is not a JSON number"),
            ({"payload": {"a": float("inf")}}, "the column payload can't be encoded as JSON"),
            ({"payload": "1", "priority": 101}, "priority must be"),
            ({"payload": "1", "delay": -1.0}, "delay must be"),
            ({"payload": "1", "tenant": ""}, "tenant must be"),
            ({"payload": "1", "queue": "a\nb"}, "the column queue must be"),
            ({"payload": "1", "headers": "[1]"}, "headers must be a mapping"),
            ({"payload": "1", "task": "t"}, "the column payload is not the payload of a call"),
            ({"args": [1]}, "names no task"),
            ({"args": "1", "task": "t"}, "the column args must be an array"),
            ({"kwargs": "[1]", "task": "t"}, "the column kwargs must be a struct"),
            ({"payload": "x" * 2_000_000}, "not JSON"),
            ({"payload": {"a": "x" * 2_000_000}}, "more than the limit"),
        ],
    )
    def test_a_wrong_one_names_its_column(self, app: Stanchion, row: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            made(app, JobMaker("q"), [row])

    def test_a_task_alone_shares_the_rate_that_its_code_declares(self, app: Stanchion) -> None:
        code = Stanchion(store=app.store)
        code.rate("stripe", "20/s")
        code.task(name="pay", rate="5/s")(print)
        code.task(name="hook", rate="6/s", rate_by="tenant")(print)
        code.task(name="free")(print)
        code.queue("q").push(1)
        rows: Rows = [
            {"args": "[]", "task": "pay", "tenant": "x", "rate": None, "rate_key": None},
            {"args": "[]", "task": "hook", "tenant": "x", "rate": None, "rate_key": None},
            {"args": "[]", "task": "free", "tenant": "x", "rate": None, "rate_key": None},
            {"args": "[]", "task": "hook", "tenant": "x", "rate": "9/s", "rate_key": "crm"},
            {"args": "[]", "task": "hook", "tenant": "x", "rate": None, "rate_key": "stripe"},
        ]
        stored = [job.limits for job in made(app, JobMaker("q"), rows)]
        of_rows = [Rate("key:crm", 9.0), Rate("key:stripe", 20.0)]
        expected = [Rate("task:pay", 5.0), Rate("9:task:hook/x", 6.0), None, *of_rows]
        assert [limits_in(text).rate for text in stored] == expected
        [job] = made(app, JobMaker("q", "pay"), [{"args": "[]"}])
        assert limits_in(job.limits).rate == expected[0]

    def test_run_at_and_delay_exclude_each_other(self, app: Stanchion) -> None:
        rows: Rows = [{"payload": "1", "run_at": NOON + timedelta(1), "delay": 1.0}]
        with pytest.raises(InvalidInput, match="both columns run_at and delay"):
            made(app, JobMaker("q"), rows, run_at=pa.timestamp("us", "UTC"))

    def test_a_task_reports_a_bad_row_instead_of_failing(self, app: Stanchion) -> None:
        writer = JobsWriter(Place(app.url), JobMaker("q"), "w")
        good, bad = ({"payload": text} for text in ("1", "{"))
        found = writer.write(pa.RecordBatch.from_pylist([row]) for row in (good, bad))
        assert isinstance(found, Staged)
        assert found.jobs == 1
        assert "not JSON" in (found.refused or "")
        with pytest.raises(InvalidInput, match="no row was enqueued"):
            writer.commit([found])
