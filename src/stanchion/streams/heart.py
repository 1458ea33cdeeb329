"""The heartbeat thread of a driver, which also maintains the store as a worker does."""

from __future__ import annotations

import logging
import threading
import time
import weakref

from stanchion.core.boot_clock import boot_clock
from stanchion.core.spark_errors import StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.liveness import LATE_BEATS, MISSED_BEATS
from stanchion.streams.source import StreamSource

STEP = 1.0
"""Seconds within which the end of a sleep of the machine is noticed."""

log = logging.getLogger("stanchion.streams")


class Heart:
    """Beats until its process ends, the source is garbage-collected, or another driver takes over the stream.

    A driver may run without workers, so it also takes back the jobs of dead ones; but only after enough successful
    beats that no worker looks dead merely because of an outage of the store.
    """

    def __init__(self, source: StreamSource, store: Store, every: float) -> None:
        self._source, self._store, self._every = weakref.ref(source), store, every
        self._in_time = 0
        self._thread = threading.Thread(target=self._run, name="stanchion-stream", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        pause = self._every
        while True:
            if _slept(pause) >= LATE_BEATS * self._every:
                self._in_time = 0  # after a sleep of this machine, other workers on it look dead, too
            source = self._source()
            if source is None:
                return
            try:
                as_of = self._store.now()
                source.beat()
                self._in_time += 1
                if self._in_time > MISSED_BEATS:
                    self._maintain(as_of)
                pause = self._every
            except StreamTaken:
                return
            except Exception as error:
                self._in_time, pause = 0, min(1.0, self._every)
                log.warning("the heartbeat of a stream failed: %s: %s", type(error).__name__, error)
            del source  # allow garbage collection during the sleep

    def _maintain(self, as_of: int) -> None:
        while self._store.recover(as_of=as_of):
            pass
        self._store.maintain()


def _slept(seconds: float) -> float:
    """Sleep; return how long that took. The time for which the machine sleeps counts."""
    began = boot_clock()
    while (left := seconds - (boot_clock() - began)) > 0:
        time.sleep(min(left, STEP))
    return boot_clock() - began
