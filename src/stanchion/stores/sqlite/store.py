"""The SQLite store: a file with one writer at a time.

A program that only pushes needs a small part of the store: SQLAlchemy and the general way are loaded by the first call
that needs them.

    push of plain jobs ──► `PlainPushes` ──── busy, or an error ────► general way
    any other push ─────────────────────────────────────────────────► general way
    check, queues, values, now, until it is loaded ──► `FirstReads` ► general way
    any other verb ─────────────────────────────────────────────────► general way
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stanchion.errors import InvalidInput
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.sql.engine.turns import WriteLock
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sqlite.capabilities import CAPABILITIES
from stanchion.stores.sqlite.connections import OwnConnection
from stanchion.stores.sqlite.first_reads import FirstReads
from stanchion.stores.sqlite.plain import PlainPushes
from stanchion.stores.sqlite.processes.file import StoreFile
from stanchion.stores.sqlite.processes.writers import WriterQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.stores.records.claims import Claim
    from stanchion.stores.records.jobs import NewJob, Pushed
    from stanchion.stores.records.query import Query
    from stanchion.stores.records.queues import QueueSettings
    from stanchion.stores.records.values import VersionedValue
    from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay

_SYNCHRONOUS: Final = ("full", "normal", "off", "extra")
_USUAL: Final = re.compile(rf"sqlite:///([^?%]+)(?:\?synchronous=({'|'.join(_SYNCHRONOUS)}))?")


class SqliteStore(SqlStore):
    """Jobs in a file. `synchronous`: when a commit waits for the disk, in SQLite's words."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._path, self._synchronous = path, synchronous
        self._file = StoreFile(path, VERSION)
        self._writers, self._write_lock = WriterQueue(self._file.path), WriteLock()
        self._own = OwnConnection(self._file, synchronous)
        self._plain, self._reads = PlainPushes(self._own, self._writers, self._write_lock), FirstReads(self._own)
        self._delay: LostLeaseDelay | None = None
        self._loaded = False
        self.capabilities = CAPABILITIES
        self.push = self._push
        self.check, self.queues, self.values, self.now = self._check, self._queues, self._values, self._now

    # -- the first calls

    def _push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        if tx is None and claim is None and not repeat:
            try:
                pushed = self._plain.push(jobs, self.clock_offset if self._loaded else 0.0)
            except sqlite3.Error:
                repeat = True
            else:
                if pushed is not None:
                    if self._loaded:
                        self.dialect.announce({job.queue for job in jobs})
                    return pushed
        return self._general_push(jobs, tx, claim, repeat=repeat)

    def _check(self) -> None:
        if not self._reads.has_schema():
            self._load()
            self.check()

    def _queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        wanted = None if names is None else set(names)
        if wanted is not None and not self._loaded and (found := self._reads.queues(wanted)) is not None:
            return found
        self._load()
        return self.queues(wanted)

    def _values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        wanted = None if names is None else set(names)
        if not self._loaded and (found := self._reads.values(kind, wanted)) is not None:
            return found
        self._load()
        return self.values(kind, wanted)

    def _now(self) -> int:
        if not self._loaded and (found := self._reads.now()) is not None:
            return found
        self._load()
        return self.now()

    # -- the general way

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return an attribute of the general way, which the first use of one loads."""
            if not name.startswith("__"):
                self._load()
                if name in self.__dict__:
                    return self.__dict__[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _load(self) -> None:
        with self._file.gate.lock:
            if self._loaded:
                return
            from stanchion.stores.sql.engine.setup import Setup
            from stanchion.stores.sqlite.dialect import SqliteDialect
            from stanchion.stores.sqlite.general import general
            from stanchion.stores.sqlite.misfits import burying_first

            dialect = SqliteDialect(self._file, self._synchronous, self._writers, self._write_lock)
            parts = general(self._path, dialect)
            super().__init__(parts, Setup(parts.db, before=self._file.accept))
            self.push = self._push
            self.maintain = burying_first(parts.misfits, self.maintain)
            self._arrow = parts.arrow
            if self._delay is not None:
                parts.recovery.lost_lease_delay = self._delay
            self._file.when_replaced(self._forget)
            self._file.gate.closes(dialect.watch.close_idle)
            self._loaded = True

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """The delay of a job after its second lost lease, and each further one."""
        return self._parts.recovery.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._delay = delay
        if self._loaded:
            self._parts.recovery.lost_lease_delay = delay

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        return self._arrow.select_arrow(query)

    def close(self) -> None:
        self._own.close()
        if self._loaded:
            super().close()

    def _forget(self) -> None:
        """Forget all that was cached of the former file."""
        self._parts.queues.forget_known()
        self.database.identity = None


def open_store(url: str) -> SqliteStore:
    """Return the store in a file: `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    usual = _USUAL.fullmatch(url)
    path, synchronous = (usual[1], usual[2] or _SYNCHRONOUS[0]) if usual else _parsed(url)
    if path == ":memory:":
        raise InvalidInput(
            "a SQLite queue needs a file, such as sqlite:///jobs.db; for a queue in memory use memory://"
        )
    return SqliteStore(str(Path(path).expanduser()), synchronous)


def _parsed(url: str) -> tuple[str, str]:
    """Return the path and the option in a URL of another form."""
    from stanchion.stores.sql.engine import address

    parsed = address.parsed(url)
    options = dict(parsed.query)
    synchronous = str(options.pop("synchronous", _SYNCHRONOUS[0])).lower()
    if synchronous not in _SYNCHRONOUS:
        raise InvalidInput(f"synchronous must be one of {', '.join(_SYNCHRONOUS)}, not {synchronous!r}")
    if options:
        raise InvalidInput(f"unknown option {sorted(options)[0]!r} in the URL; there is synchronous")
    if parsed.database and parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidInput(f"use sqlite:///..., not {parsed.drivername}:///...; the async API needs no other driver")
    return parsed.database or ":memory:", synchronous
