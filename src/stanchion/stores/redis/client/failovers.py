"""Failovers announced by sentinels, so that calls go to the new master immediately.

In a planned failover the old master lives, and takes writes until a sentinel makes it a replica, some ten seconds
later. These writes are lost. So one thread is subscribed to all sentinels:

    the leader is about to promote a replica   calls wait, as the old master's writes no longer reach it
    the replica is promoted                    all connections are dropped, and calls go to the new master
    the failover is aborted                    calls continue with the old master
"""

from __future__ import annotations

import logging
import select
import socket as sockets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.wakeup.broadcast import started

log = logging.getLogger("stanchion.redis")

Host = tuple[str, int]

_EVENTS = ("+switch-master", "+promoted-slave", "+failover-state-send-slaveof-noone", "-failover-abort-*")
_PROMOTING = "+failover-state-send-slaveof-noone"

_LONGEST_HOLD = 5.0
"""Seconds that calls wait for a promotion: half the time of a call, as the replica may never answer."""

_LAGGING = 10.0
"""Seconds after a switch during which a sentinel may still name the old master."""

_LONGEST_SWITCH = 200.0
"""Seconds between promotion and switch: by default, sentinels wait 180 for the other replicas."""

_IDLE = 60.0
_PAUSE = 1.0


class Failovers:
    """Follows the failovers of one service, in a thread that ends after a minute without calls.

    `sentinels`: makes their clients. `connect`: called with the present master, to drop connections to another one;
    with None to drop all.
    """

    def __init__(
        self, service: str, sentinels: Callable[[], Sequence[Any]], connect: Callable[[Host | None], None]
    ) -> None:
        self._service, self._sentinels = service, sentinels
        self._connect = weakref.WeakMethod(connect)  # the thread must not keep the store alive
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without a thread; after a fork, its connections belong to the parent."""
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._used = 0.0
        self._held_until = 0.0
        self._announced: Host | None = None
        self._announced_until = 0.0

    @property
    def master(self) -> Host | None:
        """The master that the last failover has made, as long as sentinels may name another one."""
        with self._lock:
            return self._announced if time.monotonic() < self._announced_until else None

    def await_promotion(self, deadline: float) -> None:
        """Return once no replica is about to be promoted, at the latest at the deadline."""
        self._used = time.monotonic()
        if self._thread is None:
            self._follow()
        if self._held_until == 0.0:
            return
        with self._lock:
            while (left := min(self._held_until, deadline) - time.monotonic()) > 0:
                self._lock.wait(left)

    def _follow(self) -> None:
        """Start the thread. Earlier announcements are unknown, so all connections are made again."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = started(self._serve, "stanchion-failovers")
        self._connect_to(None)

    def _connect_to(self, master: Host | None) -> None:
        if (connect := self._connect()) is not None:
            connect(master)

    # -- the thread

    def _serve(self) -> None:
        ears = [_Ear(client, self._service) for client in self._sentinels()]
        try:
            while not self._ended():
                for ear in ears:
                    if (master := ear.connect()) is not None and self.master is None:
                        self._connect_to(master)
                sockets = {ear.socket: ear for ear in ears if ear.socket is not None}
                if not sockets:
                    time.sleep(_PAUSE)
                    continue
                ready, _, _ = select.select(list(sockets), [], [], _PAUSE)
                for socket in ready:
                    for event, text in sockets[socket].heard():
                        self._take(event, text.split())
        finally:
            for ear in ears:
                ear.close()

    def _ended(self) -> bool:
        with self._lock:
            if self._connect() is not None and time.monotonic() - self._used < _IDLE:
                return False
            self._thread = None
            return True

    def _take(self, event: str, words: list[str]) -> None:
        """Take in an event: `jobs HOST PORT HOST PORT` of a switch, else an instance, with its service behind `@`."""
        now = time.monotonic()
        if event == "+switch-master":
            if len(words) == 5 and words[0] == self._service:
                self._promoted((words[3], int(words[4])), now + _LAGGING)
        elif self._service == _service_in(words):
            if event == "+promoted-slave":
                self._promoted((words[2], int(words[3])), now + _LONGEST_SWITCH)
            else:
                self._hold(now + _LONGEST_HOLD if event == _PROMOTING else 0.0)

    def _hold(self, until: float) -> None:
        with self._lock:
            self._held_until = until
            self._lock.notify_all()

    def _promoted(self, master: Host, until: float) -> None:
        with self._lock:
            known = self._announced == master and time.monotonic() < self._announced_until
            self._announced, self._announced_until = master, until
        if not known:
            log.info("the sentinels have made %s:%d the master of %s", *master, self._service)
        self._connect_to(master)
        self._hold(0.0)


def _service_in(words: Sequence[str]) -> str | None:
    """Return the service of an instance: `master SERVICE HOST PORT`, or `slave NAME HOST PORT @ SERVICE HOST PORT`."""
    place = 4 if "@" in words[4:5] else 0
    return words[place + 1] if len(words) > place + 3 else None


class _Ear:
    """The subscription to one sentinel, made again when it is lost."""

    def __init__(self, client: Any, service: str) -> None:
        self._client, self._service = client, service
        self._subscription: Any = None
        self._retry_at = 0.0
        self._warned = False

    @property
    def socket(self) -> sockets.socket | None:
        """The socket that receives the events; None without a connection."""
        connection = None if self._subscription is None else self._subscription.connection
        return None if connection is None else connection._sock

    def connect(self) -> Host | None:
        """Subscribe, unless it is subscribed or failed just now; return the master by this sentinel if it did."""
        if self.socket is not None or time.monotonic() < self._retry_at:
            return None
        self._retry_at = time.monotonic() + 5 * _PAUSE
        try:
            self._subscription = self._client.pubsub(ignore_subscribe_messages=True)
            self._subscription.psubscribe(*_EVENTS)
            self._warned = False
            found = self._client.sentinel_get_master_addr_by_name(self._service)
        except (RedisError, OSError) as error:
            self._lost(error)
            return None
        return None if found is None else (_text(found[0]), int(found[1]))

    def heard(self) -> list[tuple[str, str]]:
        """Return the events that have come."""
        found = []
        try:
            while self._subscription.connection.can_read(timeout=0):
                if (message := self._subscription.get_message(timeout=0)) is not None:
                    found.append((_text(message["channel"]), _text(message["data"])))
        except (RedisError, OSError) as error:
            self._lost(error)
        return found

    def _lost(self, error: Exception) -> None:
        self.close()
        if not self._warned:  # once, until it answers again
            log.warning("a sentinel announces no failovers: %s", type(error).__name__)
            self._warned = True

    def close(self) -> None:
        """End the subscription."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()


def _text(given: object) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)
