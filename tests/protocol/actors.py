"""What actors do: the operations of which scripts are made."""

from __future__ import annotations

from collections.abc import Callable

from stanchion.stores.cas.entries import entry_of
from stanchion.stores.cas.jobs import Change, Result
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Move, Outcome, Rollback
from stanchion.stores.rules.lifecycle import jobs as job_rules
from tests.protocol.explorer import Hand, Operation
from tests.protocol.fake import Fake

QUEUE = "q"


def claim(limit: int = 1, queue: str = QUEUE) -> Operation:
    """Claim jobs, for a worker of the actor's name."""

    def run(store: Fake, name: str, hand: Hand) -> Hand:
        rows = store.claim(Claim(queue, limit, name, name[:-1])).rows
        return (*hand, *((row.id, row.token or "") for row in rows))

    return run


def holding(*jobs: str) -> Operation:
    """Begin with jobs that the actor has claimed before; see `claimed`."""
    return lambda _store, name, hand: (*hand, *((job, name[:-1]) for job in jobs))


def claimed(store: Fake, worker: str, limit: int = 1) -> None:
    """Claim jobs before all begins."""
    rows = store.claim(Claim(QUEUE, limit, worker, worker)).rows
    store.world.admitted.update({(row.id, worker): None for row in rows})


def settle(outcome: Callable[[Lease], Outcome]) -> Operation:
    """End the reserved jobs in this way, one after the other."""

    def run(store: Fake, _name: str, hand: Hand) -> Hand:
        for job, token in hand:
            store.settle([outcome(Lease(QUEUE, job, token))])
        return ()

    return run


commit = settle(Commit)
fail = settle(lambda lease: Bury(lease, "no"))


def rollback(delay: float = 0.0) -> Operation:
    """Give back the reserved jobs, after an error."""
    return settle(lambda lease: Rollback(lease, delay, error="no"))


def move(queue: str) -> Operation:
    """Move the reserved jobs to another queue."""
    return settle(lambda lease: Move(lease, queue))


def recover(worker: str) -> Operation:
    """Take a worker for dead, and its jobs from it."""

    def run(store: Fake, _name: str, hand: Hand) -> Hand:
        store.rows.presume_dead(worker)
        store.recover()
        return hand

    return run


def cancel(*jobs: str) -> Operation:
    """Cancel jobs."""
    return _do(lambda store: store.cancel(jobs))


def retry(*jobs: str) -> Operation:
    """Drive jobs again."""
    return _do(lambda store: store.retry(jobs))


def resize(name: str, capacity: int) -> Operation:
    """Change the capacity of a semaphore."""
    return _do(lambda store: store.set_semaphore(name, capacity))


def push(job: NewJob) -> Operation:
    """Enqueue a job."""
    return _do(lambda store: store.push([job]))


def replace(job: str, new: NewJob) -> Operation:
    """Enqueue a job in the place of another one that has its key."""

    def run(store: Fake) -> None:
        result = Result.CHANGED
        while result is Result.CHANGED:
            now, seen = store.rows.read([job])
            before = seen[job]
            after = None if before.row.finished_at is not None else job_rules.replaced(before.row, new, now)
            if after is None:
                return
            entry = entry_of(before.row, after, None, None, now)
            (result,) = store.rows.compare_and_set([Change(before, after, entry=entry)]).each
        store.outbox.follow_up([entry] if entry else [])

    return _do(run)


def _do(act: Callable[[Fake], object]) -> Operation:
    def run(store: Fake, _name: str, hand: Hand) -> Hand:
        act(store)
        return hand

    return run


recover_outbox = _do(Fake.recover_outbox)
