"""Jobs by Spark's JDBC reader are those of the data source, and the data source is taken where JDBC can't."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions
from sqlalchemy import make_url

from stanchion import Push, Stanchion
from stanchion.errors import InvalidInput
from stanchion.spark import compared_times, jobs, table
from stanchion.spark.datasource.options import Place
from tests.spark.conftest import JDBC_DRIVER
from tests.spark.places import opened, read
from tests.spark.test_item_rows import push
from tests.spark.test_read import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ODD = """it's 100% "odd" :x $1 \\ {0} ?"""
"""A name that each language on the way would change if it were not a constant there."""


def by_jdbc(frame: "DataFrame") -> bool:
    return "JDBCRelation" in frame._jdf.queryExecution().toString()


def rows(frame: "DataFrame") -> list[str]:
    return sorted(map(str, frame.collect()))


def columns(frame: "DataFrame") -> list[tuple[str, str, bool]]:
    """Return names, types and whether they may be null; JDBC adds metadata to them."""
    return [(one.name, one.dataType.simpleString(), one.nullable) for one in frame.schema]


@pytest.fixture(autouse=True)
def driver() -> None:
    if not JDBC_DRIVER.exists():
        pytest.skip("PostgreSQL's JDBC driver is missing (Debian: apt-get install libpostgresql-jdbc-java)")


@contextmanager
def zone_of_java(spark: "SparkSession", name: str) -> Iterator[None]:
    java: Any = spark._jvm
    zones = java.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


