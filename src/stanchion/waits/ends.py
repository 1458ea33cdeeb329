"""Waiting for the ends of jobs and of flows: all that are waited for are asked for together."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

from stanchion.errors import FlowNotFound, JobNotFound
from stanchion.stores.records.flows import FlowNode, NodeState
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules.jobs import state_of
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.look import BACKING_POLLS, SHARE, Keeper, Look
from stanchion.waits.waiter import Waiter

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25
"""Seconds between looks where no signals arrive: soon after a wait has begun, and in the end."""

_MOST_OF_THEM = 0.5

_AT_ONCE = 500
"""Jobs per call of the store."""


class Entry:
    """One job or flow, and who waits for its end."""

    __slots__ = ("asked_for", "at", "pause", "queue", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Waiter[Any]] = []
        self.at = 0.0
        """When to look at it next."""
        self.asked_for = 0.0
        """When it was last signalled, or waited for anew: what was read before that says nothing."""
        self.pause = _FIRST_PAUSE
        self.queue: str | None = None


class EndLook(Look):
    """Looks at all that is waited for: what has just come or was signalled at once, the rest together, now and then."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self._entries: dict[str, Entry] = {}
        self._next: list[tuple[float, str]] = []
        self._all_at = math.inf
        self._not_before = 0.0
        self._run_began = self._weight = 0.0
        self._whole = 0.0
        """Seconds that a look at all takes, as the last one tells that was at most of them."""

    @abstractmethod
    def fetch(self, keys: Sequence[str]) -> Mapping[str, Any]:
        """Read those of these that are known."""

    @abstractmethod
    def is_over(self, found: Any) -> bool:
        """Tell whether what was read is an end."""

    @abstractmethod
    def answers(self, found: Any, clock: Callable[[], int]) -> Any:
        """Return what those who wait for it get, now that it has ended or their time is over."""

    @abstractmethod
    def unknown(self, key: str) -> Exception:
        """Return the error of those who wait for what is not known."""

    def hears(self) -> bool:
        """Tell whether signals tell of ends."""
        return False

    def covered(self, entry: Entry) -> bool:
        """Tell whether a signal is going to tell of its end."""
        return entry.queue is not None and entry.queue in (self.keeper.heard.finished or ())

    @property
    def waiters(self) -> Iterable[Waiter[Any]]:
        return [waiter for entry in self._entries.values() for waiter in entry.waiters]

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: str, waiter: Waiter[Any]) -> None:
        """Let one more wait; the lock is held."""
        entry = self._entries.setdefault(key, Entry())
        entry.waiters.append(waiter)
        self._ask_soon(key, entry)

    def forget(self, key: str) -> None:
        """Drop those who wait no more for this one; the lock is held."""
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
        with self.keeper.lock:
            keys = self._to_look_at()
            share, began = len(keys) / max(1, len(self._entries)), time.monotonic()
            self._run_began, self._weight = began, min(1.0, len(keys) / _AT_ONCE)
        try:
            while keys:
                part = keys[:_AT_ONCE]
                self._ask_for(part)
                del keys[: len(part)]
            if share >= _MOST_OF_THEM:
                self._whole = (time.monotonic() - began) / share
        finally:
            with self.keeper.lock:
                if keys:  # the store did not answer
                    self._all_at = 0.0
                self.due = min(self._next[0][0] if self._next else math.inf, self._all_at)

    def _to_look_at(self) -> list[str]:
        """Return what is to be looked at now, and with it what would be soon; the lock is held."""
        now = time.monotonic()
        if self._all_at <= now:
            self._all_at, self._next = math.inf, []
            self._not_before = now + SHARE * self._whole
            return list(self._entries)
        keys: dict[str, None] = {}
        # What is due within half a pause comes along, and is due with the others from then on.
        while self._next and self._next[0][0] <= now + (self._pause() / 2 if keys else 0.0):
            at, key = heappop(self._next)
            entry = self._entries.get(key)
            if entry is not None and entry.at == at:
                keys[key] = None
        return list(keys)

    def _ask_for(self, keys: Sequence[str]) -> None:
        began = time.monotonic()
        found = self.fetch(keys)
        now, clock = time.monotonic(), cache(self.keeper.host.store.now)
        for key in keys:
            one = found.get(key)
            with self.keeper.lock:
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
            with self.keeper.lock:
                self.note(entry, one)
                self.forget(key)
                if key in self._entries:
                    self._look_later(key, entry, now, began)

    def note(self, entry: Entry, found: Any) -> None:
        """Remember of what was read what tells which signals matter."""

    def _ask_soon(self, key: str, entry: Entry) -> None:
        entry.asked_for, entry.pause = time.monotonic(), _FIRST_PAUSE
        self._look_at(key, entry, 0.0)
        self.due = 0.0

    def _look_later(self, key: str, entry: Entry, now: float, began: float) -> None:
        if entry.asked_for >= began:
            self._look_at(key, entry, 0.0)
            return
        pause = self._pause()
        if not self.covered(entry) and entry.pause < _LONGEST_PAUSE:
            # Short at first, unless they are very many that have come together.
            pause = max(entry.pause, SHARE * self._weight * (now - self._run_began))
            entry.pause = min(entry.pause * 1.5, _LONGEST_PAUSE)
        self._look_at(key, entry, min(now + pause, *(max(now, waiter.deadline) for waiter in entry.waiters)))

    def _pause(self) -> float:
        """Return the seconds between two looks at what has been waited for some time."""
        return max(BACKING_POLLS * self.keeper.host.poll if self.hears() else _LONGEST_PAUSE, SHARE * self._whole)

    def _look_at(self, key: str, entry: Entry, at: float) -> None:
        entry.at = at
        heappush(self._next, (at, key))


class SeenJob(NamedTuple):
    """A job as it was read, and its state at that moment."""

    row: JobRow
    state: JobState


class JobLook(EndLook):
    """Waits for the ends of jobs."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self._queues: frozenset[str] = frozenset()
        """Where they were seen; it lasts as long as anybody waits."""

    def fetch(self, keys: Sequence[str]) -> Mapping[str, JobRow]:
        return self.keeper.host.store.fetch(keys)

    def is_over(self, found: JobRow) -> bool:
        return state_of(found, found.run_at).final

    def answers(self, found: JobRow, clock: Callable[[], int]) -> SeenJob:
        at = found.run_at if self.is_over(found) else clock()
        return SeenJob(found, state_of(found, at))

    def unknown(self, key: str) -> Exception:
        return JobNotFound(key)

    def note(self, entry: Entry, found: JobRow | None) -> None:
        if found is not None:
            entry.queue = found.queue
            if entry.queue not in self._queues:
                self._queues |= {entry.queue}

    def hears(self) -> bool:
        return bool(self._queues) and self._queues <= (self.keeper.heard.finished or frozenset())

    def listens_to(self) -> Signs:
        return Signs(finished=self._queues)


class FlowLook(EndLook):
    """Waits for the ends of flows."""

    def fetch(self, keys: Sequence[str]) -> Mapping[str, list[FlowNode]]:
        return {key: nodes for key in keys if (nodes := self.keeper.host.store.flow_nodes(key))}

    def is_over(self, found: list[FlowNode]) -> bool:
        return next(node for node in found if node.id == node.root).state != NodeState.RUNNING

    def answers(self, found: list[FlowNode], clock: Callable[[], int]) -> list[FlowNode]:  # noqa: ARG002
        return found

    def unknown(self, key: str) -> Exception:
        return FlowNotFound(key)

    def listens_to(self) -> Signs:
        return Signs()
