"""The audit log: operator actions on the page, its API and the shell, kept in the store.

The log is a row of versioned values, its chunks, numbered from 0. Only the last one changes, and entries are only
added to it; a full one is followed by the next. `head` names the first and the last chunk. An entry is stored before
its action runs, so no action goes unrecorded; a second entry records a later refusal.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "web-audit"

KEPT: Final = 90 * 86_400 * SECOND
"""Retention of an entry in microseconds."""

CHUNK: Final = 50
"""Entries of a full chunk."""

WALKED: Final = 1000
"""Entries that are read together where all are walked through."""

_HEAD: Final = "head"
_TEXT_MAX: Final = 300


class Entry(NamedTuple):
    """One act. `at`: by the store's clock. `subject`: a queue, a job, or the filter of bulk work."""

    at: int
    who: str
    act: str
    subject: str
    number: int = 1
    note: str = ""
    address: str = ""
    id: str = ""


class Wanted(NamedTuple):
    """Which entries: of who did something, of an act, from a time on and before one; empty: all."""

    who: str = ""
    act: str = ""
    since: int = 0
    until: int = 0

    def fits(self, entry: Entry) -> bool:
        """Return whether an entry is wanted. An act is wanted by its first words, too: `set` for `set max_rate`."""
        act = not self.act or entry.act == self.act or entry.act.startswith((f"{self.act} ", f"{self.act}:"))
        time = entry.at >= self.since and (not self.until or entry.at < self.until)
        return act and time and self.who in ("", entry.who)


class AuditLog:
    """The log of one store, which is asked for at each use."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def add(self, entry: Entry) -> None:
        """Append an entry. If it raises StoreUnavailable, the recorded action must not run."""
        store = self._store()
        entry = entry._replace(id=secrets.token_hex(4), subject=entry.subject[:_TEXT_MAX], note=entry.note[:_TEXT_MAX])
        while True:
            first, last, version = self._bounds(store)
            entries, chunk_version = self._chunk(store, last)
            if len(entries) >= CHUNK:
                store.compare_and_set(KIND, _HEAD, _dumps([first, last + 1]), version)
                continue
            kept = [one for one in entries if one.at > entry.at - KEPT]
            if store.compare_and_set(KIND, _name(last), _dumps([*kept, entry]), chunk_version):
                break
        if not entries:  # once for each chunk
            self._purge(store, entry.at)

    def newest(self, limit: int, before: int | None = None) -> tuple[list[Entry], int | None]:
        """Return up to about `limit` entries, newest first, and the chunk where older ones begin; None: there are none.

        `before`: the chunk that an earlier call returned.
        """
        found, older = self.numbered(limit, before)
        return [entry for _, entry in found], older

    def numbered(self, limit: int, before: int | None = None) -> tuple[list[tuple[int, Entry]], int | None]:
        """Return the same, each entry with the number of its chunk."""
        store = self._store()
        first, last, _ = self._bounds(store)
        top = last if before is None else min(before, last)
        numbers = range(top, max(first, top - limit // CHUNK) - 1, -1)
        chunks = {value.name: value.text for value in store.values(KIND, [_name(number) for number in numbers])}
        found = [(number, one) for number in numbers for one in reversed(_entries(chunks.get(_name(number))))]
        return found, numbers[-1] - 1 if numbers and numbers[-1] > first else None

    def walk(self, now: int, wanted: Wanted) -> Iterator[Entry]:
        """Yield all entries that are kept, newest first, reading some at a time."""
        oldest = max(now - KEPT + 1, wanted.since)
        before: int | None = None
        while True:
            found, before = self.numbered(WALKED, before)
            for _, entry in found:
                if entry.at >= oldest and wanted.fits(entry):
                    yield entry
            if before is None or (found and found[-1][1].at < oldest):
                return

    def _purge(self, store: Store, now: int) -> None:
        """Delete the chunks whose last entry is too old."""
        first, last, version = self._bounds(store)
        gone = first
        while gone < last:
            entries, chunk_version = self._chunk(store, gone)
            if entries and entries[-1].at > now - KEPT:
                break
            store.compare_and_set(KIND, _name(gone), None, chunk_version)
            gone += 1
        if gone > first:
            store.compare_and_set(KIND, _HEAD, _dumps([gone, last]), version)

    def _bounds(self, store: Store) -> tuple[int, int, int]:
        """Return the first and the last chunk, and the version of the head."""
        for value in store.values(KIND, [_HEAD]):
            first, last = json.loads(value.text)
            return int(first), int(last), value.version
        return 0, 0, 0

    def _chunk(self, store: Store, number: int) -> tuple[list[Entry], int]:
        for value in store.values(KIND, [_name(number)]):
            return _entries(value.text), value.version
        return [], 0


def _entries(text: str | None) -> list[Entry]:
    return [] if text is None else list(_read(json.loads(text)))


def _read(rows: list[Any]) -> Iterator[Entry]:
    for row in rows:
        yield Entry(*row)


def _name(number: int) -> str:
    return f"{number:08d}"


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
