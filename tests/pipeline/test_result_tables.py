"""Tables as targets of stations: each item becomes a row, in the step that ends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pandas as pd
import pyarrow.compute as pc
import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, create_engine, text

from stanchion import Bury, Pipeline, Send, Snooze, Stanchion, Table
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.ports import ResultTables


@dataclass
class Day:
    flight: str
    zones: int
    note: str | None = None


class Leg(TypedDict):
    flight: str
    miles: float
    stops: NotRequired[list[str]]


class Order(BaseModel):
    id: int
    amount: Decimal
    at: datetime


def rows(etl: Pipeline, station: str, table: str | None = None) -> list[dict[str, Any]]:
    """Return the rows that a station has written."""
    targets = plan_of(etl).station(station).tables
    target = next(iter(targets.values())) if table is None else targets[table]
    store = plan_of(etl).context.store.extension(ResultTables)
    assert store is not None
    names = [one.name for one in target.result.columns]
    found = [dict(zip(names, row, strict=True)) for some in store.table_rows(target.result) for row in some]
    return sorted(found, key=lambda row: (str(row.get("job_id")), row.get("item") or 0))


def figures(etl: Pipeline, station: str) -> tuple[int, ...]:
    """Return what status counts of a station."""
    (found,) = [one for one in etl.status().stations if one.station == station]
    return (found.came, found.out, found.dropped, found.retried, found.dead)


def to_days(etl: Pipeline) -> None:
    """Declare a station that writes, drops and fails."""

    @etl.station("daily", to=Table("days"), max_attempts=1)
    def daily(item: dict[str, Any]) -> Day | None:
        if item["n"] % 5 == 1:
            return None
        if item["n"] % 5 == 2:
            raise ValueError("no such flight")
        return Day(f"UA{item['n']}", item["n"])


@pytest.mark.parametrize("chunked", [False, True])
def test_each_item_is_a_row(etl: Pipeline, chunked: bool) -> None:
    to_days(etl)
    items = [{"n": n} for n in range(20)]
    jobs = etl.push_chunks(items) if chunked else etl.push_many(items)
    assert isinstance(jobs, list)
    etl.drain()
    found = rows(etl, "daily")
    assert sorted(row["zones"] for row in found) == [n for n in range(20) if n % 5 not in (1, 2)]
    assert {row["flight"] for row in found} == {f"UA{row['zones']}" for row in found}
    if chunked:
        assert {(str(row["job_id"]), row["item"]) for row in found} == {(jobs[0].id, row["zones"]) for row in found}
    else:
        assert {str(row["job_id"]) for row in found} <= {job.id for job in jobs}
        assert {row["item"] for row in found} == {0}
    assert figures(etl, "daily") == (20, 12, 4, 0, 4)
    assert etl.status().empty


def test_a_whole_chunk_is_one_job_in_history(app: Stanchion, etl: Pipeline) -> None:
    etl.station("daily", to=Table("days", schema="n bigint not null"))(lambda item: item)
    (job,) = etl.push_chunks([{"n": n} for n in range(500)])
    etl.drain()
    done = app.get(job.id)
    assert done is not None
    assert (done.state, done.items, done.result) == ("done", 500, None)
    assert [row["n"] for row in rows(etl, "daily")] == list(range(500))
    assert figures(etl, "daily") == (500, 500, 0, 0, 0)


@pytest.mark.parametrize("chunked", [False, True])
def test_an_item_that_does_not_fit_is_a_dead_letter(app: Stanchion, etl: Pipeline, chunked: bool) -> None:
    values = [{"n": 1}, {"n": "2"}, {"n": None}, {"n": 2**63}, {"m": 1}, {"n": 5, "more": 1}, "text", {"n": 7}]
    etl.station("only", to=Table("numbers", schema="n bigint not null"))(lambda item: item)
    etl.push_chunks(values) if chunked else etl.push_many(values)
    etl.drain()
    assert [row["n"] for row in rows(etl, "only")] == ([1, 7] if chunked else sorted([1, 7]))
    letters = app.queue("etl.dead").find()
    told = {job.errors[-1]["error"].partition("not null): ")[2] or job.errors[-1]["error"] for job in letters}
    assert len(letters) == 6
    assert all(
        job.errors[-1]["error"].startswith("InvalidInput: the item does not fit table numbers (n bigint NOT NULL): ")
        for job in letters
    ), told
    assert figures(etl, "only") == (8, 2, 0, 0, 6)


def test_items_of_one_wrong_type(etl: Pipeline) -> None:
    etl.station("only", to=Table("numbers", schema="n bigint, day date"))(lambda item: item)
    etl.push_chunks([{"n": "1"}, {"n": "2"}])
    etl.push_chunks([{"n": 1, "day": "2031-05-01"}, {"n": 2, "day": "tomorrow"}])
    etl.drain()
    assert [row["n"] for row in rows(etl, "only")] == [1]
    assert len(etl.dead_letters.find()) == 3


def test_rows_and_dropped_items(app: Stanchion, etl: Pipeline) -> None:
    schema = "n bigint"
    etl.station("only", to=Table("numbers", schema=schema))(lambda item: item if item["n"] % 2 else None)
    (job,) = etl.push_chunks([{"n": n} for n in range(10)])
    etl.drain()
    assert [row["n"] for row in rows(etl, "only")] == [1, 3, 5, 7, 9]
    assert figures(etl, "only") == (10, 5, 5, 0, 0)
    done = app.get(job.id)
    assert done is not None
    assert [item["n"] for item in done.payload] == [1, 3, 5, 7, 9]


def test_what_a_function_says_it_returns(etl: Pipeline) -> None:
    @etl.station("legs", to=Table("legs"), entry=True)
    def legs(item: dict[str, Any]) -> Leg:
        return Leg(flight=item["flight"], miles=item["miles"])

    @etl.station("orders", to=Table("orders"), entry=True)
    async def orders(item: int) -> Order:
        return Order(id=item, amount=Decimal("12.50"), at=datetime(2031, 5, 1, 8, tzinfo=UTC))

    etl.push({"flight": "UA1", "miles": 12.5}, "legs")
    etl.push(7, "orders")
    etl.push_chunks([8, 9], "orders")
    etl.drain()
    (leg,) = rows(etl, "legs")
    assert (leg["flight"], leg["miles"], leg["stops"]) == ("UA1", 12.5, None)
    found = rows(etl, "orders")
    assert sorted(row["id"] for row in found) == [7, 8, 9]
    assert {Decimal(row["amount"]) for row in found} == {Decimal("12.5")}


def test_stations_and_tables_as_targets(app: Stanchion, etl: Pipeline) -> None:
    @etl.station("raw", to=["end", Table("far", schema="n bigint"), Table("reports.near", schema="n bigint")])
    def raw(item: dict[str, Any]) -> object:
        n = item["n"]
        if n == 0:
            return Send("end")
        if n == 1:
            return Send("far", {"n": n})
        if n == 2:
            return [Send("far", {"n": n}), Send("far", {"n": -n}), Send("end", {"n": n})]
        if n == 3:
            return [Send("far", {"n": n}), Send("end", {"n": n}), Send("far", {"n": "three"})]
        return Snooze(60) if n == 4 else Bury("no")

    etl.station("end")(lambda item: item["n"])
    plan_of(etl).station("raw").tables.pop("near")  # SQLite has no schemas
    for chunked in (False, True):
        items = [{"n": n} for n in range(6)]
        etl.push_chunks(items) if chunked else etl.push_many(items)
    etl.drain()
    found = rows(etl, "raw", "far")
    assert sorted(row["n"] for row in found) == [-2, -2, 1, 1, 2, 2]
    ended = [job.payload["n"] if job.items is None else [one["n"] for one in job.payload] for job in
             app.queue("etl.end").find(state="done")]  # fmt: skip
    assert sorted(map(str, ended)) == ["0", "0", "2", "2"]
    assert len(etl.dead_letters.find()) == 4
    assert figures(etl, "raw") == (12, 6, 0, 2, 4)


@pytest.mark.parametrize("takes", ["arrow", "pandas"])
def test_a_batch_function_writes_its_rows(app: Stanchion, etl: Pipeline, takes: Any) -> None:
    schema = "n bigint not null, half double"

    @etl.station("raw", to=Table("halves", schema=schema), takes=takes, max_attempts=1)
    def raw(table: Any) -> Any:
        if takes == "pandas":
            table = table[table["n"] != 1]
            table["half"] = table["n"] / 2
            table["error"] = table["n"].map(lambda n: "bad" if n == 2 else None)
            return table.sort_values("n", ascending=False)
        table = table.filter(pc.not_equal(table["n"], 1))
        table = table.append_column("half", pc.divide(pc.cast(table["n"], "double"), 2.0))
        bad = pc.if_else(pc.equal(table["n"], 2), "bad", None)
        return table.append_column("error", bad).sort_by([("n", "descending")])

    (job,) = etl.push_chunks([{"n": n} for n in range(10)])
    etl.push({"n": 20})
    etl.drain()
    found = [row for row in rows(etl, "raw") if str(row["job_id"]) == job.id]
    assert [(row["item"], row["n"], row["half"]) for row in found] == [
        (n, n, n / 2) for n in range(10) if n not in (1, 2)
    ]
    assert len(rows(etl, "raw")) == 9
    (letter,) = app.queue("etl.dead").find()
    assert letter.payload == {"n": 2}
    assert figures(etl, "raw") == (11, 9, 1, 0, 1)


def test_new_rows_of_a_batch_function_have_no_item(etl: Pipeline) -> None:
    @etl.station("raw", to=Table("sums", schema="total bigint"), takes="pandas")
    def raw(table: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"total": [int(table["n"].sum())]})

    (job,) = etl.push_chunks([{"n": n} for n in range(10)])
    etl.drain()
    (row,) = rows(etl, "raw")
    assert (str(row["job_id"]), row["item"], row["total"]) == (job.id, None, 45)
    assert figures(etl, "raw") == (10, 10, 0, 0, 0)


def test_rows_of_items_that_are_merged(etl: Pipeline) -> None:
    schema = "n bigint not null, more string"
    etl.station("raw", to=Table("merged", schema=schema), payload="merge")(lambda item: {"more": f"{item['n']}!"})
    etl.push({"n": 1})
    etl.push_chunks([{"n": 2}, {"n": 3}])
    etl.drain()
    assert sorted((row["n"], row["more"]) for row in rows(etl, "raw")) == [(1, "1!"), (2, "2!"), (3, "3!")]


def test_a_worker_passes_items_to_tables_in_memory(etl: Pipeline) -> None:
    etl.station("raw", to="clean")(lambda item: {**item, "seen": True})
    etl.station("clean", to=Table("clean", schema="n bigint not null, seen boolean"))(lambda item: item)
    etl.push_many([{"n": n} for n in range(50)])
    etl.push_chunks([{"n": n} for n in range(50, 150)], size=40)
    etl.run(threads=2, until_empty=True, poll=0.05)
    assert sorted(row["n"] for row in rows(etl, "clean")) == list(range(150))
    assert {bool(row["seen"]) for row in rows(etl, "clean")} == {True}
    assert figures(etl, "raw") == figures(etl, "clean") == (150, 150, 0, 0, 0)


def test_fields_named_like_the_columns_of_the_item(etl: Pipeline) -> None:
    etl.station("raw", to=Table("own", schema="item string not null"))(lambda item: {"item": item})
    etl.push("a")
    etl.push_chunks(["b", "c"])
    etl.drain()
    assert sorted(row["item"] for row in rows(etl, "raw")) == ["a", "b", "c"]


def test_wrong_tables_are_refused(etl: Pipeline) -> None:
    for address in ("a b", "", "stanchion_jobs", "x.y.z", "1a", 'a"', "public.Stanchion_jobs"):
        with pytest.raises(InvalidInput, match="a table is named by letters"):
            Table(address)
    for function in (lambda item: item, len):
        with pytest.raises(InvalidInput, match="names no class with fields"):
            etl.station("raw", to=Table("days"))(function)
    with pytest.raises(InvalidInput, match="does not say all fields"):
        etl.station("raw", to=Table("days"), takes="pandas")(lambda table: table)
    with pytest.raises(InvalidInput, match="one current output of each key"):
        etl.station("raw", to=Table("days", schema="n int"), key="n")(lambda item: item)

    def either(item: object) -> Day | Order:
        raise NotImplementedError

    with pytest.raises(InvalidInput, match="names several classes"):
        etl.station("raw", to=Table("days"))(either)
    for other in ("days", Table("x.days")):
        with pytest.raises(InvalidInput, match="two targets in to= are named 'days'"):
            etl.station("raw", to=[other, Table("days")])


def test_a_row_is_written_at_once(etl: Pipeline) -> None:
    etl.station("raw", to=Table("days", schema="n int"))(lambda item: Send("days", item, delay=5))
    etl.push({"n": 1})
    etl.push_chunks([{"n": 1}, {"n": 2}])
    etl.drain()
    errors = {job.errors[-1]["error"] for job in etl.dead_letters.find()}
    assert all("leave delay and priority out" in error for error in errors)
    assert rows(etl, "raw") == []


def test_a_table_of_others_that_does_not_fit(etl: Pipeline, app: Stanchion) -> None:
    etl.station("raw", to=Table("days", schema="n bigint"))(lambda item: item)
    etl.push({"n": 1})
    etl.drain()
    later = Stanchion(store=app.store).pipeline("etl")
    later.station("raw", to=Table("days", schema="n bigint, more string"))(lambda item: item)
    later.push({"n": 2})
    for run in (later.drain, lambda: later.run(until_empty=True)):
        with pytest.raises(InvalidInput, match="table days does not fit the results"):
            run()
    assert later.status().stations[0].depth.total == 1


def test_seen_in_the_plan_and_the_graph(etl: Pipeline) -> None:
    to_days(etl)
    plan = etl.plan()
    assert [(one.source, one.target, one.reasons) for one in plan.tables] == [
        ("daily", "days", ("to table days, in the transaction that ends the item",))
    ]
    assert plan.as_json()["tables"] == [{"from": "daily", "to": "days", "reasons": plan.tables[0].reasons}]
    assert "days" in etl.graph("text")
    assert "days" in etl.svg()


def test_setup_makes_the_tables(app: Stanchion, etl: Pipeline) -> None:
    to_days(etl)
    app.setup()
    assert rows(etl, "daily") == []


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[tuple[Stanchion, Engine]]:
    """An app on SQLite, and its database."""
    engine = create_engine(f"sqlite:///{tmp_path}/jobs.db")
    with Stanchion(f"sqlite:///{tmp_path}/jobs.db?synchronous=off") as app:
        app.setup()
        yield app, engine
    engine.dispose()


@pytest.mark.parametrize("runs", ["drain", "run"])
def test_a_table_of_ones_own_refuses_single_rows(sqlite: tuple[Stanchion, Engine], runs: str) -> None:
    """A chunk with such a row is cut until the row is alone: the other rows are written, each once."""
    app, engine = sqlite
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE days (n BIGINT UNIQUE NOT NULL, added TEXT DEFAULT 'now', item INT)"))
        connection.execute(text("INSERT INTO days (n) VALUES (13), (700)"))
    etl = app.pipeline("etl")
    etl.station("raw", to="days")(lambda item: item)
    etl.station("days", to=Table("days", schema="n bigint"))(lambda item: item)
    etl.push_chunks([{"n": n} for n in range(1000)])
    etl.push({"n": 700})
    etl.push({"n": 2000})
    if runs == "drain":
        etl.drain()
    else:
        etl.run(threads=2, until_empty=True, poll=0.05)
    with engine.begin() as connection:
        found = connection.execute(text("SELECT n, added, item FROM days ORDER BY n")).all()
    assert [n for n, _, _ in found] == [*range(1000), 2000]
    assert {added for _, added, _ in found} == {"now"}
    assert all(item in (n, 0) for n, _, item in found if n not in (13, 700, 2000))
    letters = etl.dead_letters.find()
    assert sorted(job.payload["n"] for job in letters) == [13, 700, 700]
    assert all("table days refuses a row: UNIQUE constraint failed" in job.errors[-1]["error"] for job in letters)
    assert {job.dead_from for job in letters} == {"etl.days"}
    came, out, _dropped, _retried, dead = figures(etl, "days")
    assert (came, out, dead) == (1002, 999, 3)


def test_a_table_that_is_dropped_meanwhile_is_waited_for(sqlite: tuple[Stanchion, Engine]) -> None:
    app, engine = sqlite
    etl = app.pipeline("etl")
    etl.station("days", to=Table("days", schema="n bigint"))(lambda item: item)
    etl.push({"n": 1})
    etl.drain()
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE days"))
    etl.push({"n": 2})
    with pytest.raises(StoreUnavailable, match="table days is missing"):
        etl.drain()
    (job,) = app.queue("etl.days").find(state="running")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE days (n BIGINT)"))
    app.store.clock_offset += 100
    app.store.recover()
    etl.drain()
    assert rows(etl, "days") == [{"job_id": None, "item": None, "n": 2}]
    assert app.get(job.id).state == "done"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("m BIGINT", r"it has no column 'n'; add it \(ALTER TABLE days ADD COLUMN n BIGINT\), or leave the field out"),
        ("n BIGINT, more TEXT NOT NULL", "its column 'more' needs a value, and the station has no such field"),
    ],
)
def test_tables_that_others_made_are_checked(sqlite: tuple[Stanchion, Engine], columns: str, told: str) -> None:
    app, engine = sqlite
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE days ({columns})"))
    etl = app.pipeline("etl")
    etl.station("days", to=Table("days", schema="n bigint"))(lambda item: item)
    etl.push({"n": 1})
    with pytest.raises(InvalidInput, match=f"table days does not fit the results: {told}"):
        etl.drain()
    with pytest.raises(InvalidInput, match="table days does not fit"):
        app.setup()
    assert etl.status().stations[0].depth.ready == 1


def test_columns_that_have_values_of_their_own(sqlite: tuple[Stanchion, Engine]) -> None:
    app, engine = sqlite
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE days (id INTEGER PRIMARY KEY NOT NULL, n BIGINT, twice AS (n * 2))"))
    etl = app.pipeline("etl")
    etl.station("days", to=Table("days", schema="n bigint"))(lambda item: item)
    etl.push_chunks([{"n": 1}, {"n": 2}])
    etl.drain()
    with engine.begin() as connection:
        assert connection.execute(text("SELECT id, n, twice FROM days")).all() == [(1, 1, 2), (2, 2, 4)]
