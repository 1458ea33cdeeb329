"""The optional ports of a store: `store.extension(Transactions)` returns the store as such a port, or None."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.stores.protocol import Port, Store
    from stanchion.stores.records.capabilities import Capabilities
    from stanchion.stores.records.jobs import Lease, NewJob
    from stanchion.stores.records.managers import ManagerStatus
    from stanchion.stores.records.outcomes import ResultTable
    from stanchion.stores.records.prepared import PlainColumns, Prepared
    from stanchion.stores.records.query import Query
    from stanchion.stores.records.staging import Publication
    from stanchion.stores.rules.shard_map import ShardMap


class Transactions(Protocol):
    """Optional port of a store whose capabilities say `joins_transactions`."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of this store, to be passed as `tx`; CannotJoin if the server does not support any."""


class ResultTables(Protocol):
    """Optional port of a store that writes results of jobs to tables beside its own; see `Commit.rows`."""

    def make_table(self, table: ResultTable) -> None:
        """Create a table unless it is there. Raises InvalidInput if it can't take the rows, with the change to make."""

    def table_rows(self, table: ResultTable) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a table in batches, each with the values of these columns as the database has them.

        Optional columns that the table lacks are null.
        """


class BehindManagers(Protocol):
    """Optional port of a store that managers serve."""

    def manager_status(self) -> list[ManagerStatus]:
        """Return the figures of all managers alive, by address. Raises StoreUnavailable if none answers."""

    def on_stop(self, worker: str, told: Callable[[], None]) -> None:
        """Call `told`, from any thread, once a job of a worker should stop, until it leaves; a heartbeat says which."""

    def spread(self, physical: Callable[[str], Iterable[str]]) -> None:
        """Feed workers by streams from all their physical queues; `physical` returns the ones of one queue."""

    def feeds(self, worker_id: str, queues: Iterable[str]) -> bool:
        """Return True if streams bring the jobs of all these queues to a worker: claims of it make no call."""

    def holds(self, lease: Lease) -> bool:
        """Return False for a job of a stream that managers may have given to others; it may wait for their answer."""


class OverShards(Protocol):
    """Optional port of a store of several shards, by which partitions change their shard."""

    def shard_map(self) -> ShardMap:
        """Read the map on record, and return it."""

    def change_shard_map(self, change: Callable[[ShardMap], ShardMap]) -> ShardMap:
        """Change the map on record by compare-and-set; return it as it is afterwards. `change` may be called again."""

    def shards(self) -> list[str]:
        """Return the names of the shards that this process knows, the default shard first."""

    def shard(self, name: str) -> Store:
        """Return the store of one shard, whose errors name it."""


class ArrowReads(Protocol):
    """Optional port of a store whose capabilities say `arrow`."""

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Yield all pages of a query, from one snapshot, as pyarrow record batches with its columns.

        State and priority are as callers see them; times are microseconds, numbers of any width. A column that these
        jobs do not have is null. Limit and order are ignored, but jobs of a token are sorted by id.
        """


class SelectText(Protocol):
    """Optional port of a store that other clients of its database can read: PostgreSQL's."""

    def select_text(self, query: Query) -> str | None:
        """Return the statement that `select_arrow` runs, with constants in it; None if no job can meet the query."""


class PreparedJobs(Protocol):
    """Optional port of a store whose capabilities say `prepared_jobs`.

    Preparing is the costly part of storing plain jobs, and needs no database: it is done at their origin, a batch at a
    time. They are then staged or published unchanged, without processing them singly. The rest of a publication
    is as with `publish`.
    """

    def prepare(self, columns: PlainColumns) -> list[Prepared] | None:
        """Return jobs in the form in which the store keeps them; None if it takes jobs of this queue only one by one.

        Their ids must be new. Each part has about a megabyte, unless a single job has more.
        """

    def stage_prepared(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        """Store prepared jobs under a write and an attempt, as `stage` does."""

    def publish_prepared(self, publication: Publication, prepared: Sequence[Prepared]) -> bool:
        """Publish as `publish` does, and store these jobs, which were not staged, in the same step."""


class Partitions(Protocol):
    """Optional port of a store that knows its partitioned queues."""

    def placed(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return new jobs with their physical queues, as `push` stores them."""

    def partitioned(self) -> Collection[str]:
        """Return the names of the partitioned queues."""

    def partitions_of(self, queue: str) -> tuple[str, ...]:
        """Return the physical queues of a partitioned queue, itself first; none for another queue."""

    def read_layouts(self) -> None:
        """Read the layouts of the queues, which other processes may have changed."""


class FollowsTransactions(Protocol):
    """Optional port of a store that stands for a database in a test, and follows the caller's transactions."""

    @property
    def uncommitted(self) -> int:
        """The number of calls that wait for the commit of their transaction."""


_ABILITIES: Final[Mapping[type, str]] = {
    Transactions: "joins_transactions",
    ArrowReads: "arrow",
    PreparedJobs: "prepared_jobs",
}
"""The capability that says whether a store has a port."""


def as_port(store: object, port: type[Port]) -> Port:  # noqa: ARG001 - it gives the type
    """Return a store as an optional port that it has."""
    return store  # type: ignore[return-value]  # what has a port is known by its capabilities, not by its type


class Extensible:
    """A store with the optional ports that its capabilities name. Stores with others override `extension`."""

    capabilities: Capabilities

    def extension(self, port: type[Port]) -> Port | None:
        """Return the store as an optional port, or None."""
        ability = _ABILITIES.get(port)
        return as_port(self, port) if ability is not None and getattr(self.capabilities, ability) else None
