"""Enqueues exactly one job per tick, with any number of schedulers, and wherever one of them dies.

All state is in the versioned value of the schedule. Schedulers change it by compare-and-set:

    idle ──(1) a tick is due──► firing ──(2) enqueue its jobs, (3) store that──► idle

Only one scheduler gets from idle to firing. Step (1) stores that the tick is handled, and which jobs it gets. Their
ids derive from schedule and tick, so repeating (2) is harmless. A scheduler that finds a firing some seconds old, by
the store's clock, does (2) and (3) for the one that started it. If the clock is set back, its ticks are handled
already.
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
from stanchion.stores.ports import Partitions
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import VersionedValue

log = logging.getLogger("stanchion.cron")

TAKE_OVER = 5 * SECOND
"""Age of a firing after which another scheduler enqueues its jobs."""


class Round(NamedTuple):
    """The result of one pass over all schedules. `now`, `next_tick`: by the store's clock."""

    jobs: int
    now: int
    next_tick: int | None


class Ticker:
    """Fires the schedules that the code of an app declares, and completes firings that others left.

    The first pass stores each schedule as this code declares it. From then on the stored plan counts, which a newer
    release may have changed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._id = new_id()
        self._announced: set[str] = set()
        self._warned: set[str] = set()

    def tick(self) -> Round:
        """Fire due schedules. If one fails, the others still fire; its error is raised at the end."""
        values = {value.name: value for value in self._context.store.values(KIND)}
        now = self._context.store.now()
        jobs, next_ticks, failed = 0, list[int](), list[Exception]()
        for name in sorted({*values, *self._context.registry.crons}):
            try:
                fired, next_tick = self._advance(name, values.get(name), now)
            except StoreUnavailable:
                raise
            except Exception as error:
                error.add_note(f"in the schedule {name!r}")
                failed.append(error)
                continue
            jobs += fired
            next_ticks += [] if next_tick is None else [next_tick]
        if failed:
            raise failed[0]
        return Round(jobs, now, min(next_ticks, default=None))

    def _advance(self, name: str, value: VersionedValue | None, now: int) -> tuple[int, int | None]:
        """Advance one schedule as far as possible; return the number of jobs enqueued, and its next time."""
        jobs, declared = 0, self._context.registry.crons.get(name)
        while True:
            plan = None if value is None else Plan.of(value.text)
            if plan is not None and self._to_enqueue(plan, now):
                jobs += self._enqueue(name, plan)
                changed: Plan | None = plan._replace(firing=None)
            else:
                changed = self._change(name, declared, plan, now)
            if changed is None:
                return jobs, self._next_tick(name, declared, plan, now)
            text, version = changed.text(), value.version if value else 0
            if self._context.store.compare_and_set(KIND, name, text, version):
                value = VersionedValue(name, text, version + 1)
            else:
                value, now = value_of(self._context, name), self._context.store.now()

    def _to_enqueue(self, plan: Plan, now: int) -> bool:
        """Return whether this scheduler should enqueue the jobs of a firing."""
        firing = plan.firing
        return firing is not None and (firing.by == self._id or not 0 <= now - firing.at < TAKE_OVER)

    def _enqueue(self, name: str, plan: Plan) -> int:
        if plan.firing is not None and plan.firing.by != self._id:
            log.warning("completing the tick of schedule %s that another scheduler left", name)
        jobs = plan.jobs(name)
        if (store := self._context.store).extension(Partitions) is not None:
            # The queue may have got other partitions since an earlier try, where no push checks for its jobs.
            known = store.fetch([job.id for job in jobs])
            jobs = [job for job in jobs if job.id not in known]
        return sum(not pushed.duplicate for pushed in insert(self._context, jobs)) if jobs else 0

    def _change(self, name: str, declared: Declared | None, plan: Plan | None, now: int) -> Plan | None:
        """Return the plan to store now; None: no change."""
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
        handled = plan._replace(handled=due[-1], declared_at=now)
        if not ticks:
            return handled
        return handled._replace(last=ticks[-1], firing=Firing(self._id, now, tuple(ticks)))

    def _next_tick(self, name: str, declared: Declared | None, plan: Plan | None, now: int) -> int | None:
        if plan is None:
            return None
        if plan.firing is not None:
            return plan.firing.at + TAKE_OVER
        if declared is None:
            self._warn_of_undeclared(name, plan, now)
            return None
        return None if plan.paused else plan.next_tick()

    def _warn_of_undeclared(self, name: str, plan: Plan, now: int) -> None:
        if now - plan.declared_at >= UNDECLARED and name not in self._warned:
            self._warned.add(name)
            log.warning(
                "schedule %s is not declared by any live worker, so it does not fire; if it is no longer needed: "
                "stanchion cron remove %s",
                *(name, name),
            )
