"""Makes a job of every tick: exactly one, however many do this at once, and wherever one of them dies.

All that counts is in the versioned value of the schedule, which is changed by compare-and-set, and goes through

    idle ──(1) a tick is due──► firing ──(2) enqueue its jobs, (3) note that──► idle

One scheduler alone gets from idle to firing: by then it is noted that the tick is dealt with, and which jobs are to
be. Their ids are made of schedule and tick, so a repeat of (2) does no harm. Whoever finds a firing that is some
seconds old, by the store's clock, does (2) and (3) in place of the one who began it. A clock that is set back finds
its ticks dealt with.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.ids import new_id
from stanchion.cron.expression import tick_text
from stanchion.cron.plan import KIND, Firing, Plan
from stanchion.cron.schedule import REFRESH, UNDECLARED, Declared, value_of
from stanchion.errors import StoreUnavailable
from stanchion.jobs.insert import insert
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import VersionedValue

log = logging.getLogger("stanchion.cron")

TAKE_OVER = 5 * SECOND
"""After so long the jobs of a tick are enqueued by another than the one who began."""


class Round(NamedTuple):
    """What a look at all schedules came to: the jobs enqueued, the store's clock, and when to look again by it."""

    jobs: int
    now: int
    look_at: int | None


class Ticker:
    """Fires the schedules that the code of an app declares, and finishes what others have left of any.

    The first look at a schedule stores it as this code has it; from then on the stored one counts, which a newer
    release of the code may have changed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._id = new_id()
        self._announced: set[str] = set()
        self._told: set[str] = set()

    def tick(self) -> Round:
        """Fire what is due. One schedule that fails keeps no other from its ticks; its error is raised at the end."""
        values = {value.name: value for value in self._context.store.values(KIND)}
        now = self._context.store.now()
        jobs, looks, failed = 0, list[int](), list[Exception]()
        for name in sorted({*values, *self._context.registry.crons}):
            try:
                fired, look_at = self._attend(name, values.get(name), now)
            except StoreUnavailable:
                raise
            except Exception as error:
                error.add_note(f"in the schedule {name!r}")
                failed.append(error)
                continue
            jobs += fired
            looks += [] if look_at is None else [look_at]
        if failed:
            raise failed[0]
        return Round(jobs, now, min(looks, default=None))

    def _attend(self, name: str, value: VersionedValue | None, now: int) -> tuple[int, int | None]:
        """Take one schedule from step to step; return the jobs enqueued, and when to look at it again."""
        jobs, declared = 0, self._context.registry.crons.get(name)
        while True:
            plan = None if value is None else Plan.of(value.text)
            if plan is not None and self._to_enqueue(plan, now):
                jobs += self._enqueue(name, plan)
                changed: Plan | None = plan._replace(firing=None)
            else:
                changed = self._change(name, declared, plan, now)
            if changed is None:
                return jobs, self._look_at(name, declared, plan, now)
            text, version = changed.text(), value.version if value else 0
            if self._context.store.compare_and_set(KIND, name, text, version):
                value = VersionedValue(name, text, version + 1)
            else:
                value, now = value_of(self._context, name), self._context.store.now()

    def _to_enqueue(self, plan: Plan, now: int) -> bool:
        """Tell whether a firing is this scheduler's to go on with."""
        firing = plan.firing
        return firing is not None and (firing.by == self._id or not 0 <= now - firing.at < TAKE_OVER)

    def _enqueue(self, name: str, plan: Plan) -> int:
        if plan.firing is not None and plan.firing.by != self._id:
            log.warning("finishing the tick of schedule %s that another scheduler has left", name)
        return sum(not pushed.duplicate for pushed in insert(self._context, plan.jobs(name)))

    def _change(self, name: str, declared: Declared | None, plan: Plan | None, now: int) -> Plan | None:
        """Return what is to become of the value now; None: it stays."""
        if declared is None or (plan is not None and plan.firing is not None):
            return None
        if plan is None:
            return declared.begun(now)
        if name not in self._announced:
            if not declared.agrees(self._context, plan):
                return declared.renewed(plan, now)
            self._announced.add(name)
        if not plan.paused and (fired := self._fired(name, plan, now)) is not None:
            return fired
        return plan._replace(declared_at=now) if not 0 <= now - plan.declared_at < REFRESH else None

    def _fired(self, name: str, plan: Plan, now: int) -> Plan | None:
        due, ticks = plan.due(now)
        if not due:
            return None
        if missed := [tick for tick in due if tick not in ticks]:
            log.warning("schedule %s: no job for the ticks up to %s, which were missed", name, tick_text(missed[-1]))
        dealt_with = plan._replace(handled=due[-1], declared_at=now)
        if not ticks:
            return dealt_with
        return dealt_with._replace(last=ticks[-1], firing=Firing(self._id, now, tuple(ticks)))

    def _look_at(self, name: str, declared: Declared | None, plan: Plan | None, now: int) -> int | None:
        if plan is None:
            return None
        if plan.firing is not None:
            return plan.firing.at + TAKE_OVER
        if declared is None:
            self._tell_of_undeclared(name, plan, now)
            return None
        return None if plan.paused else plan.next_tick()

    def _tell_of_undeclared(self, name: str, plan: Plan, now: int) -> None:
        if now - plan.declared_at >= UNDECLARED and name not in self._told:
            self._told.add(name)
            log.warning(
                "schedule %s is in the code of no live worker, and does not fire; if it is not needed any more: "
                "stanchion cron remove %s",
                *(name, name),
            )
