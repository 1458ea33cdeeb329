"""Many reserved jobs that end together, by one call, and jobs that end elsewhere than they were reserved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from stanchion import BatchLeasesLost, JobState, LeaseLost, Queue, Reservation, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.jobs.held_job import lease_of
from stanchion.jobs.reservation import Settlement
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, payloads
from stanchion_conformance.jobs.transactions import Failed

ENDS = {
    "committed": JobState.DONE,
    "rolled_back": JobState.READY,
    "released": JobState.READY,
    "moved": JobState.READY,
    "buried": JobState.DEAD,
    "abandoned": JobState.CANCELLED,
}


def end_of(job: Reservation, end: str) -> Settlement:
    """Return how a job is to end."""
    if end == "rolled_back":
        return job.rolled_back(0, "no")
    settlement: Settlement = getattr(job, end)(*(["next"] if end == "moved" else []))
    return settlement


class Cut:
    """A store whose next outcomes are applied, and their answer lost."""

    def __init__(self, store: Store) -> None:
        self._store, self.cuts, self.settled = store, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def settle(self, outcomes: Sequence[Any], tx: Any = None, *, repeat: bool = False) -> Any:
        self.settled += 1
        answer = self._store.settle(outcomes, tx, repeat=repeat)
        if self.cuts:
            self.cuts -= 1
            raise StoreUnavailable("the answer was lost")
        return answer


async def awaited(what: Any) -> Any:
    """Await a call."""
    return await what


class TestSettle:
    def test_ends_each_job_in_its_own_way(self, app: Stanchion, q: Queue) -> None:
        q.push_many(list(ENDS))
        jobs = q.reserve(len(ENDS))
        ended = app.settle([end_of(job, job.payload) for job in jobs])
        assert ended == list(ENDS.values())
        assert [job.settled_as for job in jobs] == ended
        assert (q.counts().committed, q.counts().moved, app.queue("next").size().ready) == (1, 1, 1)
        assert sorted(payloads(q.reserve(5))) == ["released", "rolled_back"]

    def test_keeps_results_and_payloads_apart(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(5))
        jobs = q.reserve(5)
        app.settle([job.committed({"of": job.payload}, payload=job.payload * 10) for job in jobs])
        done = [q.get(job.id) for job in jobs]
        assert [(job.result, job.payload) for job in done if job is not None] == [({"of": n}, n * 10) for n in range(5)]

    def test_says_for_each_what_became_of_it(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(3))
        first, second = q.reserve(2, lease=10)
        clock.advance(11)
        (third,) = [job for job in q.reserve(3, lease=60) if job.id not in {first.id, second.id}]
        assert app.settle([first.committed(), third.committed(), second.buried()]) == [None, JobState.DONE, None]
        assert (first.settled_as, third.settled_as) == (None, JobState.DONE)
        assert q.size().running == 2

    def test_ends_a_job_once(self, app: Stanchion, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        assert app.settle([job.committed("first"), job.committed("second")]) == [JobState.DONE, None]
        assert app.settle([job.buried()]) == [None]
        assert [one.result for one in q.history()] == ["first"]

    def test_takes_any_number(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(2300))
        jobs = q.reserve(2300)
        assert app.settle(job.committed() for job in jobs) == [JobState.DONE] * 2300
        assert app.settle([]) == []
        assert (q.size().total, q.counts().committed) == (0, 2300)

    def test_of_several_queues(self, app: Stanchion, q: Queue) -> None:
        other = app.queue("other")
        q.push(1)
        other.push(2)
        assert app.settle([*(job.committed() for job in (*q.reserve(), *other.reserve()))]) == [JobState.DONE] * 2
        assert (q.counts().committed, other.counts().committed) == (1, 1)

    def test_wakes_the_jobs_that_wait_for_slots(self, app: Stanchion, q: Queue) -> None:
        app.semaphore("smtp", capacity=2)
        for _ in range(4):
            q.push(1, limits=["smtp"])
        q.push("first", order_key="k")
        q.push("second", order_key="k")
        jobs = q.reserve(6)
        assert len(jobs) == 3
        app.settle([job.committed() for job in jobs])
        assert len(q.reserve(6)) == 3

    def test_after_a_lost_answer_counts_each_job_once(self, new_store: NewStore) -> None:
        cut: Any = Cut(new_store())
        app = Stanchion(store=cut)
        q = app.queue(QUEUE)
        q.push_many(range(4))
        jobs = q.reserve(4)
        ends = [job.committed() if job.payload else job.buried() for job in jobs]
        cut.cuts = 1
        with pytest.raises(StoreUnavailable):
            app.settle(ends)
        assert app.settle(ends) == [JobState.DEAD, *[JobState.DONE] * 3]
        assert (q.counts().committed, q.counts().buried) == (3, 1)

    @pytest.mark.parametrize("wrong", [[1], ["committed"], [None], "text", 7, {"a": 1}])
    def test_refuses_what_is_no_settlement(self, app: Stanchion, wrong: Any) -> None:
        with pytest.raises(InvalidInput):
            app.settle(wrong)

    def test_off_the_event_loop(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(3))
        jobs = q.reserve(3)
        assert asyncio.run(awaited(app.asettle([job.committed() for job in jobs]))) == [JobState.DONE] * 3


class TestBatch:
    def test_commits_all_jobs_by_one_call(self, new_store: NewStore) -> None:
        counting: Any = Cut(new_store())
        q = Stanchion(store=counting).queue(QUEUE)
        q.push_many(range(200))
        with q.batch(500) as jobs:
            assert len(jobs) == 200
            assert payloads([*jobs]) == list(range(200))
            assert [job.payload for job in jobs[3:5]] == [3, 4]
            assert jobs[0].payload == 0
        assert counting.settled == 1
        assert (q.size().total, q.counts().committed) == (0, 200)
        assert {job.settled_as for job in jobs} == {JobState.DONE}

    def test_ends_each_job_as_recorded(self, app: Stanchion, q: Queue) -> None:
        q.push_many([*ENDS, "none"])
        with q.batch(10) as jobs:
            for job in jobs:
                match job.payload:
                    case "committed":
                        job.commit("result")
                    case "rolled_back":
                        job.rollback(0, "no")
                    case "released":
                        job.release()
                    case "moved":
                        job.move("next", payload="there")
                    case "buried":
                        job.bury()
                    case "abandoned":
                        job.abandon()
            assert q.size().running == len(jobs), "nothing is stored before the end of the block"
        assert [job.settled_as for job in jobs] == [*ENDS.values(), JobState.DONE]
        assert payloads(app.queue("next").reserve()) == ["there"]

    def test_the_block_of_a_job_records_too(self, q: Queue) -> None:
        q.push_many(range(4))
        with q.batch(10) as jobs:
            for job in jobs:
                try:
                    with job:
                        if job.payload % 2:
                            raise ValueError(job.payload)
                except ValueError:
                    continue
        assert [job.settled_as for job in jobs] == [JobState.DONE, JobState.SCHEDULED] * 2
        assert q.counts().rolled_back == 2

    def test_an_error_gives_back_the_jobs_that_have_no_outcome(self, q: Queue) -> None:
        q.push_many(range(4))
        with pytest.raises(Failed), q.batch(10) as jobs:  # noqa: PT012
            jobs[0].commit()
            jobs[1].bury()
            raise Failed
        assert [job.settled_as for job in jobs] == [JobState.DONE, JobState.DEAD, JobState.READY, JobState.READY]
        assert [(job.payload, job.attempt) for job in q.reserve(5)] == [(2, 1), (3, 1)]

    def test_lost_jobs_are_told_and_the_others_are_stored(self, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(3))
        with pytest.raises(BatchLeasesLost) as caught, q.batch(3, lease=10) as jobs:  # noqa: PT012
            jobs[0].extend(60)
            clock.advance(11)
            (again, *_) = q.reserve(1)
        assert caught.value.job_ids == [job.id for job in jobs[1:]]
        assert [job.settled_as for job in jobs] == [JobState.DONE, None, None]
        again.commit()

    def test_all_leases_are_extended_by_one_call(self, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(3))
        with q.batch(3, lease=10) as jobs:
            jobs[0].commit()
            jobs.extend(60)
            clock.advance(9)
            jobs.extend(60)
            clock.advance(59)
            with pytest.raises(InvalidInput):
                jobs.extend(0)
        assert [job.settled_as for job in jobs[1:]] == [JobState.DONE] * 2

    def test_one_that_finds_no_jobs(self, q: Queue) -> None:
        with q.batch(10) as jobs:
            assert len(jobs) == 0
        with q.batch(10, wait=0.01) as jobs:
            assert [*jobs] == []

    def test_is_one_block(self, q: Queue) -> None:
        batch = q.batch(1)
        with batch:
            pass
        with pytest.raises(InvalidInput, match="one block"), batch:
            pass

    def test_a_job_ends_once(self, q: Queue) -> None:
        q.push(1)
        with q.batch(1) as jobs:
            jobs[0].commit("first")
            with pytest.raises(InvalidInput, match="outcome already"):
                jobs[0].bury()
        assert [job.result for job in q.history()] == ["first"]

    def test_on_the_event_loop(self, q: Queue) -> None:
        async def consume() -> list[JobState | None]:
            async with q.batch(10, wait=5) as jobs:
                jobs[1].rollback(0)
            return [job.settled_as for job in jobs]

        q.push_many(range(3))
        assert asyncio.run(consume()) == [JobState.DONE, JobState.READY, JobState.DONE]


class TestEndedElsewhere:
    def test_by_its_id_and_token(self, q: Queue, other_app: Stanchion) -> None:
        q.push({"n": 1})
        (job,) = q.reserve()
        there = other_app.reservation(job.id, job.token)
        assert (there.payload, there.queue, there.attempt) == ({"n": 1}, QUEUE, 1)
        there.commit("there")
        assert [one.result for one in q.history()] == ["there"]
        with pytest.raises(LeaseLost):
            job.commit("here")
        with pytest.raises(LeaseLost):
            other_app.reservation(job.id, job.token)

    @pytest.mark.parametrize("end", ENDS)
    def test_in_each_way(self, q: Queue, other_app: Stanchion, end: str) -> None:
        q.push(1)
        (job,) = q.reserve()
        there = other_app.reservation(job.id, job.token)
        assert other_app.settle([end_of(there, end)]) == [ENDS[end]]

    def test_it_is_extended_there(self, q: Queue, other_app: Stanchion, clock: StoreClock) -> None:
        q.push(1)
        (job,) = q.reserve(lease=10)
        other_app.reservation(job.id, job.token).extend(60)
        clock.advance(30)
        job.commit()

    def test_not_under_another_token(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push(1)
        (job,) = q.reserve(lease=10)
        for token in ("", "another"):
            with pytest.raises(LeaseLost):
                app.reservation(job.id, token)
        clock.advance(11)
        (again,) = q.reserve()
        with pytest.raises(LeaseLost):
            app.reservation(job.id, job.token)
        assert lease_of(app.reservation(again.id, again.token)) == lease_of(again)

    def test_from_a_dict(self, q: Queue, other_app: Stanchion) -> None:
        q.push({"text": "ü"}, priority=7, headers={"h": 1}, tenant="t")
        (job,) = q.reserve()
        there = Reservation.from_dict(other_app, json.loads(json.dumps(job.to_dict())))
        assert (there.payload, there.headers, there.priority, there.tenant) == ({"text": "ü"}, {"h": 1}, 7, "t")
        there.commit("there")
        assert [one.result for one in q.history()] == ["there"]

    @pytest.mark.parametrize("data", [{}, {"id": "x"}, {"nonsense": 1}])
    def test_not_from_another_dict(self, app: Stanchion, data: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="to_dict"):
            Reservation.from_dict(app, data)

    def test_not_from_a_dict_without_a_token(self, app: Stanchion, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        data = {name: value for name, value in job.to_dict().items() if name != "token"}
        with pytest.raises(InvalidInput, match="token"):
            Reservation.from_dict(app, data)


class TestTogetherInTransactions:
    """For stores with transactions."""

    @pytest.fixture(autouse=True)
    def joins(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert store.capabilities.joins_transactions, "it joins no transactions: del TestTogetherInTransactions"

    def test_jobs_are_settled_in_it(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(3))
        jobs = q.reserve(3)
        with pytest.raises(Failed), app.transaction() as tx:  # noqa: PT012
            assert app.settle([job.committed() for job in jobs], tx=tx) == [JobState.DONE] * 3
            raise Failed
        assert q.size().running == 3
        with app.transaction() as tx:
            q.push("effect", tx=tx)
            app.settle([job.committed() for job in jobs], tx=tx)
        assert (q.size().total, q.counts().committed) == (1, 3)

    def test_a_batch_ends_in_it(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(3))
        with q.batch(2) as jobs, app.transaction() as tx:
            q.push("effect", tx=tx)
            jobs.settle(tx=tx)
        assert (q.size().total, q.counts().committed, len(jobs)) == (2, 2, 2)

    def test_an_error_after_that_gives_the_jobs_back(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(3))
        with pytest.raises(Failed), q.batch(2) as jobs, app.transaction() as tx:  # noqa: PT012
            jobs[0].bury()
            jobs.settle(tx=tx)
            raise Failed
        assert q.size()._asdict() == {"total": 3, "ready": 3, "scheduled": 0, "waiting": 0, "running": 0}
        assert [job.attempt for job in q.reserve(3)] == [1, 1, 1]

    def test_an_error_before_that_too(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(2))
        with pytest.raises(Failed), q.batch(2) as jobs, app.transaction() as tx:  # noqa: PT012
            q.push("effect", tx=tx)
            jobs[0].bury()
            raise Failed
        assert [job.settled_as for job in jobs] == [JobState.DEAD, JobState.READY]
        assert q.size().total == 1

    def test_a_lost_job_undoes_the_transaction(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(2))
        with pytest.raises(BatchLeasesLost), q.batch(2, lease=10) as jobs:  # noqa: PT012
            jobs[0].extend(60)
            clock.advance(11)
            with app.transaction() as tx:
                q.push("effect", tx=tx)
                jobs.settle(tx=tx)
        assert q.counts().committed == 0
        assert sorted(payloads(q.reserve(5))) == [0, 1]


class TestReservationsOfOthers:
    def test_end_together_whatever_one_has_lost(self, other_app: Stanchion, q: Queue) -> None:
        q.push_many([1, 2, 3])
        first, second, third = q.reserve(3)
        pairs = [(one.id, one.token) for one in (first, second, third)]
        second.commit("by its own")
        wanted = [*pairs, (first.id, "another token"), (new_id(), "unknown")]
        found = other_app.reservations(wanted)
        assert [one is not None and one.id for one in found] == [first.id, False, third.id, False, False]
        states = other_app.settle(one.committed(n) for n, one in enumerate(found) if one is not None)
        assert states == [JobState.DONE, JobState.DONE]
        assert [job.result for job in sorted(q.history(), key=lambda job: job.id)] == [0, "by its own", 2]

    def test_wrong_pairs_are_refused(self, app: Stanchion) -> None:
        for wrong in (["id"], [("id",)], [(1, "token")], [("id", None)], "id", [None]):
            with pytest.raises(InvalidInput):
                app.reservations(wrong)  # type: ignore[arg-type]
        assert app.reservations([]) == []
