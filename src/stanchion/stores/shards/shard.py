"""One shard: its calls, with its name in their errors, and what this process knows of its outages.

    up ──a call fails──► down ──a probe in a separate thread, or any call, gets an answer──► up

Calls that can do without a shard, such as claims, leave out one that is down, so that it does not delay the others.
All other calls ask it regardless.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from stanchion.core.backoff import Backoff
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import Beat, WorkerRow

T = TypeVar("T")
D = TypeVar("D")

log = logging.getLogger("stanchion.shards")

LATE, MISSED = 2, 3
"""Heartbeats without an answer after which this process has missed an outage's begin; that make a worker dead."""

RETURN_SECONDS = 6.0
"""Minimum seconds that live workers get to beat again after an outage."""


class Shard:
    """A store, as one of several."""

    def __init__(self, name: str, store: Store, *, is_default: bool = False) -> None:
        self.name, self.store, self.is_default = name, store, is_default
        self._beat_at = math.inf
        """The last beat that was answered; before the first one, infinite, or minus infinite after a failure."""
        self._steady_from = -math.inf
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget the thread of a probe."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._probing: threading.Thread | None = None
        self.down = False

    def ask(self, call: Callable[..., T], *args: object, **named: object) -> T:
        """Call a verb of the store; its error names the shard."""
        try:
            answer = call(*args, **named)
        except StoreUnavailable as error:
            self._failed(error)
            raise StoreUnavailable(f"shard {self.name!r}: {error}", lasting=error.lasting) from error
        except SchemaMismatch as error:
            raise SchemaMismatch(f"shard {self.name!r}: {error}") from error
        self.down = False
        return answer

    @property
    def named(self) -> Store:
        """The store, whose errors name the shard."""
        return cast(Store, _Named(self))

    def verb(self, name: str) -> Callable[..., Any]:
        """Return a verb of the store whose errors name the shard."""
        return partial(self.ask, getattr(self.store, name))

    def ask_if_up(self, otherwise: D, call: Callable[..., T], *args: object, **named: object) -> T | D:
        """Call a verb unless the shard is down; return `otherwise` then. The default shard is always asked."""
        if self.is_default:
            return self.ask(call, *args, **named)
        if self.down:
            return otherwise
        try:
            return self.ask(call, *args, **named)
        except StoreUnavailable:
            return otherwise

    def close(self) -> None:
        """Release connections and threads."""
        self._closed.set()
        self.store.close()

    # -- heartbeats

    @property
    def steady(self) -> bool:
        """False shortly after an outage that a heartbeat of this process has met: live workers may look dead then."""
        return not self.down and time.monotonic() >= self._steady_from

    def beat(self, workers: Sequence[WorkerRow]) -> Beat | None:
        """Beat if the shard is up; after an outage, give other workers time to beat, too."""
        beat = self.ask_if_up(None, self.store.beat, workers)
        now, every = time.monotonic(), max((row.heartbeat for row in workers), default=0.0)
        if beat is not None:
            if now - self._beat_at >= LATE * every:
                self._steady_from = now + max(MISSED * every, RETURN_SECONDS)
            self._beat_at = now
        elif self._beat_at == math.inf:
            self._beat_at = -math.inf
        return beat

    # -- outages

    def _failed(self, error: StoreUnavailable) -> None:
        """Record that the shard is down, and probe for its return."""
        with self._lock:
            if not self.down:
                log.warning("shard %s is down, its partitions are left out until it answers: %s", self.name, error)
            self.down = True
            if self.is_default or (self._probing is not None and self._probing.is_alive()):
                return
            self._closed.clear()
            self._probing = threading.Thread(target=self._probe, name="stanchion-shard-probe", daemon=True)
            self._probing.start()

    def _probe(self) -> None:
        backoff = Backoff()
        while self.down and not self._closed.wait(backoff.failed()):
            try:
                self.store.now()
            except Exception as error:
                log.debug("shard %s is still down: %s", self.name, error)
            else:
                self.down = False
                log.warning("shard %s answers again", self.name)


class _Named:
    """The store of a shard; each verb is called through the shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> object:
        found = getattr(self._shard.store, name)
        return partial(self._shard.ask, found) if callable(found) else found
