"""The values that leadership keeps in a store, and what is read and written of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.scale.events import Events
from stanchion.manager.leadership.rows import SliceRow
from stanchion.manager.leadership.slices import Slice, slices_of
from stanchion.manager.leadership.view import View
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.sessions import SessionRow


class Written(NamedTuple):
    """A compare-and-set that was carried out."""

    at: float
    kind: str
    name: str
    owner: str | None


class Values:
    """Sessions and slices. Queues do not come or go, and clocks run alike."""

    def __init__(self, events: Events, queues: Mapping[str, int]) -> None:
        """`queues`: the number of lanes of each."""
        self._events = events
        self.queues = len(queues)
        self.slices: dict[str, Slice] = {
            one.name: one for name, lanes in queues.items() for one in slices_of(name, lanes)
        }
        self.sessions: dict[str, SessionRow] = {}
        self.rows: dict[str, SliceRow] = {}
        self.changes = 0
        """Counts all changes but renewals."""
        self.reads = self.writes = self.rows_read = 0
        self.written: list[Written] = []
        """All writes but renewals."""
        self._shown: Mapping[str, SliceRow] = {}
        self._shown_at = -1

    @property
    def now(self) -> int:
        """The store's time, in microseconds."""
        return round(self._events.now * SECOND)

    def renew(self, session: str, lease: float) -> None:
        """Begin a session or make it last."""
        self.reads += 1
        self.writes += 1
        stored = self.sessions.get(session)
        if stored is None:
            self._note("session", session, session)
        version = stored.version + 1 if stored else 1
        self.sessions[session] = SessionRow(session, version, self.now + round(lease * SECOND), session)

    def look(self, me: str) -> tuple[View, int]:
        """Return what a manager sees after it has deleted dead sessions, and the calls that took."""
        self.reads += 4
        self.rows_read += self.queues + len(self.rows) + len(self.sessions)
        dead = [one.id for one in self.sessions.values() if one.id != me and one.until <= self.now]
        for session in dead:
            self.end(session)
        if self._shown_at != self.changes:
            self._shown, self._shown_at = dict(sorted(self.rows.items())), self.changes
        return View(self.slices, self._shown, dict(self.sessions), len(dead), self.now), 4 + len(dead)

    def end(self, session: str) -> None:
        """Delete a session."""
        self.writes += 1
        del self.sessions[session]
        self._note("session", session, None)

    def set(self, row: SliceRow) -> SliceRow | None:
        """Write a slice by compare-and-set; None: refused."""
        self.writes += 1
        stored = self.rows.get(row.name)
        if (stored.version if stored else 0) != row.version:
            return None
        written = row._replace(version=row.version + 1)
        self.rows[row.name] = written
        self._note("slice", row.name, row.owner)
        return written

    def _note(self, kind: str, name: str, owner: str | None) -> None:
        self.changes += 1
        self.written.append(Written(self._events.now, kind, name, owner))
