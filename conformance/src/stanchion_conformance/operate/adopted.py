"""Adopted jobs of another store: keys, order and all else are as for pushed jobs."""

from __future__ import annotations

import random
from typing import Any

from stanchion import Queue
from stanchion.core.ids import new_id
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Redriven
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.records.queues import Sizes
from stanchion_conformance.harness import QUEUE, StoreClock, claim, due_of, find_jobs, new_job, sizes_of, state
from stanchion_conformance.operate.transferring import DAY, ERRORS, finished, queued, some_rows


class TestAdoptedKeys:
    def test_one_that_a_live_job_has_is_refused(self, store: Store) -> None:
        holder = new_job(key="k")
        store.push([holder])
        refused, stored = queued(store, key="k"), queued(store, key="free")
        assert store.adopt([refused, stored, queued(store, key="k")]) == [False, True, False]
        assert store.fetch([refused.id]) == {}
        assert {row.id for row in find_jobs(store)} == {holder.id, stored.id}

    def test_one_that_a_running_job_has_is_refused(self, store: Store) -> None:
        store.push([new_job(key="k")])
        claim(store)
        assert store.adopt([queued(store, key="k")]) == [False]

    def test_of_two_in_one_call_one_is_stored(self, store: Store) -> None:
        rows = [queued(store, key="k"), queued(store, key="k")]
        assert sorted(store.adopt(rows)) == [False, True]
        assert sizes_of(store, QUEUE).total == 1

    def test_are_those_of_their_queue(self, store: Store) -> None:
        assert store.adopt([queued(store, key="k"), queued(store, key="k", queue="other")]) == [True, True]

    def test_hold_for_what_is_pushed(self, store: Store) -> None:
        row = queued(store, key="k")
        store.adopt([row])
        (pushed,) = store.push([new_job(key="k")])
        assert (pushed.id, pushed.duplicate) == (row.id, True)

    def test_of_finished_jobs_hold_nothing(self, store: Store) -> None:
        store.push([new_job(key="k")])
        assert store.adopt([finished(store, key="k"), finished(store, key="free")]) == [True, True]
        (pushed,) = store.push([new_job(key="free")])
        assert not pushed.duplicate

    def test_are_free_once_the_job_is_taken(self, store: Store) -> None:
        row = queued(store, key="k")
        store.adopt([row])
        assert store.delete([row.ref]) == [True]
        again = new_job(key="k")
        assert store.push([again])[0].id == again.id
        assert store.adopt([row]) == [False]


class TestAdoptedJobs:
    def test_are_handed_out_in_the_order_of_all(self, store: Store) -> None:
        now, dice = store.now(), random.Random(7)
        given: list[dict[str, Any]] = [
            {"priority": dice.choice([-100, -1, 0, 1, 100]), "run_at": now - dice.choice([0, 1, 1_000_000])}
            for _ in range(40)
        ]
        jobs: list[JobRow | NewJob] = [queued(store, **fields) for fields in given[:20]]
        jobs += [new_job(**fields) for fields in given[20:]]
        for job in dice.sample(jobs, len(jobs)):
            if isinstance(job, JobRow):
                store.adopt([job])
            else:
                store.push([job])
        ranked = sorted(jobs, key=lambda job: (-job.priority, job.run_at or 0, job.id))
        assert [row.id for _ in range(4) for row in claim(store, 10)] == [job.id for job in ranked]

    def test_wait_until_they_are_due(self, store: Store, clock: StoreClock) -> None:
        row = queued(store, run_at=store.now() + 60 * SECOND, priority=50)
        store.adopt([row])
        assert claim(store) == []
        assert due_of(store, QUEUE) == row.run_at
        assert sizes_of(store, QUEUE) == Sizes(total=1, scheduled=1)
        clock.advance(61)
        assert sizes_of(store, QUEUE) == Sizes(total=1, ready=1)
        assert [job.id for job in claim(store)] == [row.id]

    def test_wait_while_their_queue_is_paused(self, q: Queue, store: Store, other_q: Queue) -> None:
        q.pause()
        row = queued(store)
        store.adopt([row])
        assert other_q.reserve() == []
        q.resume()
        assert [job.id for job in other_q.reserve(wait=5)] == [row.id]

    def test_go_on_with_the_attempts_they_had(self, store: Store) -> None:
        row = queued(store, attempts=2, failures=2, max_attempts=3, errors=ERRORS)
        store.adopt([row])
        (job,) = claim(store)
        assert (job.attempts, job.failures, job.errors) == (3, 2, ERRORS)
        assert store.settle([Rollback(job.lease, 0.0, error="again")]) == [JobState.DEAD]

    def test_do_not_obey_the_token_they_had(self, store: Store) -> None:
        row = queued(store, attempts=1, token="before")
        store.adopt([row])
        assert store.settle([Commit(row.lease._replace(token="before"))]) == [None]
        assert state(store, row.id) == JobState.READY

    def test_can_be_cancelled(self, store: Store) -> None:
        row = queued(store)
        store.adopt([row])
        assert store.cancel([row.id]) == [JobState.CANCELLED]
        assert claim(store) == []

    def test_that_are_finished_can_be_retried_and_replayed(self, store: Store) -> None:
        dead, done = finished(store, JobState.DEAD, payload='"dead"'), finished(store, payload='"done"')
        store.adopt([dead, done])
        assert store.retry([dead.id, done.id]) == [Redriven.READY, Redriven.DONE]
        copy = new_id()
        assert push_copies(store, [done.id], [copy]) != [None]
        assert {row.id: row.payload for row in claim(store, 10)} == {dead.id: '"dead"', copy: '"done"'}

    def test_are_found(self, store: Store) -> None:
        rows = some_rows(store)
        store.adopt(list(rows.values()))
        names = {row.id: name for name, row in rows.items()}

        def found(**query: Any) -> set[str]:
            return {names[row.id] for row in find_jobs(store, **query)}

        assert found(states=(JobState.SCHEDULED,)) == {"scheduled"}
        assert found(states=(JobState.DEAD,)) == {"dead", "dead letter"}
        assert found(queue="letters") == {"dead letter"}
        assert found(task="mail.send") == {"whole", "done", "dead"}
        assert found(tenant="acme é", states=(JobState.READY,)) == {"whole"}
        assert found(text="enc:gAAAA") == {"sealed"}
        assert found(until=store.now() - DAY // 2) == {"whole", "done", "dead"}

    def test_that_ended_long_ago_are_purged(self, store: Store) -> None:
        old, new = finished(store, finished_at=store.now() - 8 * DAY), finished(store)
        store.adopt([old, new])
        store.maintain()
        assert list(store.fetch([old.id, new.id])) == [new.id]

    def test_go_with_their_queue(self, store: Store) -> None:
        rows = [queued(store, key="k"), finished(store)]
        store.adopt(rows)
        assert store.drop_queue(QUEUE) == 1
        assert store.fetch([row.id for row in rows]) == {}
        assert store.adopt([queued(store, key="k")]) == [True]
