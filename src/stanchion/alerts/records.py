"""Alerts, and the figures by band and queue. Times are by the clock of the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from stanchion.core.names.fitted_names import fitted
from stanchion.core.service_levels import BandName
from stanchion.stores.records.queues import EMPTY, Counts, Sizes

Level = Literal["now", "soon"]
"""`now`: needs a person immediately; `soon`: today."""

Kind = Literal["store", "queue", "task", "stream", "pipeline", "semaphore", "schedule", "manager"]
"""What an alert is about."""

Rule = Literal[
    "store",
    "manager",
    "no-worker",
    "age",
    "paused",
    "dead-letters",
    "failed-attempts",
    "expired-jobs",
    "run-time",
    "attempts",
    "unknown-task",
    "stream",
    "idle-station",
    "semaphore",
    "missed-tick",
    "purge",
]
"""The rules; each is a section of the runbook."""

Unit = Literal["seconds", "jobs", "attempts", "share", "batches"]
"""What `value` and `limit` count; a share is from 0 to 1."""

SHOWN = 7
"""Number of alerts that a person is shown first."""


class Action(NamedTuple):
    """Something safe to do about an alert; `command`: for a shell, None if it takes a person's decision."""

    text: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs a person.

    `kind`, `subject`: its subject, such as the queue `payments`. `band`: the most urgent band concerned. `since`:
    when it began; None if unknown. `percent`: `value` in percent of `limit`. `summary`: a sentence.
    `evidence`: more sentences, also of further rules, which `merged` names. `runbook`: the page and section about the
    rule. `error`: the key of the heaviest group of errors involved; None if there is none.
    """

    level: Level
    rule: Rule
    kind: Kind
    subject: str
    summary: str
    value: float
    limit: float
    unit: Unit
    band: BandName | None = None
    since: datetime | None = None
    evidence: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    merged: tuple[Rule, ...] = ()
    runbook: str = ""
    error: str | None = None

    @property
    def percent(self) -> float:
        """The value in percent of the limit; 100 if the limit is 0."""
        return 100.0 * self.value / self.limit if self.limit else 100.0

    @property
    def key(self) -> str:
        """What stays the same while the alert lasts: its kind and subject, fitted as the name of a value."""
        return fitted(f"{self.kind}:{self.subject}")

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {
            **values,
            "percent": round(self.percent, 1),
            "since": None if self.since is None else self.since.isoformat(),
            "evidence": list(self.evidence),
            "actions": [action._asdict() for action in self.actions],
            "merged": list(self.merged),
        }


@dataclass(frozen=True, slots=True)
class BandFigures:
    """The live jobs of one band, of a queue or of all, and its jobs that died within the last hour: `dead`.

    `count`: live jobs. `erroring`: jobs that wait after a failed attempt. `max_age`: seconds for which the oldest
    claimable job could have run; running, waiting and future jobs don't count. `max_lease_age`: seconds for which the
    longest attempt has run. `alert_percent`: the largest of age, run time and attempts in percent of its limit.
    """

    band: BandName
    scheduled: int = 0
    ready: int = 0
    waiting: int = 0
    running: int = 0
    erroring: int = 0
    dead: int = 0
    max_age: float = 0.0
    max_lease_age: float = 0.0
    max_attempts: int = 0
    alert_percent: float = 0.0

    @property
    def count(self) -> int:
        """The number of live jobs."""
        return self.scheduled + self.ready + self.waiting + self.running

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "count": self.count}


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The live jobs of a queue: `size` is exact; `bands` are the ones with jobs; `totals` are since it was made.

    `dead_letters`: other queues' dead letters here, which are in no other figure. `items`: the live items, more than
    jobs where it has chunks.
    """

    queue: str
    paused: bool
    size: Sizes
    bands: tuple[BandFigures, ...]
    totals: Counts
    dead_letters: int = 0
    items: Sizes = EMPTY

    @property
    def alert_percent(self) -> float:
        """The largest of its bands."""
        return max((one.alert_percent for one in self.bands), default=0.0)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "queue": self.queue,
            "paused": self.paused,
            "size": self.size._asdict(),
            "items": self.items._asdict(),
            "totals": self.totals._asdict(),
            "dead_letters": self.dead_letters,
            "alert_percent": self.alert_percent,
            "bands": [one.as_json() for one in self.bands],
        }


@dataclass(frozen=True, slots=True)
class Monitor:
    """The store's content, and the alerts on it.

    `at`: the time of the reading; None if the store did not answer, and `alerts` says why. `exact`: the counts by band
    are of all live jobs; otherwise of the oldest ones, and `size` of each queue is still of all. `bands`: all four,
    over all queues.
    """

    at: datetime | None
    exact: bool
    bands: tuple[BandFigures, ...]
    queues: tuple[QueueFigures, ...]
    alerts: tuple[Alert, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "at": None if self.at is None else self.at.isoformat(),
            "exact": self.exact,
            "bands": [one.as_json() for one in self.bands],
            "queues": [one.as_json() for one in self.queues],
            "alerts": [one.as_json() for one in self.alerts],
        }