@contextmanager
def settings(spark: "SparkSession", **given: str) -> Iterator[None]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    before = {name: str(spark.conf.get(name)) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


class TestSame:
    @pytest.mark.parametrize("of", ["jobs", pytest.param("history", marks=pytest.mark.nightly)])
    def test_rows_columns_and_types(self, spark: "SparkSession", pg_app: Stanchion, of: str) -> None:
        fill(pg_app)
        pg_app.queue("far").push(1, run_at=datetime(9000, 1, 1, 0, 0, 0, 123457, UTC))
        pg_app.queue("lanes").configure(lanes=8)
        pg_app.queue("lanes").push_many([Push(n, tenant=f"t{n}") for n in range(10)])
        by_source, by_table = read(spark, pg_app, of=of), jobs(spark, pg_app.url, of=of)
        assert (by_jdbc(by_source), by_jdbc(by_table)) == (False, True)
        assert columns(by_table) == columns(by_source)
        assert rows(by_table) == rows(by_source) != []

    def test_names_full_of_signs(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        pg_app.queue(ODD).push({"n": ODD}, tenant=ODD, key=ODD)
        pg_app.queue("other").push(1)
        found = jobs(spark, pg_app.url, queue=ODD)
        assert by_jdbc(found)
        assert [row.tenant for row in found.collect()] == [ODD]
        assert rows(found) == rows(read(spark, pg_app, queue=ODD))
        assert jobs(spark, pg_app.url).where(functions.col("tenant") == ODD).count() == 1

    @pytest.mark.parametrize("by", [pytest.param("id", marks=pytest.mark.nightly), "lane"])
    def test_each_job_is_in_one_part(self, spark: "SparkSession", pg_app: Stanchion, by: str) -> None:
        pg_app.queue("many").configure(lanes=6)
        pg_app.queue("many").push_many([Push(n, tenant=f"t{n}") for n in range(600)])
        found = jobs(spark, pg_app.url, queue="many", partitions=3, by=by)
        parts = found.rdd.glom().map(len).collect()
        assert (len(parts), sum(parts), min(parts) > 0) == (3, 600, True)
        assert rows(found) == rows(read(spark, pg_app, queue="many"))

    @pytest.mark.nightly
    def test_an_empty_store(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        found = jobs(spark, pg_app.url)
        assert columns(found) == columns(read(spark, pg_app))
        assert found.collect() == []


CONDITIONS = [
    "state = 'ready'",
    "queue = 'mail' and priority > 2",
    "tenant is null",
    "lane is null",
    "run_at > timestamp '2026-10-25 02:30:00'",
    "run_at = timestamp '2026-10-25 01:30:00'",
    "id = 'no id'",
    "payload like '%done%'",
]

NOON = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000

TIMES = [
    ("run_at > noon", 19, f"GreaterThan(run_at,{NOON})"),
    ("noon >= run_at", 1, f"LessThanOrEqual(run_at,{NOON})"),
    ("run_at = noon + interval 3 microseconds", 1, f"EqualTo(run_at,{NOON + 3})"),
    ("run_at <=> noon", 1, f"EqualNullSafe(run_at,{NOON})"),
    ("run_at <> noon", 19, f"Not(EqualTo(run_at,{NOON}))"),
    ("run_at in (noon, noon + interval 1 microsecond)", 2, f"In(run_at, [{NOON},{NOON + 1}])"),
    (f"run_at in ({', '.join(f'noon + interval {n} microseconds' for n in range(15))})", 15, "In(run_at, ["),
    ("not (run_at < noon and priority = 1)", 20, f"Or(GreaterThanOrEqual(run_at,{NOON}),Not("),
    ("started_at is null", 20, "IsNull(started_at)"),
    ("started_at is not null", 0, "IsNotNull(started_at)"),
    ("started_at <=> null", 20, "IsNull(started_at)"),
    ("run_at > date'2026-06-01'", 20, "GreaterThan(run_at,"),
    ("run_at > enqueued_at", 0, "ReadSchema"),
    ("timestamp_seconds(priority) < run_at", 20, "ReadSchema"),
    ("timestamp_micros(priority) < noon", 20, "PushedFilters: [*IsNotNull(priority)], ReadSchema"),
]
"""Conditions on times, how many of the jobs meet them, and what goes to the server of each."""


class TestFilters:
    def test_only_what_is_used_is_read(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        fill(pg_app)
        plan = jobs(spark, pg_app.url).where("state = 'ready' and priority > 2").select("id")._jdf.queryExecution()
        assert "EqualTo(state,ready)" in plan.toString()
        assert "ReadSchema: struct<id:string>" in plan.toString()

    def test_the_server_compares_times(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
        pg_app.queue("mail").push_many([Push(n, run_at=noon + n * timedelta(microseconds=1)) for n in range(20)])
        found = jobs(spark, pg_app.url, partitions=1)
        for condition, count, pushed in TIMES:
            some = found.where(condition.replace("noon", "timestamp '2026-06-01T12:00:00Z'"))
            plan = some._jdf.queryExecution().executedPlan().toString()
            assert pushed in plan, condition
            assert some.count() == count, condition

    def test_the_rule_is_added_once(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        session = spark.newSession()
        for _ in range(2):
            assert jobs(session, pg_app.url).where("run_at > current_timestamp()").count() == 0
        rules: Any = session._jsparkSession
        assert rules.experimental().extraOptimizations().size() == 1

    def test_without_it_spark_compares(
        self,
        spark: "SparkSession",
        pg_app: Stanchion,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        pg_app.queue("mail").push_many([Push(n, run_at=datetime(2026, 6, 1 + n, tzinfo=UTC)) for n in range(3)])
        monkeypatch.setattr(compared_times, "_COMPILER", "org.codehaus.janino.NoCompiler")
        some = jobs(spark.newSession(), pg_app.url).where("run_at > timestamp '2026-06-01T12:00:00Z'")
        assert some.count() == 2
        assert "NoCompiler" in caplog.text

    @pytest.mark.parametrize(
        ("java_zone", "spark_zone", "java8"),
        [
            pytest.param("Europe/Berlin", "Europe/Berlin", "true", marks=pytest.mark.nightly),
            pytest.param("UTC", "UTC", "false", marks=pytest.mark.nightly),
            pytest.param("America/New_York", "UTC", "false", marks=pytest.mark.nightly),
            pytest.param("UTC", "America/New_York", "true", marks=pytest.mark.nightly),
            pytest.param("UTC", "UTC", "true", marks=pytest.mark.nightly),
            pytest.param("Etc/GMT+9", "Asia/Tokyo", "false", marks=pytest.mark.nightly),
        ],
    )
    def test_mean_the_same_in_any_zone(
        self, spark: "SparkSession", pg_app: Stanchion, java_zone: str, spark_zone: str, java8: str
    ) -> None:
        fill(pg_app)
        hour = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # clocks of Berlin show each time of this one twice
        pg_app.queue("mail").push_many([Push(n, run_at=hour + n * timedelta(minutes=30)) for n in range(5)])
        zone = {"spark_sql_session_timeZone": spark_zone, "spark_sql_datetime_java8API_enabled": java8}
        with zone_of_java(spark, java_zone), settings(spark, **zone):
            by_source, by_table = read(spark, pg_app), jobs(spark, pg_app.url)
            assert by_jdbc(by_table)
            for condition in CONDITIONS:
                assert rows(by_table.where(condition)) == rows(by_source.where(condition)), condition


class TestManyItems:
    """Jobs that carry many items are read by the data source, which shows each."""

    def test_live_ones(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        pg_app.queue("q").push({"n": 0})
        assert by_jdbc(jobs(spark, pg_app.url))
        push(pg_app, [{"n": 1}, {"n": 2}], queue="q")
        found = jobs(spark, pg_app.url)
        assert not by_jdbc(found)
        assert sorted(row.payload for row in found.collect()) == [f'{{"n":{n}}}' for n in range(3)]
        assert by_jdbc(jobs(spark, pg_app.url, queue="other"))

    def test_one_that_came_after_the_plan_is_an_error(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        pg_app.queue("q").push({"n": 0})
        found = jobs(spark, pg_app.url)
        assert found.count() == 1
        push(pg_app, [{"n": 1}, {"n": 2}], queue="q")
        for read_all in (found.count, found.select("id").collect):
            with pytest.raises(Exception, match="carries many items, which JDBC does not read"):
                read_all()

    def test_finished_ones(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        push(pg_app, [{"n": 1}, {"n": 2}], queue="q")
        (job,) = pg_app.queue("q").reserve()
        job.commit()
        with pytest.raises(Exception, match="carries many items"):  # before the server has statistics
            jobs(spark, pg_app.url, of="history").collect()
        with pg_app.transaction() as connection:
            connection.exec_driver_sql("ANALYZE stanchion_history")
        assert [row.item for row in jobs(spark, pg_app.url, of="history").collect()] == [0, 1]


class TestElsewhere:
    def test_another_store_is_read_by_the_data_source(self, spark: "SparkSession", app: Stanchion) -> None:
        fill(app)
        found = jobs(spark, app.url, queue="mail")
        assert not by_jdbc(found)
        assert rows(found) == rows(read(spark, app, queue="mail"))

    def test_so_are_encrypted_payloads_with_keys(
        self, spark: "SparkSession", pg_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from cryptography.fernet import Fernet

        key = Fernet.generate_key().decode()
        with opened(pg_url, keys=[key]) as app:
            app.queue("secret").push({"n": 1})
            assert by_jdbc(jobs(spark, app.url))
            assert [row.payload for row in jobs(spark, app.url, keys=key).collect()] == ['{"n":1}']
            monkeypatch.setenv("STANCHION_KEYS", key)
            assert not by_jdbc(jobs(spark, app.url))

    def test_so_are_parameters_that_jdbc_has_not(self, spark: "SparkSession", pg_app: Stanchion) -> None:
        more = "&" if "?" in pg_app.url else "?"
        assert by_jdbc(jobs(spark, f"{pg_app.url}{more}connect_timeout=5"))
        assert not by_jdbc(jobs(spark, f"{pg_app.url}{more}keepalives=1"))

    def test_without_the_driver(
        self, spark: "SparkSession", pg_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(table, "DRIVER", "org.postgresql.NoDriver")
        assert not by_jdbc(jobs(spark, pg_app.url))

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"of": "jobz"}, "the option of must be jobs or history, not 'jobz'"),
            ({"partitions": 0}, "the option partitions must be a whole number"),
            ({"by": "day"}, "the option by must be id or lane"),
            ({"url": "memory://"}, "memory:// lives in one process"),
        ],
    )
    def test_mistakes(self, spark: "SparkSession", pg_app: Stanchion, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
            jobs(spark, **{"url": pg_app.url, **options})


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://u:p@db/shop", "jdbc:postgresql://db:5432/shop"),
        ("postgresql+psycopg://[::1]:6000/a b?sslmode=require", "jdbc:postgresql://[::1]:6000/a%20b"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    assert table._address(make_url(url)) == address


def test_what_connects_holds_no_password_in_its_address(spark: "SparkSession") -> None:
    found = table._connection(spark, Place("postgresql://me:se%40cret@db/shop?sslmode=require"))
    assert found is not None
    assert (found["user"], found["password"], found["sslmode"]) == ("me", "se@cret", "require")
    assert "cret" not in found["url"]
