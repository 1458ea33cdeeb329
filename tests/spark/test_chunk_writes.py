"""Rows as jobs that carry many of them."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from cryptography.fernet import Fernet
from pyspark.errors import AnalysisException

from stanchion import Job, Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.writing.packing import packed
from stanchion.spark.datasource.writing.write import JobsWriter, Staged, writer_of
from tests.spark.places import opened, write
from tests.spark.test_write import nothing_staged, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")  # which reads schemas

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
UTC_MICROS = pa.timestamp("us", "UTC")


def jobs_of(app: Stanchion, queue: str = "q") -> list[Job]:
    return sorted(app.queue(queue).find(limit=100_000), key=lambda job: job.id)


def items_of(app: Stanchion, queue: str = "q") -> list[Any]:
    return [item for job in jobs_of(app, queue) for item in (job.payload if job.items else [job.payload])]


def written(app: Stanchion, ddl: str, *batches: pa.RecordBatch, rows: int = 1000, **options: object) -> Staged:
    """Write batches as one task; return its message, unpublished."""
    given = {"url": app.url, "queue": "q", "rowsPerJob": str(rows), **{name: str(one) for name, one in options.items()}}
    found = writer_of(given, schema(ddl), overwrite=False).write(iter(batches))
    assert isinstance(found, Staged)
    return found


def publish(app: Stanchion, ddl: str, *batches: pa.RecordBatch, rows: int = 1000, **options: object) -> None:
    given = {"url": app.url, "queue": "q", "rowsPerJob": str(rows), **{name: str(one) for name, one in options.items()}}
    writer: JobsWriter = writer_of(given, schema(ddl), overwrite=False)
    writer.commit([writer.write(iter(batches))])


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.nightly_except("postgresql")
class TestWithSpark:
    def test_columns_are_the_fields_of_items(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        rows = spark.sql("SELECT id AS n, concat('é', id) AS text, id / 2 AS half FROM range(0, 1000, 1, 2)")
        write(rows, sql_app, queue="q", rowsPerJob=300)
        jobs = jobs_of(sql_app)
        assert sorted(job.items or 1 for job in jobs) == [200, 200, 300, 300]
        items = sorted(items_of(sql_app), key=lambda item: item["n"])
        assert items == [{"n": n, "text": f"é{n}", "half": n / 2} for n in range(1000)]
        assert sql_app.queue("q").counts().pushed == 1000
        assert nothing_staged(sql_app)

    def test_a_repeat_under_the_same_write_id_adds_nothing(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        for _ in range(2):
            write(spark.range(50), sql_app, queue="q", writeId="2026-01-31/load", rowsPerJob=20)
        assert sorted(item["id"] for item in items_of(sql_app)) == list(range(50))
        assert nothing_staged(sql_app)
        lineage = {json.dumps(job.headers) for job in jobs_of(sql_app)}
        assert lineage == {'{"x-lineage": {"write": "2026-01-31/load"}}'}

    def test_all_of_spark_s_types(self, spark: "SparkSession", app: Stanchion) -> None:
        rows = spark.sql(
            """SELECT date'2026-01-31' AS day, timestamp'2026-01-31 12:00:00.5' AS at, map('k', 1.5D) AS m,
                      array(struct(1Y AS a)) AS list, CAST(NULL AS int) AS none, 1.5F AS small, true AS yes"""
        )
        write(rows.unionAll(rows), app, queue="q", rowsPerJob=10)
        item: dict[str, object] = {"day": "2026-01-31", "at": "2026-01-31T12:00:00.500000+00:00", "m": {"k": 1.5}}
        item |= {"list": [{"a": 1}], "none": None, "small": 1.5, "yes": True}
        assert items_of(app) == [item, item]

    def test_a_wrong_row_stops_the_write(self, spark: "SparkSession", app: Stanchion) -> None:
        rows = spark.sql("SELECT IF(id = 77, double('NaN'), 1D * id) AS n FROM range(0, 100, 1, 4)")
        with pytest.raises(AnalysisException, match=r"the column n has NaN or infinite values.*no row was enqueued"):
            write(rows, app, queue="q", rowsPerJob=10)
        assert items_of(app) == []
        assert nothing_staged(app)

    def test_wrong_columns_are_refused_before_the_first_task(self, spark: "SparkSession", app: Stanchion) -> None:
        with pytest.raises(AnalysisException, match="the column tenant can be a field of the items or an option"):
            write(spark.sql("SELECT 1 AS n, 'a' AS tenant"), app, queue="q", rowsPerJob=10)

    def test_every_other_store(self, spark: "SparkSession", other_app: Stanchion) -> None:
        write(spark.range(0, 100, 1, 2).withColumnRenamed("id", "n"), other_app, queue="q", rowsPerJob=30)
        assert sorted(job.items or 1 for job in jobs_of(other_app)) == [20, 20, 30, 30]
        assert sorted(item["n"] for item in items_of(other_app)) == list(range(100))
        assert other_app.queue("q").counts().pushed == 100


class TestItems:
    def test_are_packed_across_batches(self, app: Stanchion) -> None:
        parts = [batch(n=[*range(start, start + 7)]) for start in range(0, 70, 7)]
        publish(app, "n bigint", *parts, rows=20)
        assert [job.items for job in jobs_of(app)] == [20, 20, 20, 10]
        assert [item["n"] for item in items_of(app)] == list(range(70))

    def test_one_alone_is_an_ordinary_job(self, app: Stanchion) -> None:
        publish(app, "n bigint, t string", batch(n=[1], t=["é"]))
        publish(app, "payload struct<n:bigint,t:string>", batch(payload=[{"n": 1, "t": "é"}]))
        stored = app.store.fetch([job.id for job in jobs_of(app)]).values()
        assert {(row.payload, row.items) for row in stored} == {('{"n":1,"t":"é"}', None)}

    def test_are_columns_of_the_types_of_the_rows(self, app: Stanchion) -> None:
        publish(
            app, "n int, at timestamp", batch(n=pa.array([1, 2], pa.int32()), at=pa.array([NOON, None], UTC_MICROS))
        )
        (job,) = jobs_of(app)
        assert isinstance(job.payload, Chunk)
        table = job.payload.columns()
        assert table is not None
        assert table.schema == pa.schema([("n", pa.int32()), ("at", pa.string())])
        assert list(job.payload) == [{"n": 1, "at": "2026-01-31T12:00:00+00:00"}, {"n": 2, "at": None}]

    @pytest.mark.parametrize(
        ("ddl", "payloads", "items"),
        [
            ("struct<n:bigint>", [{"n": 1}, None], [{"n": 1}, None]),
            ("struct<n:struct<m:string>>", [{"n": None}, {"n": {"m": "x"}}], [{"n": None}, {"n": {"m": "x"}}]),
            ("map<string,bigint>", [{"a": 1}.items(), {}.items()], [{"a": 1}, {}]),
            ("array<bigint>", [[1], []], [[1], []]),
            ("bigint", [1, None], [1, None]),
            ("string", ['{"a":1}', '{"b":"é"}'], [{"a": 1}, {"b": "é"}]),
            ("string", [' {"a": 1}', "null", '"x"'], [{"a": 1}, None, "x"]),
        ],
    )
    def test_may_be_any_payload(self, app: Stanchion, ddl: str, payloads: list[Any], items: list[Any]) -> None:
        kind = {"map<string,bigint>": pa.map_(pa.string(), pa.int64())}.get(ddl)
        publish(app, f"payload {ddl}", batch(payload=pa.array([*map(_plain, payloads)], kind)))
        (job,) = jobs_of(app)
        assert (job.items, list(job.payload)) == (len(items), items)

    def test_given_as_json_keep_all_their_digits(self, app: Stanchion) -> None:
        texts = ['{"a": 0.12345678901234567890}', '{"a":12345678901234567890123}']
        publish(app, "payload string", batch(payload=texts))
        (job,) = jobs_of(app)
        assert job.payload.texts().to_pylist() == ['{"a":0.12345678901234567890}', '{"a":12345678901234567890123}']

    def test_that_are_too_many_for_a_payload_are_halved(self, app: Stanchion) -> None:
        noise = random.Random(7)
        texts = ["".join(noise.choices("0123456789abcdef", k=100_000)) for _ in range(40)]
        publish(app, "n bigint, text string", batch(n=[*range(40)], text=texts))
        assert len(jobs_of(app)) > 1
        assert [item["n"] for item in items_of(app)] == list(range(40))

    @pytest.mark.parametrize(
        ("ddl", "values", "message"),
        [
            ("payload string", ['{"a":1}', "{"], "the column payload contains text that is not JSON"),
            ("payload string", ["1", "NaN"], "NaN is not a JSON number"),
            ("payload double", [1.0, float("inf")], "the item can't be encoded as JSON"),
            ("text string", ["x", "y" * 2_000_000], "the item takes 2,000,0.. bytes, more than the limit"),
            ("at timestamp", [None, datetime(2026, 1, 1, tzinfo=UTC)], ""),
        ],
    )
    def test_that_cannot_be_are_refused(self, app: Stanchion, ddl: str, values: list[Any], message: str) -> None:
        name = ddl.partition(" ")[0]
        found = written(app, ddl, batch(**{name: values}))
        if not message:
            assert found.refused is None
            return
        assert found.refused is not None
        assert pytest.raises(InvalidInput, match=message).matches(InvalidInput(found.refused))

    def test_fit_the_schema_of_their_queue(self, app: Stanchion) -> None:
        app.queue("q", schema="n int not null").push({"n": 0})
        publish(app, "n bigint", batch(n=[1, 2, 3]))
        found = written(app, "n bigint", batch(n=[1, 2**40]))
        assert "payload 2 of the batch does not fit the schema of queue 'q'" in str(found.refused)
        assert app.queue("q").counts().pushed == 4

    def test_are_encrypted_with_keys(self, app: Stanchion) -> None:
        key = Fernet.generate_key().decode()
        publish(app, "n bigint", batch(n=[1, 2]), keys=key)
        (job,) = jobs_of(app)
        stored = app.store.fetch([job.id])[job.id].payload
        assert isinstance(stored, bytes)
        assert stored[4:8] == b"enc:"
        with opened(app.url, keys=[key]) as opening:
            assert items_of(opening) == [{"n": 1}, {"n": 2}]

    def test_there_are_none(self, app: Stanchion) -> None:
        publish(app, "n bigint", batch(n=pa.array([], pa.int64())))
        publish(app, "n bigint")
        assert jobs_of(app) == []


def _plain(value: Any) -> Any:
    return list(value) if type(value) is type({}.items()) else value


class TestColumnsBesideThePayload:
    def test_cut_the_rows_into_jobs(self, app: Stanchion) -> None:
        rows = batch(
            payload=[{"n": n} for n in range(12)],
            tenant=["a", "b", None] * 4,
            priority=pa.array([1, 1, 1, 2, 2, 2] * 2, pa.int32()),
        )
        publish(app, "payload struct<n:bigint>, tenant string, priority int", rows, tenant="z")
        found = {(job.tenant, job.priority): [item["n"] for item in job.payload] for job in jobs_of(app)}
        assert found == {
            (tenant, priority): [first, first + 6]
            for first, (tenant, priority) in enumerate([("a", 1), ("b", 1), ("z", 1), ("a", 2), ("b", 2), ("z", 2)])
        }

    def test_set_all_options(self, app: Stanchion) -> None:
        rows = batch(
            payload=[{"n": 1}, {"n": 2}],
            queue=["r", "r"],
            run_at=pa.array([NOON, NOON], UTC_MICROS),
            max_attempts=pa.array([3, 3], pa.int32()),
            timeout=[2.5, 2.5],
            expires=[60.0, 60.0],
        )
        ddl = "payload struct<n:bigint>, queue string, run_at timestamp"
        ddl += ", max_attempts int, timeout double, expires double"
        app.semaphore("gpu", 1).resize(1)
        publish(app, ddl, rows, limits="gpu", rate="5/s")
        (job,) = jobs_of(app, "r")
        assert (job.run_at, job.max_attempts, job.timeout, job.items) == (NOON, 3, 2.5, 2)
        row = app.store.fetch([job.id])[job.id]
        assert (row.limits, row.expires) == ('{"hold":["gpu"],"rate":["queue:r",5.0]}', 60.0)

    def test_give_the_jobs_their_lanes(self, app: Stanchion) -> None:
        queue = app.queue("q")
        queue.configure(lanes=8, lanes_per_tenant=1)
        rows = batch(payload=[{"n": n} for n in range(8)], tenant=["a", "b"] * 4)
        publish(app, "payload struct<n:bigint>, tenant string", rows)
        assert sum(queue.lanes().values()) == 2

    def test_a_wrong_value_is_refused(self, app: Stanchion) -> None:
        rows = batch(payload=[{"n": 1}] * 2, priority=pa.array([1, 101], pa.int32()))
        assert "priority must be" in str(written(app, "payload struct<n:bigint>, priority int", rows).refused)

    @pytest.mark.parametrize("name", ["key", "on_duplicate", "order_key"])
    def test_of_an_item_are_refused(self, app: Stanchion, name: str) -> None:
        with pytest.raises(InvalidInput, match=f"the column {name} belongs to an item"):
            written(app, f"payload string, {name} string")

    @pytest.mark.parametrize(
        ("ddl", "message"),
        [
            ("payload string, task string", "the column task is for calls"),
            ("payload string, headers string", "the column headers can't differ between rows"),
            ("payload string, limits array<string>", "the column limits can't differ between rows"),
            ("payload string, rate_key string", "the column rate_key can't differ between rows"),
            ("payload string, other int", "the column 'other' is unknown for jobs"),
            ("payload string, priority double", "the column priority must be of type"),
            ("payload binary", "the column payload is of type binary"),
            ("n int, queue string", "the column queue can be a field of the items or an option of the jobs"),
            ("n int, delay double", r"such as struct\('\*'\)\.alias\('payload'\)"),
            ("args array<int>", "the column args can be a field"),
            ("n decimal(3,1)", r"the column n is of type decimal\(3,1\)"),
            ("n int, n int", "two columns have the name 'n'"),
            ("", "the rows have no columns for the fields of the items"),
        ],
    )
    def test_that_cannot_be_are_refused(self, app: Stanchion, ddl: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            written(app, ddl)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"task": "t"}, "the option task is for calls"),
            ({"onDuplicate": "raise"}, "the option onDuplicate is for jobs with a key"),
            ({"rows": 0}, "the option rowsPerJob must be a whole number from 1"),
        ],
    )
    def test_options_of_single_jobs_are_refused(self, app: Stanchion, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            written(app, "n int", **options)

    def test_a_queue_is_needed(self, app: Stanchion) -> None:
        given = {"url": app.url, "rowsPerJob": "10"}
        with pytest.raises(InvalidInput, match="the target queue is missing"):
            writer_of(given, schema("n int"), overwrite=False)
        assert writer_of(given, schema("payload string, queue string"), overwrite=False).maker.queue is None


class TestPacking:
    """All rows come out, in groups that agree, in their order."""

    def test_random_rows(self) -> None:
        for seed in range(60):
            dice = random.Random(seed)
            by, most = dice.choice([(), ("a",), ("a", "b")]), dice.randint(1, 8)
            rows = [
                {"n": n, "a": dice.choice(["x", "y", None]), "b": dice.choice([1, 2, None])}
                for n in range(dice.randint(0, 60))
            ]
            found = [*packed(_batches(rows, dice), by, most)]
            assert sorted(row["n"] for some in found for row in some.to_pylist()) == [row["n"] for row in rows]
            last: dict[Any, int] = {}
            full: Counter[Any] = Counter()
            for some in found:
                assert 0 < some.num_rows <= most
                keys = {tuple(row[name] for name in by) for row in some.to_pylist()}
                (key,) = keys
                numbers = some.column("n").to_pylist()
                assert numbers == sorted(numbers)
                assert numbers[0] > last.get(key, -1)
                last[key] = numbers[-1]
                full[key] += some.num_rows < most
            assert all(number <= 1 for number in full.values())

    def test_what_waits_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.spark.datasource.writing.packing.HELD_BYTES", 10_000)
        fed = passed_on = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal fed
            for n in range(100):
                assert fed - passed_on <= 100  # of a hundred bytes each
                fed += 10
                yield batch(n=[n] * 10, text=["x" * 92] * 10)

        for some in packed(batches(), ("n",), 1000):
            passed_on += some.num_rows
        assert passed_on == 1000


def _batches(rows: list[dict[str, Any]], dice: random.Random) -> Iterator[pa.RecordBatch]:
    kinds = pa.schema([("n", pa.int64()), ("a", pa.string()), ("b", pa.int64())])
    while rows:
        size = dice.randint(1, 12)
        yield pa.RecordBatch.from_pylist(rows[:size], kinds)
        rows = rows[size:]
