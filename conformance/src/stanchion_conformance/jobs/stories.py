"""What is stored with the attempts of a job tells its story: on which worker, from when to when, and its back-off."""

from __future__ import annotations

from stanchion import Queue, Stanchion
from stanchion.jobs.job import is_deferred
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion_conformance.harness import StoreClock, claim, new_job, row_of, worker


class TestStories:
    def test_a_failed_attempt_has_its_worker_its_start_and_its_back_off(self, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({}, max_attempts=2)
        (job,) = q.reserve(holder="billing:1")
        clock.advance(5)
        job.rollback(delay=60, error="no stock")
        found = q.get(pushed.id)
        assert found is not None
        assert job.started_at is not None
        (entry,) = found.errors
        assert (entry["worker"], entry["started"]) == ("billing:1", job.started_at.timestamp())
        assert entry["at"] - entry["started"] > 4
        assert round(entry["until"] * SECOND) == round(found.run_at.timestamp() * SECOND)

    def test_the_last_one_has_no_back_off(self, q: Queue) -> None:
        pushed = [q.push({}, max_attempts=1), q.push({}), q.push({})]
        jobs = q.reserve(3)
        jobs[0].rollback(delay=60, error="no stock")
        jobs[1].bury("no stock")
        q.cancel(jobs[2].id)
        jobs[2].rollback(delay=60, error="no stock")
        for one in pushed:
            found = q.get(one.id)
            assert found is not None
            assert found.state.final
            assert "until" not in found.errors[-1]

    def test_a_lost_lease_names_the_worker_that_was_lost(self, store: Store, clock: StoreClock) -> None:
        job = new_job()
        store.push([job])
        store.beat([worker("host-7")])
        assert len(claim(store, worker="host-7")) == 1
        clock.advance(31)
        store.recover()
        entry = entries_of(row_of(store, job.id))[-1]
        assert (entry["worker"], entry["error"][:9]) == ("host-7", "LeaseLost")
        assert row_of(store, job.id).worker is None

    def test_a_parked_job_tells_since_when(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        for _ in range(2):
            q.push({}, order_key="customer-5512")
        (held,) = q.reserve(2, lease=600)
        since = app.store.now()
        clock.advance(60)
        (parked,) = q.find(state="waiting")
        assert parked.waits_since is not None
        assert abs(parked.waits_since.timestamp() * SECOND - since) < 30 * SECOND
        held.commit()
        (free,) = q.find(state="ready")
        assert (free.id, free.waits_since) == (parked.id, None)

    def test_a_job_that_its_rate_put_off_says_so(self, q: Queue) -> None:
        for _ in range(2):
            q.push({}, rate=0.01, rate_key="psp")
        (later,) = [q.push({}, delay=600)]
        assert len(q.reserve(2)) == 1
        assert {is_deferred(job) for job in q.find(state="scheduled")} == {True, False}
        found = q.get(later.id)
        assert found is not None
        assert not is_deferred(found)
