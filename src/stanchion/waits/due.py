"""Waiting until a job may be due, without taking it: one read for all queues that have waiters."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS, Coordinator, Poll
from stanchion.waits.waiter import Waiter


class DuePoll(Poll):
    """Answers True to all waiters of a queue when it has a due job that may be claimed, False at their deadlines."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self._waiting: dict[str, list[Waiter[bool]]] = {}
        self._again = False

    @property
    def waiters(self) -> Iterable[Waiter[bool]]:
        return [waiter for several in self._waiting.values() for waiter in several]

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queue: str, waiter: Waiter[bool]) -> None:
        """Add a waiter. The caller holds the lock."""
        self._waiting.setdefault(queue, []).append(waiter)
        self.heard()

    def forget_gone(self) -> None:
        kept = {queue: [one for one in several if one.waits] for queue, several in self._waiting.items()}
        self._waiting = {queue: several for queue, several in kept.items() if several}

    def listens_to(self) -> Signs:
        return Signs(frozenset(self._waiting))

    def signed(self, signs: Signs) -> None:
        if signs.queues is None or not signs.queues.isdisjoint(self._waiting):
            self.heard()

    def heard(self) -> None:
        self.due, self._again = 0.0, True

    def ask(self) -> None:
        with self.coordinator.lock:
            self._again = False
            self.forget_gone()
            waiting = {queue: list(several) for queue, several in self._waiting.items()}
        began = time.monotonic()
        due, nap = self._due(waiting) if waiting else (set(), math.inf)
        for queue, several in waiting.items():
            for waiter in several:
                if queue in due or waiter.deadline <= began:
                    waiter.deliver(queue in due)
        with self.coordinator.lock:
            self.forget_gone()
            deadlines = [one.deadline for one in self.waiters]
            self.due = 0.0 if self._again else min([time.monotonic() + nap, *deadlines]) if deadlines else math.inf

    def _due(self, queues: Collection[str]) -> tuple[set[str], float]:
        """Return the queues with a due job, and the seconds after which to look again."""
        host = self.coordinator.host
        found, now = host.store.stats(queues, ["next_due"]), host.store.now()
        times = {queue: one.next_due for queue, one in found.items() if one.next_due is not None}
        due = {queue for queue, run_at in times.items() if run_at <= now}
        later = [max(0.001, (run_at - now) / SECOND) for run_at in times.values() if run_at > now]
        polls = BACKUP_POLLS if frozenset(queues) <= (self.coordinator.heard.queues or frozenset()) else 1
        return due - self._held_back(due), min([host.poll * polls, *later])

    def _held_back(self, due: Collection[str]) -> set[str]:
        """Return the queues that deliver no job now: paused, or at their `max_running`."""
        store = self.coordinator.host.store
        settings = store.queues(due) if due else []
        limited = {one.name: one.max_running for one in settings if one.max_running is not None}
        sizes = store.stats(list(limited), ["states"]) if limited else {}
        full = {queue for queue, most in limited.items() if sizes[queue].states.running >= most}
        return full | {one.name for one in settings if one.paused}
