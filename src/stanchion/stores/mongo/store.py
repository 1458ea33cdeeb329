"""The MongoDB store: its collaborators, and which of them each verb of the port is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from stanchion.errors import StoreUnavailable
from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.claim import Claims
from stanchion.stores.cas.entries import Entry
from stanchion.stores.cas.flows import Flows, change_flows
from stanchion.stores.cas.jobs import JobLoop
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.outbox import Outbox
from stanchion.stores.cas.push import Starts
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.staging import Staging
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.mongo import CAPABILITIES
from stanchion.stores.mongo.claims.claim import DueJobs
from stanchion.stores.mongo.claims.lanes import ClaimLocks, Lanes
from stanchion.stores.mongo.claims.parking import Parking
from stanchion.stores.mongo.claims.reserve import Reservations
from stanchion.stores.mongo.client.joining import join, transaction
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.schema import checked, set_up, steps
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.mongo.deletion import Deletion
from stanchion.stores.mongo.flows.additions import Additions
from stanchion.stores.mongo.flows.ends import FlowEnds
from stanchion.stores.mongo.flows.flows import FlowNodes
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.operate import Adoption, Overdue, Purges, Upkeep
from stanchion.stores.mongo.prepared import PreparedPushes
from stanchion.stores.mongo.push import Push
from stanchion.stores.mongo.query import Queries
from stanchion.stores.mongo.queues import Counters, QueueRemoval, Queues
from stanchion.stores.mongo.slots import Semaphores, SlotDocuments
from stanchion.stores.mongo.staging import Publications, Stage
from stanchion.stores.mongo.stats import Stats
from stanchion.stores.mongo.upkeep.misfits import Misfits
from stanchion.stores.mongo.upkeep.past_locks import PastLocks, WorkPastLocks
from stanchion.stores.mongo.upkeep.shapes import Shapes
from stanchion.stores.mongo.values import Values
from stanchion.stores.mongo.wakeup import AfterCommit, Announcer, Signals
from stanchion.stores.mongo.workers import Workers
from stanchion.stores.ports import Extensible
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.declared_rates import CachedRates
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
from stanchion.stores.wakeup.values import with_signs


class MongoStore(Extensible):
    """Jobs in a MongoDB database."""

    capabilities = CAPABILITIES

    def __init__(self, server: Access, tail: Signals | None = None, after: AfterCommit | None = None) -> None:
        """`tail` and `after`: for a store that takes part in a caller's transaction, see `_in`."""
        self.server = server
        self._tail = tail or Signals(server.outside)
        signals: Announcer = after or self._tail
        follow_up = after.follow_up if after else self._follow_up
        documents, lanes, locks, workers = QueueDocuments(server), Lanes(server), ClaimLocks(server), Workers(server)

        self._jobs = Jobs(server, documents, signals)
        self._push = Push(server, self._jobs, documents, signals, follow_up)
        loop = JobLoop(self._jobs, follow_up)
        self._outcomes, self._operator = Outcomes(loop), Operator(loop)
        values, rates = Values(server), CachedRates()
        self._lost = LostJobs(loop, workers, self._recover_outbox, values, PastLocks(server, self._jobs).free)

        past_locks, slot_documents = WorkPastLocks(server).work, SlotDocuments(server)
        slots = Slots(self._jobs, slot_documents, past_locks)
        self._semaphores = Semaphores(server, slots.wake)
        ends = FlowEnds(server)
        flows = Flows(self._jobs, ends, slots, self._push.push)
        self._nodes = FlowNodes(
            server, ends, flows, self._push.push, Additions(server, self._push), self._operator.cancel
        )
        self._outbox = Outbox(self._jobs, slots, flows, self._nodes, self._push, past_locks)

        due = DueJobs(server, locks, lanes, Parking(server, locks, slots.wake), self._lost, self._outcomes)
        admission = Admission(loop, slots, self._operator.cancel, partial(rates.of, read=values.values))
        claims = Claims(due, admission, self._outcomes)
        self._starts = Starts(self._jobs, self._push, claims.claim)

        stage = Stage(server, values, Reservations(server).ids_reserved, self._push.refuse_duplicates)
        staging = self._staging(stage, PreparedPushes(server, documents, signals), values)
        publications = Publications(server, values, stage, staging)

        queries = Queries(server, self._semaphores.holders)
        self._queues = queues = Queues(server, documents, signals)
        counters = Counters(server)
        stats = Stats(server, lanes, counters)
        deletion = Deletion(server, self._jobs, counters, follow_up)
        self._purges = Purges(server, documents, counters, deletion)
        removal = QueueRemoval(server, documents, self._jobs, counters, follow_up)

        self._recovered = (self._outbox, flows, slots, staging, self._nodes)
        forget = [deletion.forget_gone, workers.forget_dead, self._nodes.forget]
        forget += [slot_documents.forget_full, publications.forget, Overdue(server, self._operator.end_overdue).end]
        others = Shapes(server, documents), Misfits(server, self._operator.bury_misfits)
        upkeep = Upkeep(queues, counters, self._purges, removal, *others, recover=self._recover_outbox, forget=forget)

        self.now, self.listen = server.now, self._tail.listen
        self.queues, self.drop_queue = queues.queues, removal.drop_queue
        self.claim, self.recover = claims.claim, self._lost.recover
        self.beat, self.leave, self.workers = workers.beat, workers.leave, workers.workers
        self.fetch, self.select, self.partition = queries.fetch, queries.select, queries.partition
        self.stats, self.lane_depths = stats.stats, stats.lane_depths
        self.cancel, self.retry = self._operator.cancel, self._operator.retry
        self.delete, self.adopt = deletion.delete, Adoption(server, documents, signals).adopt
        self.maintain, self.semaphores = upkeep.maintain, self._semaphores.semaphores
        self.flow_nodes, self.flow_ends = self._nodes.flow_nodes, ends.flow_ends
        self.values = values.values
        self.compare_and_set = with_signs(rates.noticing(publications.compare_and_set), signals.announce)

    def _staging(self, stage: Stage, prepared: PreparedPushes, values: Values) -> Staging:
        """Return the publisher of staged jobs; its verbs, and the stage's, become verbs of the store."""
        staging = Staging(stage, self._push, prepared, values.compare_and_set, self._outcomes.settle)
        self.stage, self.publish, self.unstage = stage.stage, staging.publish, staging.unstage
        self.prepare, self.stage_prepared = prepared.prepare, stage.stage_prepared
        self.publish_prepared = staging.publish_prepared
        return staging

    def _in(self, tx: Any) -> MongoStore:
        """Return the store as part of the caller's transaction, if given."""
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
        """The wait of a job from its second lost lease on."""
        return self._lost.delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._lost.delay = delay

    def setup(self, *, dry_run: bool = False) -> list[str]:
        if not dry_run:
            return self.server.call(lambda on, _again: set_up(on), BULK_SECONDS)
        try:
            return self.server.call(lambda on, _again: steps(on))
        except StoreUnavailable:  # no server: list the steps for a new database
            return steps(None)

    def check(self) -> None:
        self.server.call(lambda on, _again: checked(on))

    def close(self) -> None:
        self._tail.close()
        self.server.outside.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with transaction(self.server.outside) as session:
            yield session
        self._tail.committed(session)
        self._outbox.follow_up(self._jobs.entries_of(self._tail.after(session).jobs))

    def _recover_outbox(self) -> None:
        waits: StoreUnavailable | None = None
        for part in self._recovered:
            try:
                part.recover()
            except StoreUnavailable as error:
                self.now()  # fails, too, without a server; else a transaction has locked a job
                waits = error
        if waits is not None:
            raise waits

    # -- the verbs with a transaction of the caller, which settings ignore

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        return self._queues.configure(queue, changes)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        return self._semaphores.set_semaphore(name, capacity, declared=declared)

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        store = self._in(tx)
        return store._push.push(jobs) if claim is None else store._starts.push(jobs, claim)

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        return self._in(tx)._outcomes.settle(outcomes, repeat=repeat)

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        return change_flows(self._in(tx)._nodes, changes)
