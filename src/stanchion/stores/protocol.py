"""The one interface between the model and a database.

Verbs take and give batches. Each is atomic per job; where `Capabilities.atomic_batches` says so, per
call. Only the store's clock decides what is due, expired or late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from stanchion.stores.records.capabilities import Capabilities
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
from stanchion.stores.wakeup.signs import Signs


class Listener(Protocol):
    """Waits for a sign that some queue may have work.

    A sign given between two waits ends the second one at once, so that none falls between "found
    nothing" and "wait".
    """

    @property
    def connected(self) -> bool:
        """True while the signs of other processes arrive, as far as is known; False where only polling helps."""

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""

    def signs(self) -> Signs:
        """Return what the signs since the last call were for."""

    def pass_on(self) -> None:
        """Say that there may be more work than this one takes: another interchangeable listener is woken."""

    def wake(self) -> None:
        """End the current wait, or the next one."""

    def close(self) -> None:
        """Stop listening."""


class Store(Protocol):
    """Where jobs live."""

    capabilities: Capabilities
    clock_offset: float
    """Seconds added to the store's clock. For tests, which can't wait for a lease to run out."""
    lost_lease_delay: LostLeaseDelay
    """For how long a job waits from its second lost lease on; the app puts the retry policies of its tasks here."""

    # -- life of the store itself

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Make or migrate the schema; safe to repeat, and while workers run. Return the steps taken, none if it was
        up to date; with `dry_run`, take none, and return those to take: in the language of the database's own shell.
        """

    def check(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch unless the store can be used."""

    def close(self) -> None:
        """Release connections and threads; a later call opens them anew."""

    def now(self) -> int:
        """Return the store's clock."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of this store, to be given as `tx`; CannotJoin where it has none."""

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        """Make the queue if need be, apply the changes, wake those who wait for its jobs; return its settings.

        The values in a change of `declared` are added to those that are there. `tx`: the caller has this transaction
        open; a store with one writer, which would wait for it, makes the changes in it.
        """

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of those of these names that there are.

        It makes none: a queue that is not there has the default settings.
        """

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""

    # -- jobs in

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order, in the caller's transaction when given one.

        A job whose id is known already is not stored again. Raises DuplicateKey for a job that asks
        for it, and then stores none of the batch.
        """

    # -- jobs out

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs: running, under the claim's token, this attempt counted.

        One that has lost its lease twice or more is handed out alone, but where the claim asks for no rows.
        """

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations; for each the state it led to, or None: lease lost, nothing changed.

        The state is dead also for a job that was moved to a dead-letter queue, and running after a renewal. A
        `repeat`, after a call that was never answered, also gives the state for what that call has done already.
        """

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Give back jobs whose lease ran out or whose worker is dead; return them as they are now.

        A worker is dead when it missed three of its own heartbeats. A job whose worker has no row is
        left alone unless some live worker has a row, and the job started longer ago than those three
        heartbeats: an empty list of workers frees nothing.

        What a dead worker is not known to have begun gets its attempt back; see `losses`.

        A call that finds no lost job completes what a process that died has left half done of slots, flows and
        publications: its outbox entries. So call it until it returns none; with `limit` 0 it only does that. Where a
        step and all that follows from it are one transaction, it restores slots that were damaged otherwise.

        `as_of` is the moment, on the store's clock, at which a lease must have run out or a worker been dead
        (None: now). A call that was held up by an outage, in which nobody could beat, then frees no more than
        it would have before.
        """

    # -- in hand, for readers elsewhere

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Lay jobs aside under a write and an attempt, unseen by anybody, until they are published.

        Adds to earlier calls; a job whose id is there already is not added again, so a repeat does no harm.
        """

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs as `push` does, and do what else the publication says, in one step; then clear the stage.

        False, and nothing but the stage is changed, when its value was written before, or by another. Raises
        StagedJobsLost when an attempt has not the number of jobs it should have, LeasesLost when jobs to be finished
        are no longer in hand, DuplicateKey as `push` does: nothing is changed then. A store without transactions over
        several jobs does one part after the other, and `recover` goes on after a death: each job is stored once, but
        not all of them at one moment; it raises CannotJoin for staged jobs together with `finish`.
        """

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; the answer is for all of them together."""

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""

    def select(self, query: Query) -> Page:
        """Return up to `limit` jobs that meet all conditions of a query, and the cursor of the page behind them.

        Each page is as of its own moment; a job that meets the query throughout is given once. Raises InvalidInput for
        conditions, columns or orders that no store knows.
        """

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Cut a query into up to `parts` that share no job, give about as many each, and all of them together."""

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, known or not: only the fields named, as the others cost as much again.

        Each field is as of its own moment.
        """

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs, scheduled and ready, of these lanes (None: of all); those without any are left out.

        Each count ends at `at_most`.
        """

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once; a running one is asked to stop. The state after it, None if unknown."""

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended over `older_than` seconds ago (None: the queue's ttl)."""

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`; return how many.

        One that does not stand in history with that end any more, as it was re-driven, is left as it is.
        """

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Do what keeps the store small and quick, for about so many seconds; any worker calls it now and then.

        A queue that `expires` is removed when it was not used for so long; see `expiring.py`.
        Return the queues whose history still holds what it no longer keeps.
        """

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        """Make a semaphore, or change its capacity: waiters get what is free now; holders beyond it finish.

        `declared`: the code says so. It is kept, and nothing is changed where it said the same before. None: the
        capacity that was declared last, if one was. False: nothing was changed. `tx`: as for `configure`.
        """

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or those of these names that there are."""

    # -- flows

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        """Open, extend, close and stop flows, in this order; in one step where `atomic_batches`.

        For each: True when it was done, now or by an earlier call. False where the node is not known, or is closed
        and not all of the jobs are its members already; where there is no such flow. Raises DuplicateKey as `push`
        does.
        """

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, in the order of their ids; none when it is unknown, or ended long ago."""

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return how up to `limit` members of a node have ended, by their places, those behind the place `after`."""

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all of them, or those of these names that there are."""

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write a value, or delete it where `text` is None, if its version is still `version`; 0: it is absent.

        What is written is of the next version. False: another was quicker, nothing was changed. After a lost answer
        a repeat knows its own work by the text, so whoever must know that it was he who wrote says so in it.
        """

    # -- from store to store

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there: queued or finished, in queues of the same names.

        True for each that this store has now, be it from an earlier call; False where a live job has its
        key. Nothing is counted; a queue without settings gets the default ones.
        """

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, queued or finished; return the ids of those deleted.

        One that runs meanwhile stays. Nothing is counted.
        """

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        """Start listening for work in these queues, and for the ends of jobs in the queues of `finished`.

        A store whose signals don't name queues may tell of more. Of `interchangeable` listeners of one process that
        wait for the same work, a sign wakes one: it passes the sign on when there may be more than it takes.
        """


class ArrowReads(Protocol):
    """What a store has besides, where its capabilities say `arrow`."""

    def select_arrow(self, query: Query) -> Iterator[Any]:
        """Yield all pages of a query, as of one moment, as record batches of pyarrow with its columns.

        State and priority are what the outside sees; times are microseconds, numbers of any width. A column that such
        jobs do not have is null. The limit and the order count for nothing, but jobs of a token come by their ids.
        """


def pages(store: Store, query: Query) -> Iterator[list[Any]]:
    """Yield the pages of a query that have jobs; each is read when it is asked for."""
    page = store.select(query)
    while True:
        if page.rows:
            yield page.rows
        if page.next is None:
            return
        page = store.select(replace(query, after=page.next))


StoreFactory = Callable[[str], Store]
