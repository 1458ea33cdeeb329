"""The one reader of the store in a process: tabs ask it, however many there are.

It reads while pages ask, at most a twentieth of the time, and rests when none has asked for a minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stanchion.alerts.alerts import reading
from stanchion.alerts.changes import BEGINS, Changes
from stanchion.alerts.records import Alert, Monitor
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.context.context import Context
from stanchion.core.times import micros
from stanchion.errors import StanchionError
from stanchion.ops.reads.track import Track
from stanchion.ops.web.live.day import Day
from stanchion.stores.protocol import Store
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import point_of, sum_of

SHORTEST: Final = 5.0
"""Seconds between two samples at least."""

SHARE: Final = 20
"""A sample is followed by a pause of so many times its own duration."""

ASKED: Final = 60.0
"""Seconds after the last question after which the sampler rests."""

QUEUES_MAX: Final = 200
"""Queues whose last hour is kept."""

_log = logging.getLogger("stanchion.web")


class Sample(NamedTuple):
    """One reading. `seen`: all values read; `firing`: the alerts that hold.

    `number`: counts the readings; `seconds`: duration.
    """

    number: int
    seen: Snapshot
    monitor: Monitor
    firing: tuple[Alert, ...]
    limits: Thresholds
    seconds: float


class Sampler:
    """Reads the alerts and figures of an app, and keeps the last hour's; `taken` is called with each sample."""

    def __init__(self, context: Callable[[], Context], taken: Callable[[Sample], None] | None = None) -> None:
        self._context, self._told = context, taken
        self._changes = Changes()
        self._lock = threading.Lock()
        self._asked = self._taken = -ASKED
        self._wake = threading.Event()
        self._closed = False
        self._minute = -1
        self._thread: threading.Thread | None = None
        self.sample: Sample | None = None
        """The last sample, if there is one."""
        self.all, self.queues = Track(), dict[str, Track]()
        """The last hour of all queues together, and of each."""
        self.day = Day()
        """Jobs that have died within a day."""

    def latest(self) -> Sample:
        """Return the last sample, which is at most a pause old; the first question takes one."""
        self._asked = time.monotonic()
        if self.sample is not None and self.awake:  # without the lock, which a slow reading holds
            return self.sample
        with self._lock:
            if self.sample is None or (not self.awake and self._asked - self._taken >= SHORTEST):
                self.take()
            self._begin()
        assert self.sample is not None  # noqa: S101 - taken above
        return self.sample

    def glance(self) -> Sample | None:
        """Return the last sample, None if there is no recent one; do not wait for one, but begin to read."""
        self._asked = time.monotonic()
        if self.awake:
            return self.sample
        if self._lock.acquire(blocking=False):
            try:
                self._begin()
            finally:
                self._lock.release()
        return None

    def _begin(self) -> None:
        """Begin to read from time to time. Within the lock."""
        if not self.awake:
            self._closed = False
            self._thread = threading.Thread(target=self._run, name="stanchion-web-sampler", daemon=True)
            self._thread.start()

    @property
    def awake(self) -> bool:
        """Whether it reads from time to time."""
        return self._thread is not None and self._thread.is_alive()

    def renew(self) -> Sample:
        """Take a sample after a change that the next page should show."""
        self.latest()
        with self._lock:
            return self.take()

    def ask(self) -> int:
        """Keep the sampler awake; return the number of the last sample."""
        self._asked = time.monotonic()
        return 0 if self.sample is None else self.sample.number

    def take(self) -> Sample:
        """Take a sample now. Raises StanchionError where the store does not answer."""
        began = time.monotonic()
        seen, read = reading(self._context())
        if read.at is not None:
            self._track(read)
        for _ in range(BEGINS if self.sample is None else 1):  # the first reading of a process is not held back
            self._changes.add(read.alerts, read.at)
        order = {alert.key: place for place, alert in enumerate(read.alerts)}
        firing = sorted(self._changes.firing.values(), key=lambda one: order.get(one.key, len(order)))
        self._taken = time.monotonic()
        number = 1 if self.sample is None else self.sample.number + 1
        limits = Thresholds().changed(seen.limits)
        self.sample = Sample(number, seen, read, tuple(firing), limits, self._taken - began)
        if self._told is not None:
            self._told(self.sample)
        return self.sample

    def _track(self, read: Monitor) -> None:
        assert read.at is not None  # noqa: S101 - asked by the caller
        at = micros(read.at)
        points = {
            one.queue: point_of(at, one.size, one.totals, max((b.max_age for b in one.bands), default=0.0))
            for one in read.queues
        }
        store = self._context().fresh_store
        if self.sample is None:
            self._recall(store, at, [one.queue for one in read.queues])
        if at // rollups.MINUTE != self._minute:
            self._minute = at // rollups.MINUTE
            if rollups.take_minute(store, at):
                rollups.keep(store, points, at)
        self.day.read(store, at, [one.queue for one in sorted(read.queues, key=lambda one: -one.totals.pushed)])
        self.all.add(sum_of([*points.values()], at))
        for gone in self.queues.keys() - points.keys():
            del self.queues[gone]
        for name, point in points.items():
            if name in self.queues or len(self.queues) < QUEUES_MAX:
                self.queues.setdefault(name, Track()).add(point)

    def _recall(self, store: Store, now: int, queues: Sequence[str]) -> None:
        """Fill the last hour with what processes have kept of it."""
        known = rollups.past(store, [rollups.ALL, *queues[:QUEUES_MAX]], 1, now)
        for name, points in known.items():
            track = self.all if name == rollups.ALL else self.queues.setdefault(name, Track())
            for point in points:
                track.add(point)

    def _run(self) -> None:
        while not self._closed and time.monotonic() - self._asked < ASKED:
            self._wake.wait(self._pause())
            if self._closed:
                return
            try:
                with self._lock:
                    if not self._pause():  # else one was taken meanwhile
                        self.take()
            except StanchionError as error:
                self._taken = time.monotonic()
                _log.warning("the page can't read the store: %s", error)

    def _pause(self) -> float:
        seconds = self.sample.seconds if self.sample else 0.0
        return max(0.0, self._taken + max(SHORTEST, SHARE * seconds) - time.monotonic())

    def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)
        self._wake.clear()
