"""Schedules: which fire, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from stanchion.app import Stanchion
from stanchion.cron.schedule import Schedule

State = Literal["undeclared", "paused", "active"]


class Item(NamedTuple):
    """A schedule, and its next tick; None if it fires no more, or not at present."""

    schedule: Schedule
    next: datetime | None

    @property
    def state(self) -> State:
        """Whether it fires."""
        if not self.schedule.declared:
            return "undeclared"
        return "paused" if self.schedule.paused else "active"


def read_schedules(app: Stanchion) -> list[Item]:
    """Return the schedules, the ones that do not fire first."""
    items = map(item_of, app.schedules())
    return sorted(items, key=lambda one: (one.state == "active", one.schedule.name))


def item_of(schedule: Schedule) -> Item:
    """Return a schedule with its next tick."""
    fires = schedule.declared and not schedule.paused
    return Item(schedule, next(iter(schedule.next()), None) if fires else None)
