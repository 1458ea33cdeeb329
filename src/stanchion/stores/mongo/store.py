"""The MongoDB store: its parts put together, and its verbs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stanchion.errors import StoreUnavailable
from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.claim import Claims, reserve
from stanchion.stores.cas.entries import Entry
from stanchion.stores.cas.flows import Flows, change_flows
from stanchion.stores.cas.jobs import JobLoop
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.outbox import Outbox
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.staging import Staging
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.mongo import CAPABILITIES
from stanchion.stores.mongo.claim import DueJobs
from stanchion.stores.mongo.client.joining import join, transaction
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.schema import checked, set_up, steps
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.mongo.flow_ends import FlowEnds
from stanchion.stores.mongo.flows import FlowNodes
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.lanes import ClaimLocks, Lanes
from stanchion.stores.mongo.operate import Adoption, Deletion, Purges, Upkeep
from stanchion.stores.mongo.parking import Parking
from stanchion.stores.mongo.push import Push
from stanchion.stores.mongo.query import Queries
from stanchion.stores.mongo.queues import Counters, QueueRemoval, Queues
from stanchion.stores.mongo.slots import Semaphores, SlotDocuments
from stanchion.stores.mongo.staging import Batches, Publications, Stage
from stanchion.stores.mongo.stats import Stats
from stanchion.stores.mongo.values import Values
from stanchion.stores.mongo.wakeup import AfterCommit, Announcer, Signals
from stanchion.stores.mongo.workers import Workers
from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS


class MongoStore:
    """Jobs in a MongoDB database."""

    capabilities = CAPABILITIES

    def __init__(self, server: Access, tail: Signals | None = None, after: AfterCommit | None = None) -> None:
        """`tail` and `after` are given to the store that takes part in a caller's transaction, see `_in`."""
        self.server = server
        self._tail = tail or Signals(server.outside)
        signals: Announcer = after or self._tail
        follow_up = after.follow_up if after else self._follow_up
        documents, lanes, locks = QueueDocuments(server), Lanes(server), ClaimLocks(server)

        self._workers = Workers(server)
        self._jobs = Jobs(server, documents, signals)
        self._push = Push(server, self._jobs, documents, signals, follow_up)
        loop = JobLoop(self._jobs, follow_up)
        self._outcomes = Outcomes(loop)
        self._operator = Operator(loop)
        self._lost = LostJobs(loop, self._workers, self._recover_outbox)

        slot_documents = SlotDocuments(server)
        slots = Slots(self._jobs, slot_documents)
        self._semaphores = Semaphores(server, slots.wake)
        self._ends = FlowEnds(server)
        flows = Flows(self._jobs, self._ends, slots, self._push.push)
        self._nodes = FlowNodes(server, self._ends, flows, self._push.push, self._operator.cancel)
        self._outbox = Outbox(self._jobs, slots, flows, self._nodes, self._push)

        due = DueJobs(server, locks, lanes, Parking(server, locks, slots.wake), self._lost, self._outcomes)
        self._claims = Claims(due, Admission(loop, slots, self._operator.cancel), self._outcomes)

        self._values = Values(server)
        self._batches = Batches(server, self._claims.claim_together)
        self._stage = Stage(server, self._values, self._batches.ids, self._push.refuse_duplicates)
        self._staging = Staging(self._stage, self._push, self._values.compare_and_set, self._outcomes.settle)
        self._publications = Publications(server, self._values, self._stage, self._staging)

        self._query = Queries(server, self._semaphores.holders)
        self._queues = Queues(server, documents, signals)
        self._counters = Counters(server)
        self._stats = Stats(server, lanes, self._counters)
        self._adoption = Adoption(server, documents, signals)
        self._deletion = Deletion(server, self._jobs, self._counters, follow_up)
        self._purges = Purges(server, documents, self._counters, self._deletion)
        self._removal = QueueRemoval(server, documents, self._jobs, self._counters, follow_up, self._purges.purge)

        self._recovered = (self._outbox, flows, slots, self._staging, self._nodes)
        self._upkeep = Upkeep(
            self._queues,
            self._counters,
            self._purges,
            self._removal,
            recover=self._recover_outbox,
            forget=(
                self._deletion.forget_gone,
                self._workers.forget_dead,
                self._nodes.forget,
                slot_documents.forget_full,
                self._publications.forget,
            ),
        )

    def _in(self, tx: Any) -> MongoStore:
        """Return the store as part of the caller's transaction, if there is one."""
        return self if tx is None else MongoStore(join(self.server.outside, tx), self._tail, self._tail.after(tx))

    def _follow_up(self, entries: Sequence[Entry]) -> None:
        self._outbox.follow_up(entries)

    # -- life of the store itself

    @property
    def clock_offset(self) -> float:
        """Seconds added to the server's clock, for tests."""
        return self.server.outside.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.server.outside.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """For how long a job waits from its second lost lease on."""
        return self._lost.delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._lost.delay = delay

    def setup(self, *, dry_run: bool = False) -> list[str]:
        if not dry_run:
            return self.server.call(lambda on, _again: set_up(on), BULK_SECONDS)
        try:
            return self.server.call(lambda on, _again: steps(on))
        except StoreUnavailable:  # it is told what a new database needs
            return steps(None)

    def check(self) -> None:
        self.server.call(lambda on, _again: checked(on))

    def close(self) -> None:
        self._tail.close()
        self.server.outside.close()

    def now(self) -> int:
        return self.server.now()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with transaction(self.server.outside) as session:
            yield session
        self._tail.committed(session)
        self._outbox.follow_up(self._jobs.entries_of(self._tail.after(session).jobs))

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        return self._queues.configure(queue, changes)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        return self._queues.queues(names)

    def drop_queue(self, queue: str) -> int:
        return self._removal.drop_queue(queue)

    # -- jobs in, jobs out

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        return self._in(tx)._push.push(jobs)

    def claim(self, claim: Claim) -> Claimed:
        if not claim.rows:
            return Claimed([], reserved=reserve(self._batches, claim))
        return self._claims.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        return self._in(tx)._outcomes.settle(outcomes, repeat=repeat)

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        return self._lost.recover(limit, as_of)

    def _recover_outbox(self) -> None:
        for part in self._recovered:
            part.recover()

    # -- reserved batches, staged jobs

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        self._stage.stage(write, attempt, jobs)

    def publish(self, publication: Publication) -> bool:
        return self._staging.publish(publication)

    def unstage(self, write: str) -> None:
        self._stage.unstage(write)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        return self._workers.beat(workers)

    def leave(self, worker: str) -> None:
        self._workers.leave(worker)

    def workers(self) -> list[WorkerRow]:
        return self._workers.workers()

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        return self._query.fetch(ids)

    def select(self, query: Query) -> Page:
        return self._query.select(query)

    def partition(self, query: Query, parts: int) -> list[Query]:
        return self._query.partition(query, parts)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        return self._stats.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._stats.lane_depths(queue, lanes, at_most)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        return self._operator.cancel(ids)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        return self._operator.retry(ids)

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        return self._purges.purge(queue, older_than, limit)

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        return self._deletion.discard(ends)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        return self._adoption.adopt(rows)

    def take(self, ids: Sequence[str]) -> list[str]:
        return self._deletion.take(ids)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        return self._upkeep.maintain(seconds)

    # -- semaphores, flows, values

    def set_semaphore(
        self,
        name: str,
        capacity: int | None,
        *,
        declared: bool = False,
        tx: Any = None,
    ) -> bool:
        return self._semaphores.set_semaphore(name, capacity, declared=declared)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        return self._semaphores.semaphores(names)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        return change_flows(self._in(tx)._nodes, changes)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        return self._nodes.flow_nodes(root)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        return self._ends.flow_ends(node, after, limit)

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        return self._publications.compare_and_set(kind, name, text, version)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self._tail.listen(queues, finished, interchangeable=interchangeable)
