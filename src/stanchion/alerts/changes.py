"""What begins and ends between readings.

clean ──2 readings in a row──► firing ──3 readings without it──► clean
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from stanchion.alerts.records import Alert

BEGINS, ENDS = 2, 3
"""Readings in a row with an alert before it fires, and without it before it has ended."""


class Change(NamedTuple):
    """An alert that has begun or ended, at a time of the store's clock (None: the store does not answer)."""

    status: Literal["firing", "resolved"]
    alert: Alert
    at: datetime | None

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "status": self.status,
            "at": None if self.at is None else self.at.isoformat(),
            "alert": self.alert.as_json(),
        }


class Changes:
    """The alerts that fire. An alert that only gets worse or better is the same; another level or rule is a change."""

    def __init__(self, begins: int = BEGINS, ends: int = ENDS) -> None:
        self._begins, self._ends = begins, ends
        self._seen: dict[str, int] = {}
        self._missed: dict[str, int] = {}
        self.firing: dict[str, Alert] = {}
        """The alerts that fire, by their keys, as last read."""

    def add(self, alerts: Iterable[Alert], at: datetime | None) -> list[Change]:
        """Add a reading; return the changes since, oldest beginning first."""
        now = {alert.key: alert for alert in alerts}
        self._seen = {key: self._seen.get(key, 0) + 1 for key in now}
        self._missed = {key: self._missed.get(key, 0) + 1 for key in self.firing if key not in now}
        changed = [self._begin(key, alert, at) for key, alert in now.items() if self._is_new(key, alert)]
        self.firing |= {key: alert for key, alert in now.items() if key in self.firing}
        ended = [key for key, times in self._missed.items() if times >= self._ends]
        return changed + [Change("resolved", self.firing.pop(key), at) for key in ended]

    def _is_new(self, key: str, alert: Alert) -> bool:
        known = self.firing.get(key)
        if known is None:
            return self._seen[key] >= self._begins
        return (known.level, known.rule) != (alert.level, alert.rule)

    def _begin(self, key: str, alert: Alert, at: datetime | None) -> Change:
        self.firing[key] = alert
        return Change("firing", alert, at)
