"""Waiting for jobs and flows to finish: one query reads all keys that have waiters."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from stanchion.errors import FlowNotFound, JobNotFound
from stanchion.stores.records.flows import FlowNode, NodeState
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS, SPACING, Coordinator, Poll
from stanchion.waits.waiter import Waiter

_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.002, 0.25
"""Seconds between polls without signals: at the start of a wait, and at most."""

_MEASURED_SHARE_MIN = 0.5
"""Share of all keys that a poll must read for its duration to be extrapolated to all."""

_JOBS_PER_FETCH_MAX = 500
"""Jobs per call of the store."""


F = TypeVar("F")


class Entry:
    """One job or flow, and its waiters."""

    __slots__ = ("asked_for", "at", "pause", "queue", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Waiter[object]] = []
        self.at = 0.0
        """When to read it next, on the monotonic clock."""
        self.asked_for = 0.0
        """When it was last signalled or got a new waiter. Anything read before that is stale."""
        self.pause = _PAUSE_SECONDS_MIN
        self.queue: str | None = None


class EndPoll(Poll, Generic[F]):
    """Read the keys with waiters: new or signalled keys immediately, the others together from time to time."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self._entries: dict[str, Entry] = {}
        self._next: list[tuple[float, str]] = []
        self._all_at = math.inf
        self._not_before = 0.0
        self._run_began = self._weight = 0.0
        self._whole = 0.0
        """Estimated seconds to read all keys, from the last poll that read most of them."""

    @abstractmethod
    def fetch(self, keys: Sequence[str]) -> Mapping[str, F]:
        """Read these; unknown keys are left out."""

    @abstractmethod
    def is_over(self, found: F) -> bool:
        """Return whether it has finished."""

    @abstractmethod
    def answers(self, found: F, clock: Callable[[], int]) -> object:
        """Return the answer for its waiters, once it has finished or they have timed out."""

    @abstractmethod
    def unknown(self, key: str) -> Exception:
        """Return the error for waiters of an unknown key."""

    def hears(self) -> bool:
        """Return whether signals announce that jobs finish."""
        return False

    def covered(self, entry: Entry) -> bool:
        """Return whether a signal will announce that it finishes."""
        return entry.queue is not None and entry.queue in (self.coordinator.heard.finished or ())

    @property
    def waiters(self) -> Iterable[Waiter[object]]:
        return [waiter for entry in self._entries.values() for waiter in entry.waiters]

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: str, waiter: Waiter[object]) -> None:
        """Add a waiter. The caller holds the lock."""
        entry = self._entries.setdefault(key, Entry())
        entry.waiters.append(waiter)
        self._ask_soon(key, entry)

    def forget(self, key: str) -> None:
        """Drop the waiters of this key that wait no more. The caller holds the lock."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.waiters = [waiter for waiter in entry.waiters if waiter.waits]
            if not entry.waiters:
                del self._entries[key]

    def forget_gone(self) -> None:
        for key in list(self._entries):
            self.forget(key)

    def signed(self, signs: Signs) -> None:
        if signs.finished is None:
            self._all_at = min(self._all_at, max(time.monotonic(), self._not_before))
            self.due = min(self.due, self._all_at)
            return
        for key in signs.finished:
            if (entry := self._entries.get(key)) is not None:
                self._ask_soon(key, entry)

    def heard(self) -> None:
        self._all_at = self.due = 0.0

    def ask(self) -> None:
        with self.coordinator.lock:
            keys = self._due_keys()
            share, began = len(keys) / max(1, len(self._entries)), time.monotonic()
            self._run_began, self._weight = began, min(1.0, len(keys) / _JOBS_PER_FETCH_MAX)
        try:
            while keys:
                part = keys[:_JOBS_PER_FETCH_MAX]
                self._ask_for(part)
                del keys[: len(part)]
            if share >= _MEASURED_SHARE_MIN:
                self._whole = (time.monotonic() - began) / share
        finally:
            with self.coordinator.lock:
                if keys:  # the store failed
                    self._all_at = 0.0
                self.due = min(self._next[0][0] if self._next else math.inf, self._all_at)

    def _due_keys(self) -> list[str]:
        """Return the keys that are due now or soon. The caller holds the lock."""
        now = time.monotonic()
        if self._all_at <= now:
            self._all_at, self._next = math.inf, []
            self._not_before = now + SPACING * self._whole
            return list(self._entries)
        keys: dict[str, None] = {}
        # Keys due within half a pause are read too, so that they stay in one group from then on.
        while self._next and self._next[0][0] <= now + (self._pause() / 2 if keys else 0.0):
            at, key = heappop(self._next)
            entry = self._entries.get(key)
            if entry is not None and entry.at == at:
                keys[key] = None
        return list(keys)

    def _ask_for(self, keys: Sequence[str]) -> None:
        began = time.monotonic()
        found = self.fetch(keys)
        now, clock = time.monotonic(), cache(self.coordinator.host.store.now)
        for key in keys:
            one = found.get(key)
            with self.coordinator.lock:
                entry = self._entries.get(key)
                waiters = [] if entry is None else [waiter for waiter in entry.waiters if waiter.waits]
            if entry is None:
                continue
            over = one is not None and self.is_over(one)
            answered = waiters if one is None or over else [waiter for waiter in waiters if waiter.deadline <= began]
            if answered:
                answer = None if one is None else self.answers(one, clock)
                for waiter in answered:
                    if one is None:
                        waiter.fail(self.unknown(key))
                    else:
                        waiter.deliver(answer)
            with self.coordinator.lock:
                self.observe(entry, one)
                self.forget(key)
                if key in self._entries:
                    self._schedule_next(key, entry, now, began)

    def observe(self, entry: Entry, found: F | None) -> None:
        """Remember which signals matter for this entry."""

    def _ask_soon(self, key: str, entry: Entry) -> None:
        entry.asked_for, entry.pause = time.monotonic(), _PAUSE_SECONDS_MIN
        self._schedule(key, entry, 0.0)
        self.due = 0.0

    def _schedule_next(self, key: str, entry: Entry, now: float, began: float) -> None:
        if entry.asked_for >= began:
            self._schedule(key, entry, 0.0)
            return
        pause = self._pause()
        if not self.covered(entry) and entry.pause < _PAUSE_SECONDS_MAX:
            # Short at first, unless very many came together.
            pause = max(entry.pause, SPACING * self._weight * (now - self._run_began))
            entry.pause = min(entry.pause * 1.5, _PAUSE_SECONDS_MAX)
        self._schedule(key, entry, min(now + pause, *(max(now, waiter.deadline) for waiter in entry.waiters)))

    def _pause(self) -> float:
        """Return the seconds between two polls for keys that have been waited for a while."""
        pause = BACKUP_POLLS * self.coordinator.host.poll if self.hears() else _PAUSE_SECONDS_MAX
        return max(pause, SPACING * self._whole)

    def _schedule(self, key: str, entry: Entry, at: float) -> None:
        entry.at = at
        heappush(self._next, (at, key))


class SeenJob(NamedTuple):
    """A job and its state when it was read."""

    row: JobRow
    state: JobState


class JobPoll(EndPoll[JobRow]):
    """Waits for jobs to finish."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self._queues: frozenset[str] = frozenset()
        """The queues of the jobs read so far."""

    def fetch(self, keys: Sequence[str]) -> Mapping[str, JobRow]:
        return self.coordinator.host.store.fetch(keys)

    def is_over(self, found: JobRow) -> bool:
        return state_of(found, found.run_at).final

    def answers(self, found: JobRow, clock: Callable[[], int]) -> SeenJob:
        at = found.run_at if self.is_over(found) else clock()
        return SeenJob(found, state_of(found, at))

    def unknown(self, key: str) -> Exception:
        return JobNotFound(key)

    def observe(self, entry: Entry, found: JobRow | None) -> None:
        if found is not None:
            entry.queue = found.queue
            if entry.queue not in self._queues:
                self._queues |= {entry.queue}

    def hears(self) -> bool:
        return bool(self._queues) and self._queues <= (self.coordinator.heard.finished or frozenset())

    def listens_to(self) -> Signs:
        return Signs(finished=self._queues)


class FlowPoll(EndPoll[list[FlowNode]]):
    """Waits for flows to finish."""

    def fetch(self, keys: Sequence[str]) -> Mapping[str, list[FlowNode]]:
        return {key: nodes for key in keys if (nodes := self.coordinator.host.store.flow_nodes(key))}

    def is_over(self, found: list[FlowNode]) -> bool:
        return next(node for node in found if node.id == node.root).state != NodeState.RUNNING

    def answers(self, found: list[FlowNode], clock: Callable[[], int]) -> list[FlowNode]:  # noqa: ARG002
        return found

    def unknown(self, key: str) -> Exception:
        return FlowNotFound(key)

    def listens_to(self) -> Signs:
        return Signs()
