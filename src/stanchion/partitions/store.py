"""A store with partitioned queues: to its callers one queue each, in the database several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from stanchion.core.names.partition_names import logical_name, refuse_partition
from stanchion.errors import DuplicateKey
from stanchion.partitions.claims import PartitionClaims
from stanchion.partitions.layouts import Layouts
from stanchion.partitions.placing import Placing
from stanchion.partitions.reading import Reading
from stanchion.partitions.settings import PartitionSettings
from stanchion.stores.ports import ArrowReads, BehindManagers, Partitions, PreparedJobs, SelectText
from stanchion.stores.protocol import Listener, Port, Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, Stat
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.wakeup.signs import Signs


class PartitionedStore:
    """The store of a database, addressed by the names of queues.

    It translates the name of a partitioned queue to its physical queues, and passes everything else on. Rows keep the
    name of their physical queue, as it is part of their lease; `logical_name` maps it to the queue.
    """

    def __init__(self, store: Store) -> None:
        self.within = store
        self.capabilities = store.capabilities
        self.layouts = layouts = Layouts(store)
        self._placing, self._reading = Placing(store, layouts), Reading(store, layouts)
        self._claims, self._settings = PartitionClaims(store, layouts), PartitionSettings(store, layouts)
        layouts.read()
        if (managers := store.extension(BehindManagers)) is not None:
            managers.spread(layouts.names)
        # Verbs that name no queue, or are about physical ones.
        self.setup, self.check, self.close, self.now = store.setup, store.check, store.close, store.now
        self.recover, self.unstage = store.recover, store.unstage
        self.beat, self.leave, self.workers, self.fetch = store.beat, store.leave, store.workers, store.fetch
        self.cancel, self.retry, self.delete = store.cancel, store.retry, store.delete
        self.set_semaphore, self.semaphores = store.set_semaphore, store.semaphores
        self.flow_nodes, self.flow_ends = store.flow_nodes, store.flow_ends
        self.values, self.compare_and_set = store.values, store.compare_and_set
        self.partition, self.select_arrow = self._reading.partition, self._reading.select_arrow

    @property
    def clock_offset(self) -> float:
        return self.within.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.within.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        return self.within.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self.within.lost_lease_delay = delay

    def extension(self, port: type[Port]) -> Port | None:
        """Return this store for ports that name queues, as it translates the names; else the inner store's port."""
        if port is SelectText:  # a statement's text is not translated
            return None
        found = None if port is Partitions else self.within.extension(port)
        if port is Partitions or (found is not None and port in (ArrowReads, PreparedJobs)):
            return self  # type: ignore[return-value] # it has the methods of these ports
        return found

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        return self._settings.configure(queue, changes, tx)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        found = self.within.queues(names)
        if any(one.partitioned and one.name not in self.layouts.known for one in found):
            self.layouts.read()
        else:
            self.layouts.read_again()  # a process that only pushes reads settings, and calls no maintenance
        return (
            [self._settings.with_partitions(one) for one in found]
            if names is not None
            else self._settings.listed(found)
        )

    def partitioned(self) -> Collection[str]:
        return self.layouts.known.keys()

    def read_layouts(self) -> None:
        self.layouts.read()

    def partitions_of(self, queue: str) -> tuple[str, ...]:
        """Return the physical queues of a partitioned queue, itself first; none for another queue."""
        layout = self.layouts.known.get(queue)
        return () if layout is None else layout.names(queue)

    def drop_queue(self, queue: str) -> int:
        if queue not in self.layouts.known:
            if (layout := self.layouts.of(queue)) is not None and queue in layout.names(logical_name(queue)):
                refuse_partition(queue)
            return self.within.drop_queue(queue)
        live = sum(self.within.drop_queue(name) for name in reversed(self.partitions_of(queue)))
        self.layouts.forget(queue)
        return live

    # -- jobs in

    def placed(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return new jobs with their physical queues, as `push` stores them."""
        return self._placing.jobs(jobs)

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        try:
            return self.within.push(self._placing.jobs(jobs), tx, claim, repeat=repeat)
        except DuplicateKey as error:
            raise _logical(error) from None

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        self.within.stage(write, attempt, self._placing.jobs(jobs))

    def publish(self, publication: Publication) -> bool:
        try:
            return self.within.publish(self._placing.publication(publication))
        except DuplicateKey as error:
            raise _logical(error) from None

    def prepare(self, columns: PlainColumns) -> list[Prepared] | None:
        if len(self.partitions_of(columns.queue)) > 1:
            return None
        return self._prepared().prepare(columns)

    def stage_prepared(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        self._prepared().stage_prepared(write, attempt, prepared)

    def publish_prepared(self, publication: Publication, prepared: Sequence[Prepared]) -> bool:
        try:
            return self._prepared().publish_prepared(self._placing.publication(publication), prepared)
        except DuplicateKey as error:
            raise _logical(error) from None

    def _prepared(self) -> PreparedJobs:
        found = self.within.extension(PreparedJobs)
        assert found is not None  # noqa: S101 - see `extension`
        return found

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        try:
            return self.within.change_flows(self._placing.changes(changes), tx)
        except DuplicateKey as error:
            raise _logical(error) from None

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        return self.within.adopt(list(map(self._placing.row, rows)))

    # -- jobs out

    def claim(self, claim: Claim) -> Claimed:
        return self._claims.claim(claim) if claim.queue in self.layouts.known else self.within.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        return self.within.settle(self._placing.outcomes(outcomes), tx, repeat=repeat)

    # -- reading

    def select(self, query: Query) -> Page:
        return self._reading.select(query)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        return self._reading.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._reading.lane_depths(queue, lanes, at_most)

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        names = self._reading.names([*queues])
        ends = None if finished is None else self._reading.names([*finished])
        return LogicalListener(self.within.listen(names, finished=ends, interchangeable=interchangeable))

    # -- upkeep

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        self.layouts.read_again()
        self._settings.repair()
        return list(dict.fromkeys(map(logical_name, self.within.maintain(seconds))))


def _logical(error: DuplicateKey) -> DuplicateKey:
    return DuplicateKey(logical_name(error.queue), error.key, error.job_id)


class LogicalListener:
    """A listener that reports the queues themselves instead of their partitions."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.wait, self.pass_on, self.wake, self.close = listener.wait, listener.pass_on, listener.wake, listener.close

    @property
    def connected(self) -> bool:
        return self._listener.connected

    @property
    def fed(self) -> bool:
        return self._listener.fed

    def came(self) -> Mapping[str, Collection[int]]:
        """Return the ranks of the jobs that have come."""
        found: dict[str, set[int]] = {}
        for queue, ranks in self._listener.came().items():
            found.setdefault(logical_name(queue), set()).update(ranks)
        return found

    def signs(self) -> Signs:
        """Return the reasons of the signs since the last call."""
        signs = self._listener.signs()
        return signs if signs.queues is None else signs._replace(queues=frozenset(map(logical_name, signs.queues)))
