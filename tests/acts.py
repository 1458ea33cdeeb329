"""A store with something to do for each act of operators, and all that a store holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from stanchion import Stanchion
from stanchion.alerts.alerts import store_limits
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.streams import StreamSource


def fill(app: Stanchion) -> str:
    """Fill a store; return the id of a dead job."""
    mail = app.queue("mail")
    dead = mail.push("dead").id
    mail.push("done")
    mail.reserve()[0].bury("no")
    mail.reserve()[0].commit()
    mail.push_many(range(2))
    app.semaphore("psp", 1)
    mail.push(3, limits=["psp"])
    app.store.set_semaphore("psp", 2)
    app.queue("stale").push(1)
    app.queue("slow").configure(max_rate=1.0, paused=True)
    app.queue("wide").configure(lanes=4)
    store_limits(context_of(app), {"no_worker": 1e-6})
    for name in ("nightly", "weekly"):
        app.cron("0 3 * * *", name=name, queue="mail")(print)
    tick(app)
    app.schedule("weekly").pause()
    orders = app.topic("orders")
    orders.subscribe("audit")
    orders.subscribe("other")
    orders.push({"n": 1})
    orders.subscribe("stock")
    pipeline = app.pipeline("etl")
    pipeline.station("load", to="store")(print)
    pipeline.station("store")(print)
    app.queue("etl.load").push(1)
    app.queue("etl.store").pause()
    app.queue("raw").push(1)
    source = StreamSource(app.store, "lake", "raw")
    source.latest(source.initial(), 1)
    return dead


def content(folder: Path) -> dict[str, list[str]]:
    """Return all that the databases of a folder hold, but what readings keep."""
    found = {}
    for file in sorted(folder.glob("*.db")):
        with closing(sqlite3.connect(file)) as database:
            found[file.name] = [line for line in database.iterdump() if not any(one in line for one in _READINGS)]
    return found


_READINGS = ("'alerts','recent'", "'alerts','hour'", "'rollup'", "'rollup-lease'")
