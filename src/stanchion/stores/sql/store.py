"""The SQL store: its parts put together, and the life of its schema."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import String, create_mock_engine, insert, inspect, literal_column, select, update
from sqlalchemy.engine import Connection

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.protocol import Listener
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.sql.adopt import Transferring
from stanchion.stores.sql.arrow import Arrow
from stanchion.stores.sql.discarding import Discarding
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.schema import MIGRATIONS, VERSION, meta, metadata
from stanchion.stores.sql.engine.script import steps_as_text
from stanchion.stores.sql.query import Looking
from stanchion.stores.sql.semaphores import Semaphores
from stanchion.stores.sql.staging import Staging
from stanchion.stores.sql.stats import Stats
from stanchion.stores.sql.sweep import Sweeping


class SqlStore(Staging, Looking, Transferring, Arrow, Discarding, Sweeping):
    """Jobs in an SQL database."""

    stats_of: type[Stats] = Stats

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._semaphores = Semaphores(database, self.transactions, self.slots)
        self.capabilities = database.dialect.capabilities
        self._stats = self.stats_of(database)
        self._setting_up = threading.Lock()

    @property
    def skew(self) -> float:
        """Seconds added to the database's clock, for tests."""
        return self.database.skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self.database.skew = seconds

    def setup(self) -> None:
        with (
            self._setting_up,
            self.database.transaction() as connection,
            self.dialect.lock_schema(connection),
        ):
            found = _version(connection)
            if found is not None and found > VERSION:
                raise SchemaMismatch(_newer(found))
            for migrate in MIGRATIONS[found or 0 :]:
                migrate(connection)
            if found is None:
                connection.execute(insert(meta).values(version=VERSION))
            elif found < VERSION:
                connection.execute(update(meta).values(version=VERSION))
            made = literal_column(self.dialect.new_identity, String)
            connection.execute(update(meta).where(meta.c.identity.is_(None)).values(identity=made))

    def setup_script(self) -> str:
        found = self._found()
        if found is None:
            return self._whole_script()
        if found > VERSION:
            raise SchemaMismatch(_newer(found))
        with self.database.connection() as connection:
            lines = steps_as_text(connection, MIGRATIONS[found:])
        if found < VERSION:
            lines.append(f"UPDATE {meta.name} SET version = {VERSION}, identity = {self.dialect.new_identity}")
        return _script(lines)

    def _found(self) -> int | None:
        """Return the version of the schema; None when there is none, or no database to ask."""
        if not self.dialect.is_there():
            return None
        try:
            with self.database.connection() as connection:
                return _version(connection)
        except StoreUnavailable:
            return None

    def _whole_script(self) -> str:
        lines: list[str] = []
        dialect = self.database.engine.dialect
        engine = create_mock_engine(
            self.database.url,
            lambda statement, *_args, **_options: lines.append(str(statement.compile(dialect=dialect))),
        )
        metadata.create_all(engine, checkfirst=False)
        lines.append(f"INSERT INTO {meta.name} (version, identity) VALUES ({VERSION}, {self.dialect.new_identity})")
        return _script(lines)

    def check(self) -> None:
        with self.database.connection() as connection:
            found = _version(connection)
        if found == VERSION:
            return
        if found is None and self.dialect.makes_schema:
            self.setup()
        elif found is None:
            raise SchemaMismatch("the database has no Stanchion tables; make them with: stanchion setup --url ...")
        elif found > VERSION:
            raise SchemaMismatch(_newer(found))
        elif self.dialect.makes_schema:
            self.setup()
        else:
            raise SchemaMismatch(
                f"the tables are of version {found}, older than this release's {VERSION}; "
                f"bring them up to date with: stanchion setup --url ..."
            )

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        return self._values.compare_and_set(kind, name, text, version)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        return self._stats.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._stats.lane_depths(queue, lanes, at_most)

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        return self._queues.configure(queue, changes, tx)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        return self._queues.queues(names)

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        return self._workers.beat(workers)

    def leave(self, worker: str) -> None:
        self._workers.leave(worker)

    def workers(self) -> list[WorkerRow]:
        return self._workers.workers()

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        return self._semaphores.set_semaphore(name, capacity, declared=declared, tx=tx)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        return self._semaphores.semaphores(names)

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        return self._semaphores.permits(name)

    def transaction(self) -> AbstractContextManager[Any]:
        return self.database.transaction()

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self.dialect.listen(queues, finished, interchangeable=interchangeable)

    def close(self) -> None:
        self.dialect.close()
        self.database.close()


def _version(connection: Connection) -> int | None:
    """Return the version of the schema; None when there is none."""
    if not inspect(connection).has_table(meta.name):
        return None
    found: int | None = connection.execute(select(meta.c.version)).scalar()
    return found


def _script(statements: Iterable[str]) -> str:
    return "".join(f"{statement.strip()};\n" for statement in statements)


def _newer(found: int) -> str:
    return (
        f"the tables are of version {found}, newer than this release's {VERSION}; "
        f"upgrade this process: pip install -U stanchion"
    )
