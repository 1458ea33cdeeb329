"""Snapshots for the rules, made without a store. Times are seconds before the snapshot."""

from __future__ import annotations

from typing import Any

from stanchion.alerts.records import Alert
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.verdict import alerts_of
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, Head, QueueSettings, QueueStats, Sizes
from stanchion.stores.records.workers import WorkerRow

NOW = 1_900_000_000 * SECOND


def ago(seconds: float) -> int:
    return NOW - int(seconds * SECOND)


def head(priority: int = 0, age: float = 0.0, *, lane: int = -1, boost: int = 0) -> Head:
    """The first job of a priority, due for `age` seconds; negative: in the future."""
    return Head(lane, priority + boost, ago(age), -int(age * SECOND))


def queue(
    name: str = "mail",
    *heads: Head,
    ready: int = 1,
    running: int = 0,
    totals: Counts | None = None,
    **settings: Any,
) -> QueueSample:
    size = Sizes(ready + running, ready, 0, 0, running) if heads or running else Sizes()
    return QueueSample(QueueSettings(name, **settings), QueueStats(size, totals or Counts(), heads=heads, items=size))


def worker(*queues: str, silent: float = 0.0, **fields: Any) -> WorkerRow:
    return WorkerRow("w1", "host", 1, queues, 8, 10.0, last_seen_at=ago(silent), **fields)


def seen(*queues: QueueSample, **fields: Any) -> Snapshot:
    return Snapshot(at=NOW, queues=queues, **fields)


def alerts(snapshot: Snapshot, **limits: float) -> list[Alert]:
    return alerts_of(snapshot, Thresholds().changed(limits))


def told(snapshot: Snapshot, **limits: float) -> list[tuple[str, str, str]]:
    """Level, rule and subject of each alert, those merged into it behind its rule."""
    return [(one.level, "+".join((one.rule, *one.merged)), one.subject) for one in alerts(snapshot, **limits)]
