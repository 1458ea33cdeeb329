"""Shared by the cases of schedules: a calendar, a schedule, and schedulers that die."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stanchion import Schedule, Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.cron.plan import KIND, Plan
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import StoreClock

QUEUE = "reports"


class Calendar:
    """The clock of the test as a calendar."""

    def __init__(self, store: Store, clock: StoreClock) -> None:
        self._store, self._clock = store, clock

    def set(self, text: str) -> None:
        """Set the clock, forth or back, to five seconds after a time in UTC."""
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(seconds=5)
        self._clock.advance(moment.timestamp() - self._store.now() / 1_000_000)

    def go(self, **parts: float) -> None:
        """Move the clock."""
        units = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
        self._clock.advance(sum(units[unit] * number for unit, number in parts.items()))


@pytest.fixture
def calendar(store: Store, clock: StoreClock) -> Calendar:
    """The clock, just after noon of a Wednesday, at no end of a week, month or year."""
    calendar = Calendar(store, clock)
    calendar.set("2031-05-14 12:00")
    return calendar


def report(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def declare(app: Stanchion, expression: str = "0 * * * *", **options: Any) -> Schedule:
    """Declare a schedule that calls `report` at these ticks, and let a scheduler of the app see it."""
    app.cron(expression, **{"name": "report", "queue": QUEUE, **options})(report)
    tick(app)
    return app.schedule(options.get("schedule", "report"))


def ticks(app: Stanchion, name: str = "report") -> list[str]:
    """Return the ticks of the stored jobs, in order, as 2031-05-14T13:00."""
    jobs = app.find(queue=QUEUE, limit=10_000)
    assert len(jobs) < 10_000
    return sorted(
        job.headers["x-cron-tick"].removesuffix(":00+00:00") for job in jobs if job.headers.get("x-cron") == name
    )


def plan(app: Stanchion, name: str = "report") -> Plan:
    """Return the stored value of a schedule."""
    return next(Plan.of(value.text) for value in app.store.values(KIND) if value.name == name)


class Death(BaseException):
    """Kills the caller of a store in the test."""


class Dying:
    """A store that allows so many more changes; the next one kills its caller, before or after it is done.

    `changing`: the verbs that count as changes.
    """

    def __init__(
        self,
        store: Store,
        changes: int,
        *,
        after: bool = False,
        changing: tuple[str, ...] = ("push", "compare_and_set"),
    ) -> None:
        self._store, self._changes, self._after, self._changing = store, changes, after, changing

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in self._changing:
            return verb

        def call(*args: Any, **kwargs: Any) -> Any:
            self._changes -= 1
            if self._changes < 0 and not self._after:
                raise Death
            answer = verb(*args, **kwargs)
            if self._changes < 0:
                raise Death
            return answer

        return call


def dying(app: Stanchion, changes: int, *, after: bool = False) -> Stanchion:
    """Return the app of a process that dies at a change of the store."""
    doomed = Stanchion(store=Dying(app.store, changes, after=after))
    context_of(doomed).registry = context_of(app).registry
    return doomed
