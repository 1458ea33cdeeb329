"""A store whose process is killed at a chosen call, or between two messages to the server."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any, cast

from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay

MESSAGE = "before message "


class Doomed:
    """Passes every call on; kills its own process around the n-th call of one verb that has work to do.

    `fate` is such as "before settle 3" or "after claim 1": after, the store has done what the caller never
    hears of.
    """

    def __init__(self, store: Store, fate: str) -> None:
        self._store = store
        self._moment, self._verb, number = fate.split()
        self._left = int(number)

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        return self._store.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._store.lost_lease_delay = delay

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._fatal(verb) if name == self._verb else verb

    def _fatal(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self._moment == "before":
                self._strike()
            answer = verb(*args, **options)
            if self._moment == "after" and getattr(answer, "rows", True):
                self._strike()
            return answer

        return call

    def _strike(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def die_before_message(number: int) -> None:
    """Kill this process as it is about to send its n-th message, as the drivers written in Python do."""
    send = socket.socket.sendall
    left = iter(range(number - 1))

    def sendall(self: socket.socket, data: Any, flags: int = 0) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, data, flags)

    socket.socket.sendall = sendall  # type: ignore[method-assign,assignment]


def doomed(store: Store, fate: str | None) -> Store:
    """Return the store under this fate, which may also be such as "before message 57"; as it is without one."""
    if fate and fate.startswith(MESSAGE):
        die_before_message(int(fate.removeprefix(MESSAGE)))
        return store
    return cast(Store, Doomed(store, fate)) if fate else store
