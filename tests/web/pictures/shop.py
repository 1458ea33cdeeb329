"""A shop at night: payments fail, mail is paused, a stream has lost its driver, a flow has failed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from stanchion import Job, Push, Send, Stanchion, chain, group
from stanchion.core.retry import Retry
from stanchion.core.text.error_kinds import group_of
from stanchion.manager.leadership.rows import SLICE, SliceRow, slice_text
from stanchion.ops.audit import Entry
from stanchion.ops.web.site import Site
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.rules.leases.sessions import SESSION, session_text
from stanchion.stores.rules.times import BOUNDS
from stanchion.streams import StreamSource
from stanchion.telemetry.failures import FailureTally
from tests.web.conftest import site_of
from tests.web.pictures.still import Time, standing_still

MINUTES, DOWN_AT, PAUSED_AT, LOST_AT = 60, 31, 40, 48
"""How long the shop is watched; when the provider of payments stops to answer, mail is paused, a driver is lost."""

EARLIER = 75
"""Minutes between the flows and the hour that is watched: what died then is no news."""

FEW = ["payments", "mail", "thumbnails", "flights.raw", "flights.clean", "flights.short"]


@contextmanager
def night() -> Iterator[Site]:
    """Return the page of the shop. Time stands still within the block."""
    with standing_still() as time:
        time.move(-60 * (MINUTES + EARLIER))
        app = Stanchion(store=MemoryStore(time))
        site = site_of(app)
        with ThreadPoolExecutor(1) as seeding:  # Playwright runs an event loop on this thread, where `drain` is refused
            seeding.submit(_seed, app, site, time).result()
        yield site
        app.close()


def _seed(app: Stanchion, site: Site, time: Time) -> None:
    _quiet_queues(app)
    _managers(app)
    _earlier(app, time)
    _an_hour(app, site, time)
    _held(app)
    _acts(app, site)
    site.sampler.take()


def _an_hour(app: Stanchion, site: Site, time: Time) -> None:
    minute = [0]

    @app.task(name="payments.capture", queue="payments", retry=Retry.linear(20, jitter=0, max_attempts=3))
    def capture(order: int, **_: Any) -> dict[str, Any]:
        if minute[0] < DOWN_AT or order % 8:
            time.move(0.041)
            return {"order": order, "captured": True}
        time.move(5)
        raise TimeoutError(f"no answer from psp-{order % 2}.example in 5 s")

    @app.task(name="payments.refund", queue="payments", max_attempts=1)
    def refund(order: int) -> None:
        raise KeyError(f"account of {order}")

    @app.task(name="mail.send", queue="mail")
    def send(order: int) -> int:
        time.move(0.012)
        return order

    drivers = _drivers(app)
    tally = _tally(app)
    tenants = ("acme-retail", "acme-retail", "acme-retail", "nordkraft", "nordkraft", "boutique-77", "lumen")
    app.queue("payments", lanes=16, lanes_per_tenant=4)
    app.setup()
    for minute[0] in range(MINUTES):
        began = time.now()
        for number in range(12):
            order = 12 * minute[0] + number
            paid = capture.using(priority="interactive", tenant=tenants[number % len(tenants)], key=f"order-{order}")
            paid.enqueue(order, card={"number": "4111111111111111"}, amount="12.50")
            send.using(priority="user_visible").enqueue(order)
        if minute[0] % 20 == 7:
            refund.using(priority="user_visible").enqueue(minute[0])
        app.queue("flights.raw").push_many([{"flight": 10 * minute[0] + number} for number in range(10)])
        if minute[0] == PAUSED_AT:
            app.queue("mail").pause("provider maintenance until 04:00", "ben")
        app.drain(FEW)
        time.move(60 - (time.now() - began) / SECOND)
        _beat(app)
        tally.merge(app.store)
        for driver in drivers[: 2 if minute[0] < LOST_AT else 1]:
            driver.beat()
        site.sampler.take()


def _tally(app: Stanchion) -> FailureTally:
    """Tally what fails, as a worker does."""
    tally = FailureTally()

    def add(job: Job, error: BaseException, *, dead: bool) -> None:
        text = f"{type(error).__name__}: {error}"
        group = group_of(text, job.task)
        tally.add(job.queue, job.task, group, text, job.id, new=job.attempts < 2, dead=dead)

    app.on("retrying")(partial(add, dead=False))
    app.on("dead")(partial(add, dead=True))
    return tally


def _earlier(app: Stanchion, time: Time) -> None:
    """Run flows and a pipeline of which a part has died."""
    began = time.now()
    _flows(app, time)
    _pipeline(app).push_many([{"flight": n, "miles": "" if n in (4, 36) else 1400} for n in range(0, 40, 2)])
    app.drain([*FEW, "letters"])
    time.move(60 * EARLIER - (time.now() - began) / SECOND)


def _quiet_queues(app: Stanchion) -> None:
    app.queue("reports").push_many([Push({"n": number}, delay=timedelta(hours=9)) for number in range(240)])
    app.queue("webhooks").push_many(
        [Push({"n": number}, delay=timedelta(hours=5), tenant=f"shop-{number % 3}") for number in range(40)]
    )

    @app.task(name="purge_carts", queue="reports")
    def purge() -> None:
        pass

    @app.task(name="reports.weekly", queue="reports")
    def weekly() -> None:
        pass

    app.cron("30 1 * * *", schedule="purge_carts")(purge)
    app.cron("0 6 * * 1", schedule="weekly_report", tz="Europe/Berlin")(weekly)


def _pipeline(app: Stanchion) -> Any:
    pipeline = app.pipeline("flights")

    @pipeline.station("raw", to="clean")
    def raw(item: Any) -> Any:
        return item

    @pipeline.station("clean", to=["short", "long"], max_attempts=1)
    def clean(item: dict[str, Any]) -> Send:
        if item.get("miles") == "":
            raise ValueError(f"bad miles '' in line {item['flight']}")
        return Send("long" if item["flight"] % 2 else "short")

    @pipeline.station("short")
    def short(item: Any) -> Any:
        return item

    @pipeline.spark_station("long", schema="flight int", to="daily")
    def long(frame: Any) -> Any:
        return frame

    @pipeline.spark_station("daily", schema="flight int")
    def daily(frame: Any) -> Any:
        return frame

    return pipeline


def _beat(app: Stanchion) -> None:
    """Let the workers say that they live."""
    now, began = app.store.now(), app.store.now() - 7200 * SECOND
    times = (
        QueueTimes("payments", "interactive", _buckets(0.09, 6.2), _buckets(0.041, 5.0)),
        QueueTimes("mail", "user_visible", _buckets(0.004, 0.02), _buckets(0.012, 0.031)),
    )
    rows = [
        WorkerRow("web-1-4711-0c1d", "web-1", 4711, ("payments", "mail"), 16, 40.0, started_at=began, times=times),
        WorkerRow("web-2-812-77aa", "web-2", 812, ("payments", "thumbnails", "reports"), 16, 40.0, started_at=began),
        WorkerRow("etl-1-99-5b5b", "etl-1", 99, tuple(FEW[3:]), 8, 40.0, started_at=now),
        WorkerRow("web-3-66-1f1f", "web-3", 66, ("trips", "letters"), 4, 40.0, state="draining", running=1),
    ]
    app.store.beat(rows)


def _buckets(usual: float, slow: float) -> tuple[int, ...]:
    """Return how often what took so many seconds: mostly the first, sometimes the second."""
    counted = Counter({bisect_left(BOUNDS, usual): 54, bisect_left(BOUNDS, slow): 6})
    return tuple(counted[bucket] for bucket in range(max(counted) + 1))


def _drivers(app: Stanchion) -> list[StreamSource]:
    """Return the driver of a stream that lives on, and one that has reserved a batch and will be lost."""
    lives, lost = (
        StreamSource(app.store, "archive", "flights.short"),
        StreamSource(app.store, "flights.long", "flights.long"),
    )
    return [lives, lost]


def _flows(app: Stanchion, time: Time) -> None:
    @app.task(name="trips.book", queue="trips", max_attempts=1)
    def book(leg: int) -> dict[str, Any]:
        time.move(0.4)
        if leg == 3:
            raise RuntimeError("no seat left on UA1545: fare class Y is sold out, the next flight leaves at 18:30")
        return {"leg": leg, "price": 120 + leg}

    @app.task(name="trips.bill", queue="trips")
    def bill(booked: Any) -> Any:
        return sum(one["price"] for one in booked)

    @app.task(name="letters.confirm", queue="letters")
    def confirm(*_: Any) -> str:
        return "sent"

    @app.task(name="letters.sorry", queue="letters")
    def sorry(*_: Any) -> str:
        return "sent"

    for first in (0, 10):
        legs = group(book.s(first + number) for number in range(4))
        chain(legs, bill.s(), confirm.s()).on_failure(sorry.s()).enqueue()
        app.drain(["trips"])
    chain(group(book.s(number) for number in range(20, 90)), bill.s(), confirm.s()).enqueue()
    app.drain(["trips"])


def _held(app: Stanchion) -> None:
    """Let jobs run, and others wait for the slots that they hold."""
    app.semaphore("psp", 2)
    app.queue("imports").push_many([Push({"file": f"orders-{n}.csv"}, limits=["psp"]) for n in range(5)])
    app.queue("imports").reserve(5, holder="importer:9")
    app.semaphore("smtp", 8)


def _managers(app: Stanchion) -> None:
    now = app.store.now()
    app.store.compare_and_set(SESSION, "s1", session_text(now + 9 * 3600 * SECOND, "manager-1:7117"), 0)
    app.store.compare_and_set(SESSION, "s2", session_text(now - 60 * SECOND, "manager-2:7117"), 0)
    for number, (owner, queue) in enumerate((("s1", "mail"), ("s1", "payments"), ("s1", "payments"), (None, "trips"))):
        row = SliceRow(f"{queue}/{number}", 0, owner, queue, (number, number), now)
        app.store.compare_and_set(SLICE, row.name, slice_text(row), 0)


def _acts(app: Stanchion, site: Site) -> None:
    for ago, who, act, subject, number, note in (
        (2400, "ben", "pause", "mail", 0, "provider maintenance until 04:00"),
        (1450, "ana", "set max_rate", "payments", 0, "60 → 30"),
        (700, "ana@ops-1", "retry", "state=dead queue=payments", 38, "the provider said it was up again"),
        (310, "ana", "on it", "dead-letters payments", 0, ""),
    ):
        address = "shell" if "@" in who else "10.1.0.17"
        site.audit.add(Entry(app.store.now() - ago * SECOND, who, act, subject, number, note, address))
