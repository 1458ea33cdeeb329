"""Pipelines, streams and flows for the page, beside the shop of `seed`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from stanchion import Push, Send, Stanchion, chain, group
from stanchion.core.ids import new_id
from stanchion.manager.leadership.rows import SLICE, SliceRow, slice_text
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.sessions import SESSION, session_text
from stanchion.streams import StreamSource
from tests.web.attacks import SECRET, attack


def flights(app: Stanchion) -> None:
    """Add a pipeline: `long` has no driver, `daily` behind it is idle, and some items of `clean` are dead."""
    pipeline = app.pipeline("flights")

    @pipeline.station("raw", to="clean")
    def raw(item: Any) -> Any:
        return item

    @pipeline.station("clean", to=["short", "long"], max_attempts=1)
    def clean(item: dict[str, Any]) -> Send:
        if item["n"] % 5 == 4:
            raise KeyError(f"dep_time {attack(item['n'])} token={SECRET}")
        return Send("long" if item["n"] % 2 else "short")

    @pipeline.station("short")
    def short(item: Any) -> Any:
        return item

    @pipeline.spark_station("long", schema="n int", to="daily")
    def long(frame: Any) -> Any:
        return frame

    @pipeline.spark_station("daily", schema="n int")
    def daily(frame: Any) -> Any:
        return frame

    pipeline.push_many([Push({"n": number, "token": SECRET}) for number in range(30)])
    app.drain(["flights.raw", "flights.clean", "flights.short"])
    app.store.beat([WorkerRow(new_id(), "etl-1", 4711, ("flights.raw", "flights.clean", "flights.short"), 8, 10.0)])
    driver = StreamSource(app.store, "flights.long <b>", "flights.long")
    driver.beat()
    position = driver.latest(driver.initial(), 3)
    driver.parts(driver.initial(), position, 1)


def trips(app: Stanchion) -> dict[str, str]:
    """Add three flows, and return their roots: one that failed, one under way, and one of many members."""

    @app.task(name="trips.book <i>", queue="trips", max_attempts=1)
    def book(trip: int) -> dict[str, Any]:
        if trip == 3:
            raise ValueError(f"no seat {attack(1)} token={SECRET}")
        return {"trip": trip, "note": attack(trip), "token": SECRET}

    @app.task(name="trips.bill", queue="trips")
    def bill(booked: Any) -> Any:
        return booked

    @app.task(name="trips.tell", queue="letters")
    def tell(*_: Any) -> None:
        pass

    late = tell.using(delay=timedelta(hours=1))
    failed = chain(group(book.s(number) for number in range(4)), bill.s()).on_failure(tell.s()).enqueue()
    app.drain(["trips"])
    many = chain(group(book.s(number) for number in range(4, 90)), bill.s(), tell.s()).enqueue()
    app.drain(["trips"])
    under_way = chain(book.s(7), group([late.s(), late.s(), bill.s()]), tell.s()).enqueue()
    app.drain(["trips"])
    return {"failed": failed.id, "many": many.id, "under_way": under_way.id}


def managers(app: Stanchion) -> None:
    """Add two managers as they write themselves down, one of them gone."""
    store, now = app.store, app.store.now()
    store.compare_and_set(SESSION, "s1", session_text(now + 3600 * SECOND, "manager-1:7117 <b>"), 0)
    store.compare_and_set(SESSION, "s2", session_text(now - 60 * SECOND, "manager-2:7117"), 0)
    for number, (owner, queue) in enumerate((("s1", "mail"), ("s1", "orders"), ("s1", "orders"), (None, "payments"))):
        row = SliceRow(f"{queue}/{number}", 0, owner, queue, (number, number), now)
        store.compare_and_set(SLICE, row.name, slice_text(row), 0)
