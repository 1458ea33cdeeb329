"""Leases name the queue of their job: an outcome that names another queue is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stanchion.errors import CannotJoin
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import (
    Abandon,
    Bury,
    Commit,
    Continue,
    Extend,
    Move,
    Outcome,
    Progress,
    Rollback,
)
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion_conformance.harness import QUEUE, claim, counts_of, new_job, row_of, sizes_of, transaction
from stanchion_conformance.limits.semaphores import SMTP, limited, usage

OTHER, UNKNOWN, NEXT = "other", "unknown", "next"

OUTCOMES: dict[str, Callable[[Lease], Outcome]] = {
    "commit": lambda lease: Commit(lease, '"done"'),
    "commit with a payload": lambda lease: Commit(lease, payload='"new"'),
    "fan out": lambda lease: Commit(lease, jobs=(new_job(queue=NEXT),)),
    "fail": lambda lease: Rollback(lease, 0.0, "failed"),
    "give back": lambda lease: Rollback(lease, 60.0, refund=True),
    "move": lambda lease: Move(lease, NEXT),
    "move there": lambda lease: Move(lease, OTHER),
    "bury": lambda lease: Bury(lease, "broken"),
    "abandon": lambda lease: Abandon(lease),
    "continue": lambda lease: Continue(lease, new_job(queue=NEXT)._replace(id=lease.id)),
    "extend": lambda lease: Extend(lease, 600.0),
    "progress": lambda lease: Progress(lease, 0.5),
}
JOBS: dict[str, Callable[[], NewJob]] = {
    "plain": new_job,
    "keyed": lambda: new_job(key="k"),
    "ordered": lambda: new_job(order_key="k"),
    "limited": lambda: limited(SMTP),
}


def everything(store: Store, *rows: JobRow) -> object:
    """Return the jobs as stored, and the sizes and counters of the queues."""
    queues = (QUEUE, OTHER, UNKNOWN, NEXT)
    return store.fetch([row.id for row in rows]), [(sizes_of(store, name), counts_of(store, name)) for name in queues]


def misplaced(row: JobRow, queue: str = OTHER) -> Lease:
    """Return the lease of a job, but for its queue."""
    return row.lease._replace(queue=queue)


def three_running(store: Store) -> list[JobRow]:
    """Reserve three new jobs of QUEUE, while OTHER exists too; return them."""
    store.push([*(new_job(str(n)) for n in range(3)), new_job(queue=OTHER)])
    return claim(store, 3)


class TestOtherQueue:
    @pytest.mark.parametrize("outcome", OUTCOMES)
    def test_loses_every_outcome(self, store: Store, outcome: str) -> None:
        rows, end = three_running(store), OUTCOMES[outcome]
        before = everything(store, *rows)
        for repeat in (False, True):
            for queue in (OTHER, UNKNOWN):
                said = [end(misplaced(row, queue)) for row in rows]
                assert store.settle(said[:1], repeat=repeat) == [None]
                assert store.settle(said, repeat=repeat) == [None, None, None]
        assert everything(store, *rows) == before
        assert None not in store.settle([end(row.lease) for row in rows])

    @pytest.mark.parametrize("kind", JOBS)
    def test_loses_the_commit_of_any_job(self, store: Store, kind: str) -> None:
        store.set_semaphore(SMTP, 2)
        store.push([JOBS[kind](), new_job(queue=OTHER)])
        (row,) = claim(store)
        before = everything(store, row), usage(store)
        for commit in (Commit(misplaced(row)), commit_of(row)._replace(lease=misplaced(row))):
            assert store.settle([commit]) == [None]
            assert store.settle([commit], repeat=True) == [None]
        assert (everything(store, row), usage(store)) == before
        assert store.settle([commit_of(row)]) == [JobState.DONE]

    @pytest.mark.parametrize("repeat", [False, True], ids=["first", "repeat"])
    def test_loses_its_own_part_of_a_batch(self, store: Store, repeat: bool) -> None:
        for end in OUTCOMES.values():
            one, two, three = three_running(store)
            before = row_of(store, two.id)
            mixed = [misplaced(one), one.lease, misplaced(two), misplaced(two, UNKNOWN), misplaced(three), three.lease]
            states = store.settle([end(lease) for lease in mixed], repeat=repeat)
            assert [state is None for state in states] == [True, False, True, True, True, False]
            assert row_of(store, two.id) == before
            store.settle([Abandon(row.lease) for row in (one, two, three)])

    def test_is_not_made_right_by_others_of_the_batch(self, store: Store) -> None:
        """Each queue of the batch is that of some job in it, but not of this one."""
        for end in OUTCOMES.values():
            store.push([new_job(priority=9, queue=queue) for queue in (QUEUE, QUEUE, OTHER, OTHER)])
            here, near = claim(store, 2, token="t")
            there, far = claim(store, 2, token="t", queue=OTHER)
            leases = [misplaced(here), misplaced(there, QUEUE), near.lease, far.lease]
            before = [row_of(store, row.id) for row in (here, there)]
            assert store.settle([end(lease) for lease in leases[:2]]) == [None, None]
            states = store.settle([end(lease) for lease in leases])
            assert [state is None for state in states] == [True, True, False, False]
            assert [row_of(store, row.id) for row in (here, there)] == before
            store.settle([Abandon(row.lease) for row in (here, near, there, far)])

    def test_among_outcomes_of_all_kinds(self, store: Store) -> None:
        store.push([new_job() for _ in OUTCOMES])
        rows = claim(store, len(OUTCOMES))
        pairs = list(zip(OUTCOMES.values(), rows, strict=True))
        before = everything(store, *rows)
        assert set(store.settle([end(misplaced(row)) for end, row in pairs])) == {None}
        assert everything(store, *rows) == before
        said = [one for end, row in pairs for one in (end(misplaced(row)), end(row.lease))]
        assert [state is None for state in store.settle(said)] == len(rows) * [True, False]

    def test_loses_them_in_a_transaction_too(self, store: Store) -> None:
        for end in OUTCOMES.values():
            one, two, _ = rows = three_running(store)
            if not store.capabilities.joins_transactions:
                with pytest.raises(CannotJoin):
                    store.settle([end(misplaced(one))], tx=object())
                continue
            before = everything(store, *rows)
            with transaction(store) as tx:
                assert store.settle([end(misplaced(one)), end(misplaced(two, UNKNOWN))], tx) == [None, None]
            assert everything(store, *rows) == before
            with transaction(store) as tx:
                states = store.settle([end(misplaced(one)), end(two.lease)], tx)
            assert [state is None for state in states] == [True, False]
            store.settle([Abandon(row.lease) for row in rows])

    def test_is_where_a_repeat_may_find_the_job(self, store: Store) -> None:
        for outcome, end in OUTCOMES.items():
            if outcome in ("extend", "progress"):  # they take effect again
                continue
            rows = three_running(store)
            said = end(rows[0].lease)
            (state,) = store.settle([said])
            assert state is not None, outcome
            before = everything(store, *rows)
            assert store.settle([said], repeat=True) == [state], outcome
            assert everything(store, *rows) == before
            store.settle([Abandon(row.lease) for row in rows])
