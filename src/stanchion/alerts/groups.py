"""Alerts of one rule as one line, for a person: 4,800 queues without a worker are one cause, not 4,800."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from stanchion.alerts.records import SHOWN, Alert, Kind, Rule
from stanchion.alerts.words import named, number

ALIKE: Final = 3
"""Number of alerts of one rule up to which each has a separate line."""

_SAID: Final[dict[Rule, str]] = {
    "store": "are in trouble",
    "manager": "are late",
    "no-worker": "have no live worker",
    "age": "fall behind",
    "paused": "are paused and grow",
    "dead-letters": "have jobs that died within the last hour",
    "failed-attempts": "have many failed attempts",
    "expired-jobs": "have many jobs that expired",
    "run-time": "have jobs that run for too long",
    "attempts": "have jobs that need many attempts",
    "unknown-task": "are known to no worker",
    "stream": "need a driver or a look at their error",
    "idle-station": "have stations without items",
    "semaphore": "have a line that does not move",
    "missed-tick": "have missed a tick",
    "purge": "keep history for longer than they should",
}


class Group(NamedTuple):
    """Alerts of one rule about things of one kind, the most urgent first; a single one is a group, too."""

    alerts: tuple[Alert, ...]

    @property
    def first(self) -> Alert:
        """The most urgent one."""
        return self.alerts[0]

    @property
    def counted(self) -> str:
        """The common sentence of the group, with their number: `4,800 queues have no live worker`."""
        return f"{number(len(self.alerts), self.first.kind)} {_SAID[self.first.rule]}"

    @property
    def named(self) -> str:
        """The names of some, and the number of the others."""
        return named([one.subject for one in self.alerts])

    @property
    def summary(self) -> str:
        """A sentence: of a single alert its own."""
        return self.first.summary if len(self.alerts) == 1 else f"{self.counted}: {self.named}."


def grouped(alerts: Sequence[Alert], most: int = SHOWN) -> tuple[list[Group], int]:
    """Return the alerts to show a person first, and the number of the others.

    Up to `most` alerts have a line each. Of more, a rule with over ALIKE of them has one line.
    """
    by_rule: defaultdict[tuple[Kind, Rule], list[Alert]] = defaultdict(list)
    for one in alerts:
        by_rule[one.kind, one.rule].append(one)
    found: dict[object, Group] = {}
    for place, one in enumerate(alerts):
        alike = by_rule[one.kind, one.rule]
        together = len(alerts) > most and len(alike) > ALIKE
        found.setdefault((one.kind, one.rule) if together else place, Group(tuple(alike) if together else (one,)))
    shown = list(found.values())[:most]
    return shown, len(alerts) - sum(len(one.alerts) for one in shown)
