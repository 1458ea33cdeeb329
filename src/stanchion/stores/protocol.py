"""The only interface between the model and a database.

Verbs take and return batches. Each is atomic per job and, where `Capabilities.atomic_batches` says so, per call. Only
the store's clock decides which jobs are due, expired or late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS

if TYPE_CHECKING:
    from stanchion.stores.records.capabilities import Capabilities
    from stanchion.stores.records.claims import Claim, Claimed
    from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd
    from stanchion.stores.records.jobs import JobRef, JobRow, JobState, NewJob, Pushed, Redriven
    from stanchion.stores.records.outcomes import Outcome
    from stanchion.stores.records.query import Page, Query
    from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
    from stanchion.stores.records.staging import Publication
    from stanchion.stores.records.values import VersionedValue
    from stanchion.stores.records.workers import Beat, WorkerRow
    from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
    from stanchion.stores.wakeup.signs import Signs

Port = TypeVar("Port")


class Listener(Protocol):
    """Waits for a sign that some queue may have work.

    A signal between two waits ends the second one immediately, so none is lost between an empty claim and the wait.
    """

    @property
    def connected(self) -> bool:
        """True while signs of other processes arrive, as far as is known; False where only polling helps."""

    @property
    def fed(self) -> bool:
        """True while a manager streams the jobs of all these queues to this process; claims are then served locally."""

    def came(self) -> Mapping[str, Collection[int]]:
        """For each queue, return the ranks of streamed jobs not yet claimed."""

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""

    def signs(self) -> Signs:
        """Return the reasons of the signs since the last call."""

    def pass_on(self) -> None:
        """Wake another interchangeable listener, because there may be more work than this one takes."""

    def wake(self) -> None:
        """End the current wait, or the next one."""

    def close(self) -> None:
        """Stop listening."""


class Store(Protocol):
    """A database of jobs."""

    capabilities: Capabilities
    clock_offset: float
    """Seconds added to the store's clock; for tests, which can't wait for a lease to run out."""
    lost_lease_delay: LostLeaseDelay
    """The wait of a job from its second lost lease on; the app derives it from the retry policies of its tasks."""

    # -- life of the store itself

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Make or migrate the schema; may be repeated, also while workers run. Return the steps taken.

        There are none if the schema was up to date. With `dry_run`, take none, and return the steps to take, in the
        language of the database's shell.
        """

    def check(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch unless the store can be used."""

    def close(self) -> None:
        """Release connections and threads; a later call opens them again."""

    def now(self) -> int:
        """Return the time by the store's clock, in microseconds."""

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        """Make the queue if missing, apply the changes, wake listeners for its jobs; return its settings.

        The values in a change of `declared` are merged into the stored ones. `tx`: a transaction that the caller has
        open. A store with a single writer, which would otherwise wait for it, makes the changes in it.
        """

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of the known ones among `names`.

        It makes no queue; a missing queue has the default settings.
        """

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""

    # -- jobs in

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        """Store jobs, in order, in the caller's transaction if given.

        A job with a known id is not stored again. Raises DuplicateKey for a job that asks for it, and then stores none
        of the batch.

        `claim`: of the jobs that this call stores, the ones in `Claim.ids` are stored as running if a claim by ids
        would get them now; `Pushed.token` names them. A job that a former push has stored stays unchanged. `repeat`: an
        earlier try may have stored the jobs, and may still be on its way: jobs that ended while this call waited for it
        are not stored again.
        """

    # -- jobs out

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs: running, under the claim's token, with this attempt counted.

        A job that has lost its lease twice or more is delivered alone, unless the claim asks for no rows; by ids,
        alone among the jobs of its worker.
        """

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations; return the resulting state of each, or None if its lease was lost.

        With None, no change was made. A lease is lost too if it names a queue other than the job's present one.
        The state is dead also for a job moved to a dead-letter queue, and running after a renewal. A `repeat`, after a
        lost reply, also returns the state for outcomes that the first call applied.
        """

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Return jobs whose lease expired or whose worker is dead to their queues; return their new state.

        A worker is dead when it missed three of its own heartbeats. A job whose worker has no row is left alone unless
        some live worker has a row, and the job started longer ago than those three heartbeats: an empty list of workers
        frees no job.

        A job of a dead worker that is not known to have begun gets its attempt back; see `lost_leases`.

        A call that finds no lost job completes the outbox entries of dead processes: unfinished work on slots, flows
        and publications. Call it until it returns none; with `limit` 0 it only does that. A store that applies a step
        and its consequences in one transaction restores damaged slots instead.

        `as_of`: the time, by the store's clock, when a lease must have expired or a worker been dead (None: now). A
        call delayed by an outage, in which no worker could beat, then frees no more than it would have before.
        """

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Store jobs under a write and an attempt, invisible until they are published.

        Adds to earlier calls; a job whose id is staged already is not added again, so a repeat is harmless.
        """

    def publish(self, publication: Publication) -> bool:
        """Push staged jobs and apply the rest of the publication in one step; then clear the stage.

        False, with only the stage changed, if its value was written before, or by another caller. Raises
        StagedJobsLost if an attempt has another number of jobs than stated, LeasesLost if jobs to be finished are no
        longer reserved, DuplicateKey as `push` does; no change is made then. A store without transactions over several
        jobs applies the parts one after the other, and `recover` completes them after a death: each job is stored once,
        but not all at the same time. Such a store raises CannotJoin for staged jobs together with `finish`.
        """

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write, except for a publication that has begun."""

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; the answer covers all of them together."""

    def leave(self, worker: str) -> None:
        """Forget a worker that holds no jobs any more."""

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all known workers, including late ones, with their numbers of running jobs.

        `holders`: then also the names under which consumers hold jobs by leases, in the state `HOLDER`.
        """

    # -- reading

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return the jobs that are live or in history, by id; leave out unknown ids."""

    def select(self, query: Query) -> Page:
        """Return up to `limit` jobs that meet all conditions of a query, and the cursor of the next page.

        Each page is a separate snapshot; a job that meets the query throughout is returned once. Raises InvalidInput
        for unknown conditions, columns or orders.
        """

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query into up to `parts` disjoint queries of about equal size that make up the whole."""

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, known or not: only the fields named, as each costs a read.

        Each field is a separate snapshot.
        """

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs, scheduled and ready, of these lanes (None: of all); empty lanes are left out.

        Each count stops at `at_most`.
        """

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs; ask running ones to stop. Return the new states, None if unknown."""

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all their attempts and the same ids."""

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete jobs that are unchanged since they were read: finished at that time, or queued. Nothing is counted.

        A job that runs, has ended or was re-driven meanwhile stays. The slots of a queued job are freed, and the next
        job of its order key becomes head of line. For each: True if it was deleted, by this call or by an earlier try
        whose reply was lost.
        """

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Run upkeep, which keeps the store small and fast, for about `seconds`; workers call it periodically.

        A queue with `expires` is removed when it was unused for that long; see `rules.upkeep`. Return the queues whose
        history still holds jobs beyond its retention.
        """

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        """Make a semaphore, or change its capacity: waiters get free slots now; holders beyond the capacity finish.

        `declared`: the code declares the capacity. It is stored, and changes nothing if the previous declaration was
        the same. None: the capacity declared last, if any. False: no change was made. `tx`: as for `configure`.
        """

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or the known ones among `names`."""

    # -- flows

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        """Open, extend, close and stop flows, in this order; in one step where `atomic_batches`.

        For each: True if it was done, now or by an earlier call. False if there is no such flow or node, or if the node
        is closed and not all of the jobs are already its members. Raises DuplicateKey as `push` does.
        """

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, by id; none if it is unknown, or ended long ago."""

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return up to `limit` member ends of a node, by index, after the index `after`."""

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all, or the known ones among `names`."""

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it if `text` is None, if its version is still `version`; 0: it is absent.

        The written value has the next version. False: another caller was faster, no change was made. After a lost
        reply, a repeat recognises its own write by the text; a caller that must know whether it wrote puts an id into
        the text.
        """

    # -- from store to store

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store unchanged: queued or finished, in queues of the same names.

        True for each that this store has now, also by an earlier call; False if a live job has its key. Nothing is
        counted; a queue without settings gets the defaults.
        """

    # -- optional ports

    def extension(self, port: type[Port]) -> Port | None:
        """Return the store as one of the optional ports in `ports.py`; None if it does not have it. Reads nothing."""

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        """Start listening for work in these queues, and for ends of jobs in the queues of `finished`.

        A store whose signals don't name queues may report others too. Of `interchangeable` listeners of one process
        that wait for the same work, a sign wakes one; it passes the sign on if there may be more work than it takes.
        """


def pages(store: Store, query: Query) -> Iterator[list[Any]]:
    """Yield the non-empty pages of a query; each is read on demand."""
    page = store.select(query)
    while True:
        if page.rows:
            yield page.rows
        if page.next is None:
            return
        page = store.select(replace(query, after=page.next))
