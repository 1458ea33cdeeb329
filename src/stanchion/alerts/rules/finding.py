"""A rule's finding: an alert, and the cause by which alerts are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stanchion.alerts.records import Alert
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds


class Found(NamedTuple):
    """An alert of one rule. Alerts of equal causes are one alert: `queue:NAME` for all about a queue."""

    cause: str
    alert: Alert


RuleOf = Callable[[Snapshot, Thresholds], Iterator[Found]]


def of_queue(queue: str) -> str:
    """Return the cause of alerts about a queue."""
    return f"queue:{queue}"
