"""The loop of leadership in simulated time.

It decides by the product's own `plan_for`, and so by its `assignment`. What `Leadership` does around that is done again
here without an event loop, threads and texts, so that thousands of managers fit in a process; a test compares both,
write by write. Left out: calls that fail or hang, and clocks that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Protocol

from benchmarks.scale.costs import Costs
from benchmarks.scale.events import Events, Pause, Steps, Task
from benchmarks.scale.values import Values
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.leadership.plan import Plan, plan_for
from stanchion.manager.leadership.rows import SliceRow
from stanchion.manager.leadership.view import View

AT_ONCE = 16
LEAST_PAUSE = 0.02
NOTHING = Plan([], [], [], [])


class Served(Protocol):
    """Is told which slices are served."""

    def begin(self, leader: Leader, names: Iterable[str]) -> None:
        """A manager serves slices from now on."""

    def stop(self, leader: Leader, names: Iterable[str]) -> None:
        """A manager no longer serves slices."""


class Leader:
    """A manager's session in one store, and its slices."""

    def __init__(self, events: Events, values: Values, costs: Costs, random: Random, served: Served, host: int) -> None:
        """`host`: the number of the process."""
        self.host = host
        self.session = f"{random.getrandbits(128):032x}"
        self.mine: dict[str, Owned] = {}
        self.iterations = 0
        self.alive = True
        self.tell: Callable[[Sequence[str]], None] = lambda _sessions: None
        self._events, self._values, self._costs, self._random, self._served = events, values, costs, random, served
        self._busy: set[str] = set()
        self._joined = self._woken = self._stepping = self._left = False
        self._known: list[str] = []
        self._looked_at = self._nothing_at = -1
        """The changes of the store at the last look, and at the last one after which there was nothing to do."""
        self._engine_free = 0.0
        self._task = Task(events, self._loop())

    def wake(self) -> None:
        """Iterate at once."""
        self._woken = True
        self._task.wake()

    def kill(self) -> None:
        """Die."""
        self.alive = False
        self._task.kill()
        self._served.stop(self, self.mine)

    def leave(self) -> None:
        """Let all slices go, and delete the session."""
        self._left = True
        if not self._stepping:
            self._task.kill()
            self._task = Task(self._events, self._leaving())

    # -- the loop

    def _loop(self) -> Steps:
        interval = self._costs.lease / 3
        while not self._left:
            self._stepping = True
            yield from self._step()
            self._stepping = False
            pause = interval * self._random.uniform(0.9, 1.1)
            if self._left:
                break
            yield LEAST_PAUSE
            if not self._woken:
                yield Pause(pause)
        yield from self._leaving()

    def _leaving(self) -> Steps:
        if self.mine:
            self._let_go(list(self.mine))
            yield self._engine_free - self._events.now
        self._values.reads += 1
        self._values.end(self.session)
        self.alive = False
        yield 2 * self._costs.call_wait
        self._tell_others()

    def _step(self) -> Steps:
        self._woken = False
        self.iterations += 1
        renewed_at = self._events.now
        self._values.renew(self.session, self._costs.lease)
        yield 2 * self._costs.call_wait
        view, calls = self._values.look(self.session)
        self._looked_at = self._values.changes
        yield calls * self._costs.call_wait + (self._values.queues + len(view.rows)) * self._costs.row_wait
        plan = self._plan(view)
        if plan.stop:
            self._let_go(plan.stop)
        self._known = sorted(view.sessions)
        given = 0
        for some in self._portions(plan.give, renewed_at):
            given += len(list(self._write(some)))
            yield len(some) * self._costs.call_wait
        if given or view.burned or not self._joined:
            self._tell_others()
        self._joined = True
        for some in self._portions(plan.take, renewed_at):
            taken = list(self._write(some))
            yield len(some) * self._costs.call_wait
            self._take(taken)

    def _plan(self, view: View) -> Plan:
        if not self._busy and self._nothing_at == self._looked_at:
            return NOTHING
        plan = plan_for(self.session, self.mine, self._busy, view)
        self._nothing_at = self._looked_at if plan == NOTHING and not self._busy else -1
        return plan

    def _portions(self, rows: Sequence[SliceRow], renewed_at: float) -> Iterator[Sequence[SliceRow]]:
        for first in range(0, len(rows), AT_ONCE):
            if self._events.now - renewed_at > self._costs.lease / 3:
                self._woken = True
                return
            yield rows[first : first + AT_ONCE]

    def _write(self, rows: Sequence[SliceRow]) -> Iterator[SliceRow]:
        for row in rows:
            written = self._values.set(row)
            if written is not None:
                yield written

    def _tell_others(self) -> None:
        self.tell([one for one in self._known if one != self.session])

    # -- the part that serves the slices: one thing after another

    def _take(self, rows: Sequence[SliceRow]) -> None:
        slices = self._values.slices
        owned = {row.name: Owned(row.queue, slices[row.name].number, row.epoch, row.lanes) for row in rows}
        self.mine.update(owned)
        self._engine_free = max(self._engine_free, self._events.now) + self._costs.take_wait
        self._events.after(self._engine_free - self._events.now, self._taken, owned)

    def _taken(self, owned: dict[str, Owned]) -> None:
        if self.alive:
            self._served.begin(self, [name for name, one in owned.items() if self.mine.get(name) is one])

    def _let_go(self, names: Sequence[str]) -> None:
        for name in names:
            del self.mine[name]
        self._busy.update(names)
        self._served.stop(self, names)
        self._engine_free = max(self._engine_free, self._events.now) + self._costs.durable_wait
        self._events.after(self._engine_free - self._events.now, self._released, names)

    def _released(self, names: Sequence[str]) -> None:
        self._busy.difference_update(names)
        if self.alive and not self._left:
            self.wake()
