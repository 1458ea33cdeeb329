"""Reports that are counted in the background, one at a time, and kept for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from stanchion.app import Stanchion
from stanchion.core.times import moment
from stanchion.errors import StanchionError
from stanchion.reporting.report import Report, report
from stanchion.stores.records.jobs import SECOND

MOST: Final = 200_000
"""Finished jobs that a report of the page counts, of its period and of the one before, each: about ten seconds."""

FRESH: Final = 600 * SECOND
"""Microseconds after which a report is counted again when it is asked for."""

KEPT: Final = 12
"""Reports that are kept, those made last."""

WAIT: Final = 1.0
"""Seconds that the first request waits for its report, enough for a small one."""

_log = logging.getLogger("stanchion.web")


class Key(NamedTuple):
    """Which report: of so many seconds before now, and of a queue; empty: of all queues."""

    span: int
    queue: str = ""


class Made(NamedTuple):
    """A report as it was at a time of the store's clock, or why it could not be made."""

    at: int
    report: Report | None
    error: str = ""


class Progress(NamedTuple):
    """State of a report: the last one, and the jobs counted so far for the next; None: none is being made."""

    made: Made | None
    counted: int | None


class Reports:
    """The reports of one app."""

    def __init__(self, app: Stanchion) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._made: dict[Key, Made] = {}
        self._wanted: dict[Key, int] = {}
        """Reports to be made, in order, with the jobs counted so far."""
        self._done = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, key: Key, now: int) -> Progress:
        """Return the state of a report, and begin to make it if there is no fresh one."""
        with self._lock:
            made = self._made.get(key)
            if (made is None or now - made.at > FRESH) and key not in self._wanted:
                self._wanted[key] = 0
                self._start()
            if made is None:
                self._done.wait_for(lambda: key in self._made, WAIT)
            return Progress(self._made.get(key), self._wanted.get(key))

    def join(self) -> None:
        """Wait until no report is being made."""
        if (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """Stop counting."""
        self._closed = True
        if (thread := self._thread) is not None:
            thread.join(10)

    def _start(self) -> None:
        if self._thread is None:
            self._closed = False
            self._thread = threading.Thread(target=self._run, name="stanchion-web-report", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                key = next(iter(self._wanted), None)
                if key is None or self._closed:
                    self._thread = None
                    return
            made = self._make(key)
            with self._lock:
                del self._wanted[key]
                self._made.pop(key, None)
                self._made[key] = made
                while len(self._made) > KEPT:
                    del self._made[next(iter(self._made))]
                self._done.notify_all()

    def _make(self, key: Key) -> Made:
        at = 0
        try:
            at = self._app.store.now()
            since = moment(at) - timedelta(seconds=key.span)
            queues = [key.queue] if key.queue else []
            found = report(self._app, since=since, queues=queues, counted=self._counting(key), most=MOST)
            return Made(at, found)
        except _Stopped:
            return Made(at, None, "the page was stopped")
        except StanchionError as error:
            _log.warning("a report could not be made: %s", error)
            return Made(at, None, str(error))

    def _counting(self, key: Key) -> Callable[[int], None]:
        def counted(jobs: int) -> None:
            self._wanted[key] = jobs
            if self._closed:
                raise _Stopped

        return counted


class _Stopped(Exception):
    """The page is closed while a report is counted."""
