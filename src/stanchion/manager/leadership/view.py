"""One read of the store: live managers, and the owners of slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stanchion.manager.leadership.rows import SLICE, SliceRow, slice_row
from stanchion.manager.leadership.slices import Slice, slices_of
from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.sessions import SESSION, SessionRow, session_row


class View(NamedTuple):
    """Result of a read; slices by the names of their values."""

    slices: Mapping[str, Slice]
    """All there ought to be."""
    rows: Mapping[str, SliceRow]
    sessions: Mapping[str, SessionRow]
    """Those alive."""
    burned: int
    """Dead sessions that this look has deleted."""
    now: int
    """The store's time."""


class Looker:
    """Reads the store, in a thread, and deletes dead sessions."""

    def __init__(
        self, store: Store, queues: Callable[[], Mapping[str, int]], lease: float, clock: Callable[[], float]
    ) -> None:
        """`queues`: returns the number of lanes of each queue. `lease`: in seconds."""
        self._store, self._queues = store, queues
        self._lease, self._clock = lease, clock
        self._seen: dict[str, tuple[int, float]] = {}
        """The last version seen of each session, and own clock when it was seen first."""

    def look(self, me: str) -> View:
        """Read all, and delete the dead sessions but `me`.

        The slices are read before the sessions: so an owner without a session has had one, and is dead. The clock is
        read after them: set back in between, it makes no session look dead.
        """
        slices = {one.name: one for queue, lanes in self._queues().items() for one in slices_of(queue, lanes)}
        rows = {value.name: slice_row(value) for value in self._store.values(SLICE)}
        asked_at = self._clock()
        sessions = {value.name: session_row(value) for value in self._store.values(SESSION)}
        now = self._store.now()
        dead = [one for one in sessions.values() if one.id != me and self._is_dead(one, now, asked_at)]
        self._remember(sessions)
        burned = 0
        for one in dead:
            if self._burn(one):
                burned += 1
                del sessions[one.id]
        return View(slices, rows, sessions, burned, now)

    def _is_dead(self, session: SessionRow, now: int, asked_at: float) -> bool:
        """Return True if its time is over, or if it was not renewed for a lease by the own clock.

        The second bounds the harm of a store's clock that was set back.
        """
        version, seen_at = self._seen.get(session.id, (0, 0.0))
        return session.until <= now or (version == session.version and asked_at - seen_at >= self._lease)

    def _remember(self, sessions: Mapping[str, SessionRow]) -> None:
        seen_at = self._clock()
        before = self._seen
        self._seen = {one.id: (one.version, seen_at) for one in sessions.values()}
        self._seen.update((id_, seen) for id_, seen in before.items() if self._seen.get(id_, (0,))[0] == seen[0])

    def _burn(self, session: SessionRow) -> bool:
        """Delete a session unless it has just been renewed; return True if it is gone.

        Else its owner could renew it later, and own its slices concurrently with their next owner.
        """
        if self._store.compare_and_set(SESSION, session.id, None, session.version):
            return True
        return not self._store.values(SESSION, [session.id])
