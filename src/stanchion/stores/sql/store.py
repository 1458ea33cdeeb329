"""The SQL store: its parts put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from stanchion.stores.protocol import Listener
from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.sql.adopt import Transferring
from stanchion.stores.sql.discarding import Discarding
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.setup import Setup
from stanchion.stores.sql.query import Queries
from stanchion.stores.sql.semaphores import Semaphores
from stanchion.stores.sql.staging import Staging
from stanchion.stores.sql.stats import Stats


class SqlStore(Staging, Transferring, Discarding):
    """Jobs in an SQL database."""

    stats_of: type[Stats] = Stats

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._semaphores = Semaphores(database, self.transactions, self.slots)
        self.capabilities = database.dialect.capabilities
        self._queries = Queries(database, self.jobs)
        self._stats = self.stats_of(database)
        self._schema = Setup(database)

    @property
    def clock_offset(self) -> float:
        """Seconds added to the database's clock, for tests."""
        return self.database.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.database.clock_offset = seconds

    def setup(self, *, dry_run: bool = False) -> list[str]:
        return self._schema.setup(dry_run=dry_run)

    def check(self) -> None:
        self._schema.check()

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        return self._values.compare_and_set(kind, name, text, version)

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        return self._queries.fetch(ids)

    def select(self, query: Query) -> Page:
        return self._queries.select(query)

    def partition(self, query: Query, parts: int) -> list[Query]:
        return self._queries.partition(query, parts)

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

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        return self.pushes.push(jobs, tx)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        return self.outcomes.settle(outcomes, tx, repeat=repeat)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        return self.flows.change_flows(changes, tx)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        return self.flows.flow_nodes(root)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        return self.flows.flow_ends(node, after, limit)

    def transaction(self) -> AbstractContextManager[Any]:
        return self.database.transaction()

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self.dialect.listen(queues, finished, interchangeable=interchangeable)

    def close(self) -> None:
        self.dialect.close()
        self.database.close()
