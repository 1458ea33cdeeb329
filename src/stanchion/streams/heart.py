"""The heartbeat thread of a driver, which also maintains the store as a worker does."""

from __future__ import annotations

import logging
import threading
import time
import weakref

from stanchion.errors import StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.rules.liveness import MISSED_BEATS
from stanchion.streams.source import StreamSource

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
            time.sleep(pause)
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
