"""Polls for due jobs that the processes of a SQLite file share.

Every commit changes the counter by which processes notice a push, and so does every heartbeat. If each process claimed
then, an idle fleet would cost the square of its size. So the process that notices a change first reads when the next
job of its queues is due, and publishes the answer in a file next to the store's:

    change ──► another has begun to look since my last reading of the counter?
                 no ──► look, and publish the answer
                 yes ─┬─ its answer concerns my claimers ──► wake them
                      ├─ it has read the counter after me, and found no change ──► its answer holds: let them sleep
                      └─ neither within GRACE_SECONDS ──► look

So each change is followed by a poll that begins later, or by a poll and an unchanged counter. A process that dies or
hangs delays others by about GRACE_SECONDS, once. Without that file (as in a read-only folder) each process polls
separately.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.sqlite.processes.file_locks import locked, opened, unlock

GRACE_SECONDS = 0.02
"""Mean seconds that a process waits for the answer of another one."""

PATIENCE_SECONDS = 0.1
"""Maximum seconds, if meanwhile others begin to look in place of the first."""

IGNORED_SECONDS = 30.0
"""Seconds after which no process waits any more for one that hangs as it begins to poll."""

PUBLISHED_SECONDS = 0.05
"""Seconds after a poll for which its process publishes that nothing changed: others notice within that time."""

QUICK_SECONDS = 0.01
"""Seconds of work in a poll, beyond which a process pauses as long before the next one."""

NEVER = 2**63 - 1
"""When the next job is due if none is queued."""

_LAYOUT, _SUM = struct.Struct("<16s8sddq"), struct.Struct("<I")
_ENTRY, _ENTRIES = 64, 64


class Look(NamedTuple):
    """A poll of a process. Times are of the monotonic clock, which all processes share.

    `until`: the answer holds for all commits until then, 0 while there is none; `due`: the answer, in microseconds.
    """

    owner: bytes
    began: float
    until: float
    due: int


class Board:
    """The file where processes publish their last polls, one entry per set of queues. One thread uses it."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-looks"
        self._file: int | None = None
        self.me = os.urandom(8)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self, key: bytes) -> Look | None:
        """Return the last poll for this key; None if there is none, or it is being written."""
        entry = b""
        if self._open():
            with suppress(OSError):
                entry = os.pread(self._file or 0, _LAYOUT.size + _SUM.size, self._at(key))
        record, check = entry[: _LAYOUT.size], entry[_LAYOUT.size :]
        if len(check) < _SUM.size or _SUM.unpack(check) != (crc32(record),):
            return None
        found, *look = _LAYOUT.unpack(record)
        return Look(*look) if found == key else None

    def write(self, key: bytes, look: Look) -> None:
        """Publish a look."""
        if self._open():
            record = _LAYOUT.pack(key, *look)
            with suppress(OSError):
                os.pwrite(self._file or 0, record + _SUM.pack(crc32(record)), self._at(key))

    def begin(self, key: bytes, look: Look, known: Look | None) -> bool:
        """Publish the start of a poll; return False if another process polls, or has polled since the `known` poll."""
        if not self._open():
            return True
        assert self._file is not None  # noqa: S101 - it is open
        if not locked(self._file):
            return False
        try:
            free = self.read(key) == known
            if free:
                self.write(key, look)
        finally:
            unlock(self._file)
        return free

    def _at(self, key: bytes) -> int:
        return key[0] % _ENTRIES * _ENTRY

    def _open(self) -> bool:
        if self._file is None:
            self._file = opened(self._path)
        return self._file is not None


class SharedLooks:
    """Decides for one process whether a change concerns its waiting claimers. One thread uses it.

    `first_due`: the query for when the next job of some queues is due.
    """

    def __init__(self, board: Board, first_due: str, store: object) -> None:
        """`store`: distinguishes the file from an earlier one at the same path."""
        self._board, self._first_due, self._store = board, first_due, store
        self._asked, self._key = "", b""
        self._known: int | None = None
        """When the next job was due at the last answer: the claimers know it."""
        self._noticed: float | None = None
        """The last change without an answer yet."""
        self._previous = self._decide_at = self._give_up_at = self._publish_until = self._look_at = 0.0
        self._alone_until = 0.0

    def changed(self, queues: Collection[str], connection: sqlite3.Connection, previous: float, noticed: float) -> bool:
        """Take in a change that the counter showed at `noticed`, but not at `previous`; see `concerned`.

        `queues`: the queues of the waiting claimers; none: all claimers know already that something has changed.
        """
        self._publish_until = 0.0
        if not queues:
            self._noticed = None
            return False
        asked = json.dumps(sorted(queues), ensure_ascii=False)
        if asked != self._asked:
            self._asked, self._known = asked, None
            self._key = blake2b(f"{self._store}{asked}".encode(), digest_size=16).digest()
        if self._noticed is None:
            # Not all of them: the first one polls, and the others use its answer.
            self._decide_at = noticed + GRACE_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - spreading load
            self._previous, self._give_up_at = previous, noticed + PATIENCE_SECONDS
        self._noticed = noticed
        return self.concerned(connection)

    def unchanged(self, read_at: float) -> None:
        """Publish that the counter, read after this time, has not changed since the last look of this process."""
        if read_at < self._publish_until and self._noticed is None:
            last = self._board.read(self._key)
            if last is not None and last.owner == self._board.me:
                self._board.write(self._key, last._replace(until=read_at))

    def concerned(self, connection: sqlite3.Connection) -> bool:
        """Return whether the changes so far concern waiting claimers; False also if there is no answer yet."""
        if self._noticed is None:
            return False
        other, now = self._board.read(self._key), time.monotonic()
        if other is not None and other.owner != self._board.me and self._previous < other.began <= now:
            if other.until >= self._noticed or (other.until and self._concerns(other.due)):
                return self._answered(other.due)
            if now < max(self._decide_at, min(other.began + GRACE_SECONDS, self._give_up_at)):
                return False
        if now < self._look_at:
            self._noticed = None
            return True
        mine = Look(self._board.me, now, 0.0, NEVER)
        if now >= self._alone_until and not self._board.begin(self._key, mine, other):
            if now < self._give_up_at:
                return False
            self._alone_until = now + IGNORED_SECONDS  # the other process hangs as it begins
        return self._look(connection)

    def _look(self, connection: sqlite3.Connection) -> bool:
        began, self._noticed = time.monotonic(), None
        spent = time.thread_time()
        ((found,),) = connection.execute(self._first_due, {"queues": self._asked}).fetchall()
        due = int(found) if isinstance(found, (int, float)) else NEVER  # another program may store texts
        self._board.write(self._key, Look(self._board.me, began, began, due))
        ended = time.monotonic()
        # Where looks need much time, as with very many lanes, changes soon after one wake claimers without another.
        self._look_at = ended + max(0.0, time.thread_time() - spent - QUICK_SECONDS)
        self._publish_until = ended + PUBLISHED_SECONDS
        return self._answered(due)

    def _answered(self, due: int) -> bool:
        concerned = self._concerns(due)
        self._noticed, self._known = None, due
        return concerned

    def _concerns(self, due: int) -> bool:
        """Return whether a claimer can do something now, or should know of a time. SQLite's clock is the machine's."""
        return due <= time.time() * SECOND or due not in (NEVER, self._known)
