"""The session of this manager: a value that it renews by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.sessions import SESSION, session_text

_TRIES = 3


class Renewal(NamedTuple):
    """A renewal that is stored. `at`: own clock before it began; `until`: the store's time until which it lasts."""

    at: float
    until: int


class Session:
    """A session from its first renewal until another manager deletes it. Its methods call the store, in a thread.

    Only its own manager writes its value, and others only delete it. So while it is there, it lives.
    """

    def __init__(self, store: Store, address: str, lease: int, clock: Callable[[], float]) -> None:
        """`lease`: in microseconds."""
        self.id = uuid4().hex
        self._store, self._address, self._lease, self._clock = store, address, lease, clock
        self._version = 0

    def renew(self) -> Renewal | None:
        """Make it last for a lease from now; None: it is lost. Raises StoreUnavailable if it is unknown."""
        failure: StanchionError | None = None
        for _ in range(_TRIES):
            at = self._clock()
            until = self._store.now() + self._lease  # read again for each try, as the clock may have been set back
            text, failure = session_text(until, self._address), None
            try:
                written = self._store.compare_and_set(SESSION, self.id, text, self._version)
            except StoreUnavailable as error:
                written, failure = False, error
            if written:
                self._version += 1
                return Renewal(at, until)
            stored = next(iter(self._store.values(SESSION, [self.id])), None)
            # One of a lower version is a first write that came late, after others had deleted the session.
            if stored is None or stored.version < self._version:
                return None
            landed, self._version = stored.version > self._version, stored.version
            if landed and stored.text == text:
                return Renewal(at, until)
        raise failure or StoreUnavailable(f"the session of this manager can't be renewed: {_TRIES} tries were refused")

    def end(self) -> None:
        """Delete it, so that others take its slices immediately."""
        for _ in range(_TRIES):
            stored = next(iter(self._store.values(SESSION, [self.id])), None)
            if stored is None or self._store.compare_and_set(SESSION, self.id, None, stored.version):
                return
