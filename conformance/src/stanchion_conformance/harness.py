"""The fixtures of the suite, and helpers that its cases share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from stanchion import Job, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.ports import Transactions
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.query import Condition, Of, Op, Query
from stanchion.stores.records.queues import Counts, Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.streams.state import reserved_ids, reserved_rows

NewStore = Callable[[], Store]
"""Opens the database of the test once more, as another process would."""

QUEUE = "orders"
NO_TRANSACTION: Any = object()
"""Something that `tx` does not take."""
LONG_LEASE = 1e6
"""In seconds: no case is so slow that it runs out of itself."""


class StoreClock:
    """Moves the clock of every store that a test has opened."""

    def __init__(self) -> None:
        self._stores: list[Store] = []
        self._clock_offset = 0.0

    def governs(self, store: Store) -> Store:
        """Move this store's clock too."""
        self._stores.append(store)
        store.clock_offset = self._clock_offset
        return store

    def advance(self, seconds: float) -> None:
        """Move the clocks forward."""
        self._clock_offset += seconds
        for store in self._stores:
            store.clock_offset = self._clock_offset


@pytest.fixture
def clock() -> StoreClock:
    """The clock of all stores of this test."""
    return StoreClock()


@pytest.fixture
def new_store(store_factory: NewStore, clock: StoreClock) -> NewStore:
    """A function that opens the test's database, once more at each call."""
    return lambda: clock.governs(store_factory())


@pytest.fixture
def store(new_store: NewStore) -> Store:
    """The store under test, empty."""
    return new_store()


@pytest.fixture
def other_store(store: Store, new_store: NewStore) -> Store:  # noqa: ARG001 - `store` comes first
    """The same database, as another process sees it."""
    return new_store()


@pytest.fixture
def app(store: Store) -> Stanchion:
    """An app over the store under test."""
    return Stanchion(store=store)


@pytest.fixture
def other_app(other_store: Store) -> Stanchion:
    """The app of another process."""
    return Stanchion(store=other_store)


@pytest.fixture
def q(app: Stanchion) -> Queue:
    """A queue of the app."""
    return app.queue(QUEUE)


@pytest.fixture
def other_q(other_app: Stanchion) -> Queue:
    """The same queue in another process."""
    return other_app.queue(QUEUE)


def new_job(payload: str = "{}", **fields: Any) -> NewJob:
    """Return a job to store, with an id of its own."""
    return NewJob(**{"id": new_id(), "queue": QUEUE, "payload": payload, **fields})


def claim(store: Store, limit: int = 1, **fields: Any) -> list[JobRow]:
    """Reserve up to `limit` jobs under a token of their own, and for longer than any case takes."""
    lease = None if "worker" in fields else LONG_LEASE
    return store.claim(Claim(**{"queue": QUEUE, "limit": limit, "token": new_id(), "lease": lease, **fields})).rows


def row_of(store: Store, job_id: str) -> JobRow:
    """Return the job as stored."""
    return store.fetch([job_id])[job_id]


def deleted(store: Store, ids: Iterable[str]) -> list[str]:
    """Delete jobs in their current state, except running ones; return the deleted ones."""
    refs = [row.ref for row in store.fetch(list(ids)).values()]
    return sorted(ref.id for ref, gone in zip(refs, store.delete(refs), strict=True) if gone)


def state(store: Store, job_id: str) -> JobState:
    """Return the public state of a job."""
    return state_of(row_of(store, job_id), store.now())


def find_jobs(
    store: Store,
    *,
    states: Sequence[JobState] = (),
    since: int | None = None,
    until: int | None = None,
    after: str | None = None,
    text: str | None = None,
    limit: int = 100,
    **equal: str | None,
) -> list[JobRow]:
    """Return the newest jobs, live and finished, that meet these conditions; None means any."""
    of: Of = "live" if states and not any(state.final for state in states) else "all"
    bounds: list[tuple[str, Op, Any]] = [("enqueued_at", ">=", since), ("enqueued_at", "<", until), ("id", "<", after)]
    conditions: list[tuple[str, Op, Any]] = [*((name, "=", value) for name, value in equal.items()), *bounds]
    where = [Condition(*one) for one in conditions if one[2] is not None]
    if states:
        where.append(Condition("state", "in", tuple(state.value for state in states)))
    return store.select(Query(of, tuple(where), text, limit=limit)).rows


def slot_of(store: Store, name: str) -> tuple[list[str], list[str]]:
    """Return the ids of the jobs that hold a slot of a semaphore, and of its waiters, in order."""
    holds, waits = (Condition(field, "=", semaphore_slot(name)) for field in ("holds", "waits_for"))
    asked = Query("live", (holds,), order="id"), Query("live", (waits,), order="arrival")
    holders, waiters = ([row.id for page in pages(store, query) for row in page] for query in asked)
    return holders, waiters


def ids_reserved(store: Store, queue: str, token: str) -> list[str]:
    """Return the ids of the jobs of a queue that are reserved under a token, in their order."""
    return reserved_ids(store, queue, token)


def rows_reserved(
    store: Store, queue: str, token: str, first: str | None = None, last: str | None = None
) -> list[JobRow]:
    """Return these jobs, with ids from `first` to `last` (None: no bound), by their ids."""
    return reserved_rows(store, queue, token, first, last)


def transaction(store: Store) -> AbstractContextManager[Any]:
    """Open a transaction of a store that has such."""
    transactions = store.extension(Transactions)
    assert transactions is not None
    return transactions.transaction()


def sizes_of(store: Store, queue: str) -> Sizes:
    """Return the live jobs of a queue, counted by state."""
    return store.stats([queue], ["states"])[queue].states


def counts_of(store: Store, queue: str) -> Counts:
    """Return the counts of a queue."""
    return store.stats([queue], ["totals"])[queue].totals


def due_of(store: Store, queue: str) -> int | None:
    """Return when the first queued job of a queue is due."""
    return store.stats([queue], ["next_due"])[queue].next_due


def worker(name: str, heartbeat: float = 10.0) -> WorkerRow:
    """Return the row of a worker."""
    return WorkerRow(id=name, host="host", pid=1, queues=(QUEUE,), threads=1, heartbeat=heartbeat)


def payloads(jobs: Iterable[Job]) -> list[Any]:
    """Return the payloads, in order."""
    return [job.payload for job in jobs]


def seconds_until(store: Store, stored: int) -> float:
    """Return how far ahead of the store's clock a stored time is."""
    return (stored - store.now()) / SECOND


SLACK = 20.0
"""Seconds that a slow machine may take between two steps of a case."""


def about(seconds: float) -> Any:
    """Return a value that equals a time span which began up to SLACK seconds ago."""
    return pytest.approx(seconds - SLACK / 2, abs=SLACK / 2 + 0.001)


@contextmanager
def in_threads(targets: Sequence[Callable[[], Any]], timeout: float = 600.0) -> Any:
    """Run the targets at once beside the block, then wait for them and pass on the first error."""
    errors: list[BaseException] = []

    def guarded(target: Callable[[], Any]) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(timeout)
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError(f"a thread still runs after {timeout} s")


def all_at_once(targets: Sequence[Callable[[], Any]]) -> None:
    """Run the targets in threads of their own that start together and switch often."""
    gate = threading.Barrier(len(targets))

    def gated(target: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            gate.wait(60)
            target()

        return run

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with in_threads([gated(target) for target in targets]):
            pass
    finally:
        sys.setswitchinterval(interval)
