"""An app with long names, long errors and all that tables show, in a store whose clock stands still."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stanchion import Push, Stanchion
from stanchion.app import tick
from stanchion.core.text.error_kinds import group_of
from stanchion.core.times import micros
from stanchion.ops.audit import AuditLog, Entry
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.registry import open_store
from stanchion.streams.state import KIND, StreamState, worker_id
from stanchion.telemetry.failures import FailureTally
from tests.web.seed_parts import managers

NOON = micros(datetime(2026, 11, 26, 12, tzinfo=UTC))

store = open_store("memory://?clock=frozen")
store.clock_offset = (NOON - store.now()) / SECOND
app = Stanchion(store=store)
etl = app.pipeline("flights-by-airport")
etl.station("decode-raw-lines", to="enrich")(lambda item: item)
etl.station("write-to-warehouse")(lambda item: item)


@etl.station("enrich", to="write-to-warehouse", max_attempts=1)
def enrich(_: Any) -> None:
    raise KeyError("no airport of this code in the table of the warehouse: XYZ, of line 1,337 in the file of January")


@app.task(name="shop.payments.capture_authorized_payment", queue="payments-capture-eu", max_attempts=1)
def capture(order: int) -> None:
    raise TimeoutError(f"no answer from the payment provider psp-{order}.example.com within 30.0 s, of order {order}")


@app.task(name="shop.mail.send_order_confirmation", queue="mail")
def send(number: int) -> int:
    return number


app.cron("0 3 * * MON-FRI", tz="America/Argentina/Buenos_Aires", name="nightly-report-of-all-shops")(print)
app.cron("*/15 * * * *", name="tidy")(print)
app.semaphore("payment-provider-eu-west", 3)
app.queue("payments-capture-eu", max_rate=50.0, history_ttl=timedelta(days=30), dead_letter="payments-capture-eu.dead")
app.queue("mail", lanes=64, lanes_per_tenant=4)


def fill() -> None:
    """Fill the store."""
    app.setup()
    tick(app)
    capture.using(tenant="acme-corporation").enqueue_many([(number,) for number in range(2)])
    app.drain(["payments-capture-eu"])
    send.using(tenant="t").enqueue_many([(number,) for number in range(1200)])
    app.queue("webhooks-of-customers").push_many([Push({}, delay=timedelta(hours=1))])
    app.queue("imports-limited").push_many([Push({}, limits=["payment-provider-eu-west"]) for _ in range(5)])
    app.queue("imports-limited").reserve(5, holder="billing-service:4711")
    etl.push_many([{"n": 1}, {"n": 2}])
    app.drain(["flights-by-airport.decode-raw-lines", "flights-by-airport.enrich"])
    managers(app)
    topics()
    time.sleep(0.002)  # ids of one millisecond, of different calls, are in no order
    spark()
    tally()
    log()
    app.queue("mail").pause("the provider is down until 12:30", "ana")
    store.clock_offset += 90
    queues = ("mail", "payments-capture-eu", "flights-by-airport.enrich", "webhooks-of-customers")
    times = tuple(QueueTimes(name, "eventual", (8, 0, 0, 4), (0,) * 30 + (9,)) for name in queues[1:3])
    for number in range(2):
        row = WorkerRow(f"w{number}", f"worker-7f9c4d-x{number}k2p.eu-west-1.internal", 4711, queues, 16, 60.0)
        store.beat([replace(row, times=times)])
    store.clock_offset += 5


def topics() -> None:
    orders = app.topic("orders-of-all-shops")
    orders.subscribe("audit")
    orders.subscribe("search-index-of-orders", task=send)
    orders.subscribe("warehouse-stock", queue="warehouse", filter={"payload.country": {"in": ["DE", "FR", "NL"]}})
    orders.push({"country": "DE"})


def spark() -> None:
    """Add a stream that stands still, and one that reads."""
    error = "AnalysisException: the column total_amount can't be resolved; did you mean amount, total or currency?"
    app.queue("raw-events-of-devices").push_many(range(3))
    for name, stopped in (("events-to-lake-bronze", True), ("events-to-lake-silver", False)):
        state = StreamState(name, "raw-events-of-devices", "", 2, 17, 18, error=error if stopped else None)
        store.compare_and_set(KIND, name, replace(state, stopped=stopped, replays=3 * stopped).text, 0)
        store.beat([WorkerRow(worker_id(name, 2), "spark-driver-3", 4711, ("raw-events-of-devices",), 0, 60.0)])


def tally() -> None:
    failures, error = FailureTally(), "TimeoutError: no answer from the payment provider psp-1.example.com in 30.0 s"
    for number in range(40):
        key = group_of(error, capture.name)
        failures.add("payments-capture-eu", capture.name, key, error, f"{number}", new=True, dead=number < 2)
    failures.merge(store)


def log() -> None:
    for who, act, subject, number, note in (
        ("ana@ops-1.eu-west-1.internal", "retry", f"dead, queue payments-capture-eu, task {capture.name}", 12, ""),
        ("ben", "set max_rate", "payments-capture-eu", 0, "50 → 20: the provider asked us to slow down until Monday"),
        ("ana@ops-1", "pause", "mail", 0, "the provider is down until 12:30, see the incident channel"),
        ("ana@ops-1", "retry: finished", "stock", 3, "2 left out"),
    ):
        address = "shell" if "@" in who else "10.0.3.17"
        AuditLog(lambda: store).add(Entry(store.now(), who, act, subject, number, note, address))


fill()
