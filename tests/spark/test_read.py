"""Jobs and history as DataFrames."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from cryptography.fernet import Fernet
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, LessThanOrEqual, Not

from stanchion import Push, Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.core.times import micros
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.options import Place
from stanchion.spark.datasource.reading import read as read_source
from stanchion.spark.datasource.reading import stream_read as stream_source
from stanchion.spark.datasource.reading.items import ItemRows
from stanchion.spark.datasource.reading.read import (
    FilteringReader,
    JobsReader,
    Part,
    condition_of,
    query_of,
)
from stanchion.spark.datasource.reading.schema import COLUMNS, Field, arrow_schema, checked_columns
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.query import Condition, Query
from stanchion.streams import StreamSource
from stanchion.streams.state import reserved
from stanchion_conformance.harness import ids_reserved, rows_reserved
from tests.spark.places import opened, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def fill(app: Stanchion) -> None:
    """Push jobs of every live state, and finish some."""
    mail = app.queue("mail")
    mail.push({"n": "dead"}, priority=90)
    mail.reserve()[0].bury("no such address")
    mail.push({"n": "done"}, priority=90, tenant="acme")
    mail.reserve()[0].commit({"sent": True})
    mail.push({"n": "running"}, priority=90, order_key="o")
    mail.reserve(lease=600)
    mail.push_many([Push({"n": n}, priority=n, tenant=f"t{n % 2}", headers={"h": n}) for n in range(5)])
    mail.push({"n": "later"}, run_at=datetime.now(UTC) + timedelta(days=1), key="k", timeout=3)
    app.queue("other").push({"n": "other"})


def payloads(frame: "DataFrame") -> set[str]:
    return {row.payload for row in frame.select("payload").collect()}


@pytest.mark.nightly_except("sqlite")
class TestRead:
    def test_live_jobs_are_as_the_app_sees_them(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        fill(sql_app)
        rows = {row.id: row for row in read(spark, sql_app).collect()}
        jobs = {job.id: job for job in sql_app.find(state=["ready", "scheduled", "running"])}
        assert rows.keys() == jobs.keys()
        for job_id, row in rows.items():
            job = jobs[job_id]
            assert (row.queue, row.state, row.priority, row.tenant) == (job.queue, job.state, job.priority, job.tenant)
            assert (row.run_at, row.enqueued_at, row.started_at) == tuple(
                None if one is None else one.replace(tzinfo=None)
                for one in (job.run_at, job.enqueued_at, job.started_at)
            )
            assert (row.attempts, row.timeout, row.key, row.lane) == (job.attempts, job.timeout, job.key, job.lane)
            assert context_of(sql_app).codec.decode(row.payload) == job.payload
            assert (context_of(sql_app).codec.decode(row.headers) or {}) == job.headers

    def test_history_has_results_and_errors(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        fill(sql_app)
        done, dead = read(spark, sql_app, of="history").orderBy("state", ascending=False).collect()
        assert (done.state, done.result, done.tenant) == ("done", '{"sent":true}', "acme")
        assert (dead.state, dead.result) == ("dead", None)
        assert "no such address" in dead.errors
        assert dead.finished_at >= dead.started_at >= dead.enqueued_at

    def test_an_empty_store_gives_the_columns(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        for of in COLUMNS:
            frame = read(spark, sql_app, of=of)
            assert frame.columns == [*COLUMNS[of], "item"]
            assert frame.collect() == []

    @pytest.mark.nightly
    def test_filters_give_what_spark_alone_would(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        fill(sql_app)
        conditions = [
            "queue = 'other'",
            "queue in ('other', 'none')",
            "state = 'ready' and priority >= 3",
            "state in ('scheduled', 'running')",
            "tenant = 't1'",
            "tenant <> 't1'",
            "tenant is null",
            "priority < 2 or priority = 4",
            "run_at > now()",
            "enqueued_at < timestamp'2020-01-01'",
            "started_at > timestamp'2020-01-01'",
            "id > '0' and queue = 'mail'",
            "payload like '%later%'",
        ]
        plain = spark.createDataFrame(read(spark, sql_app).collect(), read(spark, sql_app).schema)
        for condition in conditions:
            assert payloads(read(spark, sql_app).where(condition)) == payloads(plain.where(condition)), condition

    def test_explain_shows_what_is_left_to_spark(self, spark: "SparkSession", app: Stanchion) -> None:
        fill(app)
        frame = read(spark, app).where("queue = 'mail' and priority > 1 and payload like '%2%'")
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "BatchScan stanchion" in plan
        assert "Contains(payload" in plan
        assert "= mail" not in plan, "it is the store's to check"
        assert "> 1" not in plan

    @pytest.mark.parametrize("by", ["id", "lane"])
    def test_partitions_share_the_jobs(self, spark: "SparkSession", sql_app: Stanchion, by: str) -> None:
        queue = sql_app.queue("q", lanes=8, lanes_per_tenant=2)
        queue.push_many([Push({"n": n}, tenant=f"t{n}") for n in range(400)])
        sql_app.queue("unlaned").push({"n": "without"})
        frame = read(spark, sql_app, partitions=4, by=by)
        assert frame.rdd.getNumPartitions() == 4
        sizes = frame.rdd.glom().map(len).collect()
        assert sum(sizes) == frame.select("id").distinct().count() == 401
        assert all(sizes)

    def test_few_columns_by_a_schema(self, spark: "SparkSession", sql_app: Stanchion) -> None:
        fill(sql_app)
        reading = (
            spark.read.format("stanchion").schema("priority int, id string").options(url=sql_app.url, queue="mail")
        )
        assert sorted(row.priority for row in reading.load().collect()) == [0, 0, 1, 2, 3, 4, 90]

    def test_a_session_without_push_down_reads_too(self, spark: "SparkSession", app: Stanchion) -> None:
        fill(app)
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        try:
            frame = read(spark, app).where("queue = 'other'")
            assert payloads(frame) == {'{"n":"other"}'}
            assert "= other" in frame._jdf.queryExecution().executedPlan().toString()
        finally:
            spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")

    def test_it_is_sql_too(self, spark: "SparkSession", app: Stanchion) -> None:
        fill(app)
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW jobs USING stanchion OPTIONS (url '{app.url}')")
        [row] = spark.sql("SELECT count(*) AS n FROM jobs WHERE state = 'ready'").collect()
        assert row.n == 6
        spark.catalog.dropTempView("jobs")

    def test_encrypted_payloads_are_opened_with_keys_alone(self, spark: "SparkSession", app: Stanchion) -> None:
        key = Fernet.generate_key().decode()
        with opened(app.url, keys=[key]) as sealing:
            sealing.queue("q").push({"iban": "DE00"})
        app.queue("q").push({"iban": "open"})
        assert payloads(read(spark, app, keys=key)) == {'{"iban":"DE00"}', '{"iban":"open"}'}
        assert sum(text.startswith("enc:") for text in payloads(read(spark, app))) == 1
        with pytest.raises(PythonException, match="encrypted under a key that this app does not have") as caught:
            read(spark, app, keys=Fernet.generate_key().decode()).collect()
        assert "stanchion/codec.py" not in str(caught.value)

    def test_every_other_store(self, spark: "SparkSession", other_app: Stanchion) -> None:
        fill(other_app)
        frame = read(spark, other_app, partitions=2)
        assert frame.count() == 8
        assert payloads(frame.where("state = 'ready' and priority >= 3")) == {'{"n":3}', '{"n":4}'}
        assert payloads(frame.where("queue = 'other'")) == {'{"n":"other"}'}
        assert sorted(row.state for row in read(spark, other_app, of="history").collect()) == ["dead", "done"]


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"partition": "3"}, "the data source has no option 'partition' for read; did you mean partitions?"),
            ({"partitions": "0"}, "the option partitions must be a whole number from 1 to 10,000, not '0'"),
            ({"url": "nosql://x"}, "no store understands the URL"),
            pytest.param(
                *({"url": "postgresql://me:geheim@127.0.0.1:1/x"}, "can't reach the store postgresql"),
                marks=pytest.mark.nightly,  # it takes as long as a call may
            ),
        ],
    )
    def test_each_is_one_sentence(
        self, spark: "SparkSession", app: Stanchion, options: dict[str, str], sentence: str
    ) -> None:
        with pytest.raises(AnalysisException) as caught:
            spark.read.format("stanchion").options(**{"url": app.url, **options}).load().count()
        message = str(caught.value)
        assert sentence in message
        assert "Traceback" not in message
        assert "geheim" not in message
        assert message.count("\n") <= 1

    def test_secrets_are_in_no_plan(
        self, spark: "SparkSession", app: Stanchion, capsys: pytest.CaptureFixture[str]
    ) -> None:
        key = Fernet.generate_key().decode()
        read(spark, app, keys=key).explain(True)
        shown = capsys.readouterr().out
        assert "stanchion" in shown
        assert key not in shown


class TestColumns:
    def test_an_unknown_one_is_guessed_at(self) -> None:
        with pytest.raises(InvalidInput, match=r"jobs have no column 'tennant'; did you mean tenant\?"):
            checked_columns("jobs", [Field("tennant", "string")])

    def test_one_of_history_is_not_of_jobs(self) -> None:
        with pytest.raises(InvalidInput, match="jobs have no column 'result'"):
            checked_columns("jobs", [Field("result", "string")])

    def test_another_type_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="the column priority of jobs is of type int, not bigint"):
            checked_columns("jobs", [Field("priority", "bigint")])


class TestPushDown:
    @pytest.mark.parametrize(
        ("pushed", "condition"),
        [
            (EqualTo(("queue",), "q"), Condition("queue", "=", "q")),
            (In(("state",), ("done", "dead")), Condition("state", "in", ("done", "dead"))),
            (GreaterThan(("run_at",), NOON), Condition("run_at", ">", micros(NOON))),
            (LessThanOrEqual(("priority",), 3), Condition("priority", "<=", 3)),
            (EqualTo(("payload",), "x"), None),
            (EqualTo(("lane",), 3), None),
            (EqualTo(("id",), "no id"), None),
            (EqualTo(("queue", "x"), "q"), None),
            (EqualTo(("tenant",), None), None),
            (IsNotNull(("queue",)), None),
            (Not(EqualTo(("queue",), "q")), None),
        ],
    )
    def test_filters_become_conditions(self, pushed: Filter, condition: Condition | None) -> None:
        assert condition_of(pushed) == condition

    def test_the_rest_is_given_back(self) -> None:
        reader = FilteringReader(Place("sqlite:///x.db"), query_of("jobs"), ["id"], 1, False)
        mine, theirs = EqualTo(("queue",), "q"), EqualTo(("payload",), "x")
        assert list(reader.pushFilters([mine, theirs])) == [theirs]
        assert reader.query.where == (Condition("queue", "=", "q"),)


def batches_of(app: Stanchion, query: Query, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return read_source.batches_of(app, query, ItemRows("jobs" if query.of == "live" else "history", names))


class TestArrow:
    @pytest.mark.parametrize("of", list(COLUMNS))
    def test_rows_and_arrow_agree(self, sql_app: Stanchion, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(sql_app)
        names = list(COLUMNS[of])

        def table() -> pa.Table:
            found = pa.Table.from_batches(batches_of(sql_app, query_of(of), names), arrow_schema(of, names))
            return found.sort_by("id")

        by_arrow = table()
        without = replace(sql_app.store.capabilities, arrow=False)
        monkeypatch.setattr(sql_app.store, "capabilities", without)
        assert table() == by_arrow
        assert by_arrow.num_rows > 1

    def test_so_do_those_of_reserved_jobs(self, sql_app: Stanchion) -> None:
        sql_app.queue("q").push_many([Push({"n": n}, headers={"n": n}) for n in range(7)])
        sql_app.store.claim(Claim("q", 6, "mine", worker="w", rows=False))
        sql_app.store.claim(Claim("q", 1, "other", worker="w", rows=False))
        ids = ids_reserved(sql_app.store, "q", "mine")
        for first, last in ((None, None), (ids[1], ids[3])):
            found = rows_reserved(sql_app.store, "q", "mine", first, last)
            names = ["id", "state", "payload", "headers"]
            query = replace(reserved("q", "mine", first, last), columns=tuple(names))
            batches = cast("Any", sql_app.store).select_arrow(query)
            assert [row for batch in batches for row in batch.to_pylist()] == [
                {"id": row.id, "state": "running", "payload": row.payload, "headers": row.headers} for row in found
            ]

    @pytest.mark.parametrize("few", [0, stream_source.FEW])
    def test_a_stream_reads_by_either(self, sql_app: Stanchion, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
        monkeypatch.setattr(stream_source, "FEW", few)
        sql_app.queue("q").push_many([Push({"n": n}, priority=n) for n in range(7)])
        source = StreamSource(sql_app.store, "s", "q")
        start = source.initial()
        parts = source.parts(start, source.latest(start, 5), 2)
        names = ["id", "priority", "payload", "state"]
        batches = [batch for part in parts for batch in stream_source.batches(sql_app, part, ItemRows("jobs", names))]
        assert {batch.schema for batch in batches} == {arrow_schema("jobs", names)}
        found = [row for batch in batches for row in batch.to_pylist()]
        assert sorted((row["priority"], row["payload"], row["state"]) for row in found) == [
            (n, f'{{"n":{n}}}', "running") for n in range(2, 7)
        ]
        assert [row["id"] for row in found] == sorted(job.id for job in sql_app.find(state="running"))

    def test_a_job_in_no_lane_has_none_and_one_in_a_flow_its_id(self, sql_app: Stanchion) -> None:
        root = new_id()
        at: dict[str, Any] = {"flow_root": root, "flow_node": root, "flow_index": 0}
        sql_app.store.push([NewJob(new_id(), "q", "1", **at), NewJob(new_id(), "q", "2", lane=0)])
        names = ["payload", "lane", "flow"]
        found = pa.Table.from_batches(batches_of(sql_app, query_of("jobs"), names), arrow_schema("jobs", names))
        assert found.sort_by("payload").to_pylist() == [
            {"payload": "1", "lane": None, "flow": root},
            {"payload": "2", "lane": 0, "flow": None},
        ]

    def test_values_can_hold_any_character(self, sql_app: Stanchion) -> None:
        name = 'it\'s 100% "so": \\ :name {x} ü'
        sql_app.queue(name).push({"n": 1}, tenant=name)
        sql_app.queue("q").push({"n": 2}, tenant="t")
        query = query_of("jobs", Condition("queue", "in", (name,)), Condition("tenant", "=", name))
        [batch] = [batch for batch in batches_of(sql_app, query, ["queue", "payload"]) if batch.num_rows]
        assert batch.to_pylist() == [{"queue": name, "payload": '{"n":1}'}]

    def test_a_column_that_is_null_at_first_is_still_text(self, app: Stanchion) -> None:
        app.queue("q").push_many(
            [Push(n, tenant=None if n < 5000 else "t", timeout=None if n < 5000 else 2.5) for n in range(5001)]
        )
        found = pa.Table.from_batches(batches_of(app, query_of("jobs"), ["tenant", "timeout"]))
        assert found.column("tenant").to_pylist().count("t") == 1
        assert found.column("timeout").to_pylist().count(2.5) == 1

    @pytest.mark.nightly
    def test_reading_leaves_the_process_its_locks(self, app: Stanchion) -> None:
        """A process without them writes to a file that the next to leave the database removes."""
        app.queue("q").push(1)
        assert sum(batch.num_rows for batch in batches_of(app, query_of("jobs"), ["id"])) == 1
        assert counted_elsewhere(app) == 1
        app.queue("q").push(2)
        assert counted_elsewhere(app) == 2

    def test_a_part_is_read_like_the_whole(self, app: Stanchion) -> None:
        fill(app)
        reader = JobsReader(Place(app.url), query_of("jobs"), ["id"], 3, False)
        parts = reader.partitions()
        assert len(parts) == 3
        ids = [one for part in parts for batch in reader.read(part) for one in batch.column("id").to_pylist()]
        assert sorted(ids) == sorted(job.id for job in app.find(state=["ready", "scheduled", "running"]))
        assert isinstance(parts[0], Part)


def counted_elsewhere(app: Stanchion) -> int:
    """Open the database in a process of its own, count its jobs, and close it."""
    code = "import sys, stanchion; print(stanchion.Stanchion(sys.argv[1]).queue('q').size().total)"
    done = subprocess.run([sys.executable, "-c", code, app.url], capture_output=True, text=True, check=True)
    return int(done.stdout)
