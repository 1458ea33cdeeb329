"""Settings of queues and stations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stanchion import Queue, Stanchion

app = Stanchion("memory://")


@dataclass
class Order:
    id: int


def declared() -> Queue:
    app.queue("orders", schema=Order)
    app.queue("orders", schema="id bigint not null", timeout=timedelta(minutes=5))
    app.queue("orders").configure(max_rate=None, history_ttl=timedelta(days=1), dead_letter="dead", ordered_by="tenant")
    app.queue("orders", max_rate="5/s")  # error: mypy arg-type / pyright reportArgumentType
    app.queue("orders", max_runing=5)  # error: mypy call-arg / pyright reportCallIssue
    app.queue("orders").configure(lanes="4")  # error: mypy arg-type / pyright reportArgumentType
    app.queue("orders").configure(lease_seconds=4)  # error: mypy call-arg / pyright reportCallIssue
    return app.queue("orders", max_rate=50, max_running=4, paused=False, lease=30.0)


async def configured() -> None:
    await app.queue("orders").aconfigure(max_running=5)
    await app.queue("orders").aconfigure(max_runing=5)  # error: mypy call-arg / pyright reportCallIssue


etl = app.pipeline("etl")


@etl.station("parse", to="load", max_running=4, history_ttl=60)
def parse(item: dict[str, int]) -> dict[str, int]:
    return item


etl.station("load", max_rnning=4)  # error: mypy call-arg / pyright reportCallIssue
