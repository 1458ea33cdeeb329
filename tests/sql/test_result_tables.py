"""Tables that others have made, on each SQL database: their types, rules and schemas."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine, create_engine, text

from stanchion import Stanchion, Table
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.registry import open_store

KINDS = (
    "flag boolean, small smallint, big bigint not null, ratio double, amount decimal(20,5), told string, day date, "
    "at timestamp, local timestamp_ntz, tags array<string>, inner struct<a: bigint>"
)
ITEM = {
    **{"flag": True, "small": -5, "big": 2**62, "ratio": 0.1, "amount": "123456789012345.12345", "told": "größe 🛫"},
    **{"day": "2031-05-01", "at": "2031-05-01T08:00:00.123456+02:00", "local": "2031-05-01T08:00:00"},
    **{"tags": ["a"], "inner": {"a": 2**60}},
}


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    """The database of the app, as its user sees it."""
    address = url.replace("mysql://", "mysql+pymysql://").replace("mariadb://", "mysql+pymysql://")
    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def kind_of(engine: Engine) -> str:
    """Return the kind of database."""
    return "mysql" if engine.dialect.name == "mariadb" else engine.dialect.name


def run(engine: Engine, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    for one in statements:
        with engine.begin() as connection:
            connection.exec_driver_sql(one)


def written(app: Stanchion, table: Table, *items: Any) -> None:
    """Write items to a table, together in a chunk."""
    etl = app.pipeline("etl")
    etl.station("only", to=table)(lambda item: item)
    etl.push_chunks(items)
    etl.drain()


def errors(app: Stanchion) -> list[str]:
    """Return the errors of all dead letters."""
    return [job.errors[-1]["error"] for job in app.queue("etl.dead").find()]


def test_a_user_reads_what_was_written(app: Stanchion, database: Engine) -> None:
    written(app, Table("kinds", schema=KINDS), ITEM, {"big": 1})
    assert errors(app) == []
    with database.begin() as connection:
        first, second = connection.execute(text("SELECT * FROM kinds ORDER BY item")).mappings().all()
    assert [value for name, value in second.items() if name not in ("job_id", "item", "big")] == [None] * 10
    assert (bool(first["flag"]), first["small"], first["big"], first["ratio"]) == (True, -5, 2**62, 0.1)
    assert (str(first["amount"]), first["told"], str(first["day"])) == (ITEM["amount"], ITEM["told"], "2031-05-01")
    assert "06:00:00.123456" in str(first["at"]) or "08:00:00.123456+02" in str(first["at"])
    assert str(first["local"]).startswith("2031-05-01 08:00:00")
    assert "a" in str(first["tags"])
    assert str(2**60) in str(first["inner"])


def test_results_are_what_was_written(app: Stanchion) -> None:
    written(app, Table("kinds", schema=KINDS), ITEM, {"big": 1})
    found = app.pipeline("etl").results("only", as_="arrow")
    assert isinstance(found, pa.Table)
    first, second = sorted(found.to_pylist(), key=lambda row: int(row["item"]))
    assert {first["job_id"], second["job_id"]} == {job.id for job in app.queue("etl.only").find(state="done")}
    assert {name: first[name] for name in ITEM} == {
        **ITEM,
        **{"amount": Decimal(str(ITEM["amount"])), "day": date(2031, 5, 1), "local": datetime(2031, 5, 1, 8)},
        "at": datetime(2031, 5, 1, 6, 0, 0, 123456, tzinfo=UTC),
    }
    assert [second[name] for name in ITEM if name != "big"] == [None] * 10


def test_a_row_that_breaks_a_rule_dies_alone(app: Stanchion, database: Engine) -> None:
    key = "n BIGINT PRIMARY KEY, told VARCHAR(3), CHECK (n <> 7)"
    run(database, f"CREATE TABLE ruled ({key})", "INSERT INTO ruled VALUES (3, 'abc')")
    items = [{"n": n, "told": "long" if n == 5 else "abc"} for n in range(40)]
    written(app, Table("ruled", schema="n bigint not null, told string"), *items)
    with database.begin() as connection:
        found = [n for (n,) in connection.execute(text("SELECT n FROM ruled ORDER BY n"))]
    refused = [3, 7] if kind_of(database) == "sqlite" else [3, 5, 7]  # SQLite takes texts of any length
    assert found == [n for n in range(40) if n not in refused or n == 3]
    assert sorted(job.payload["n"] for job in app.queue("etl.dead").find()) == refused
    assert all("table ruled refuses a row" in one for one in errors(app))


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_row_longer_than_its_column_is_not_cut(app: Stanchion, database: Engine) -> None:
    run(database, "CREATE TABLE short (told VARCHAR(2))")
    written(app, Table("short", schema="told string"), {"told": "abc"})
    assert "refuses a row" in errors(app)[0]


@pytest.mark.parametrize(
    ("column", "kind", "fits"),
    [
        ("n INTEGER", "bigint", True),
        ("n NUMERIC(20, 0)", "bigint", True),
        ("n TEXT", "bigint", False),
        ("n DATE", "string", False),
        ("n VARCHAR(20)", "string", True),
        ("n DECIMAL(20, 2)", "decimal(20,5)", False),
        ("n DECIMAL(30, 5)", "decimal(20,5)", True),
        ("n DECIMAL(20, 2)", "double", False),
        ("n DOUBLE PRECISION", "double", True),
        ("n REAL", "float", True),
        ("n DATE", "date", True),
        ("n DATE", "timestamp", False),
        ("n TEXT", "array<string>", True),
        ("n INTEGER", "array<string>", False),
    ],
)
def test_columns_are_of_fitting_types(app: Stanchion, database: Engine, column: str, kind: str, fits: bool) -> None:
    run(database, f"CREATE TABLE typed ({column})")
    etl = app.pipeline("etl")
    etl.station("only", to=Table("typed", schema=f"n {kind}"))(lambda item: item)
    if fits or kind_of(database) == "sqlite":
        app.setup()
        return
    with pytest.raises(InvalidInput, match=r"table typed does not fit the results: its column 'n' is \w+.*; change"):
        app.setup()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_table_in_a_schema(app: Stanchion, database: Engine) -> None:
    run(database, "CREATE SCHEMA reports")
    written(app, Table("reports.daily", schema="n bigint"), {"n": 1}, {"n": 2})
    with database.begin() as connection:
        assert connection.scalar(text("SELECT sum(n) FROM reports.daily")) == 3


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.usefixtures("short_calls")
def test_a_locked_table_is_waited_for(app: Stanchion, database: Engine) -> None:
    written(app, Table("busy", schema="n bigint"), {"n": 1})
    etl = app.pipeline("etl")
    etl.push({"n": 2})
    lock = {"postgresql": "LOCK TABLE busy", "sqlite": "BEGIN IMMEDIATE"}
    with database.connect() as connection:
        connection.exec_driver_sql(lock[kind_of(database)])
        with pytest.raises(StoreUnavailable):
            etl.drain()
        connection.rollback()
    assert errors(app) == []


def test_a_table_that_this_user_may_not_make(pg_store_url: str) -> None:
    engine = create_engine(pg_store_url.replace("postgresql://", "postgresql+psycopg://"))
    run(
        engine,
        *(
            "DROP ROLE IF EXISTS few_rights",
            "CREATE ROLE few_rights LOGIN",
            "REVOKE CREATE ON SCHEMA public FROM public",
        ),
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO few_rights",
    )
    user = engine.url.set(username="few_rights", drivername="postgresql").render_as_string(hide_password=False)
    with Stanchion(store=open_store(user)) as app:
        etl = app.pipeline("etl")
        etl.station("only", to=Table("days", schema="n bigint"))(lambda item: item)
        with pytest.raises(InvalidInput, match=r"may not create it .*; create it as another user: CREATE TABLE days"):
            etl.drain()
    run(engine, "DROP OWNED BY few_rights", "DROP ROLE few_rights")
    engine.dispose()
