"""Jobs that are staged, and published together."""

from __future__ import annotations

import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.core.spark_errors import StagedJobsLost
from stanchion.errors import DuplicateKey
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion_conformance.harness import (
    NewStore,
    StoreClock,
    about,
    all_at_once,
    claim,
    counts_of,
    due_of,
    find_jobs,
    new_job,
    row_of,
    seconds_until,
    sizes_of,
    state,
)

WRITE = "write 1"
OUT = "out"
DAY = 86_400.0
LONG = 20.0


def staged(store: Store, jobs: list[NewJob], attempt: str = "a", write: str = WRITE) -> Publication:
    """Stage jobs; return the publication of them alone."""
    store.stage(write, attempt, jobs)
    return Publication(write, ((attempt, len(jobs)),))


def outputs(jobs: int, **fields: object) -> list[NewJob]:
    """Return so many jobs for the queue OUT."""
    return [new_job(str(number), **{"queue": OUT, **fields}) for number in range(jobs)]


class TestStaged:
    def test_jobs_are_seen_by_nobody(self, store: Store, other_store: Store) -> None:
        jobs = outputs(3, key=None)
        store.stage(WRITE, "a", jobs)
        assert sizes_of(other_store, OUT).total == 0
        assert find_jobs(other_store) == []
        assert other_store.fetch([job.id for job in jobs]) == {}
        assert claim(other_store, 9, queue=OUT) == []
        assert due_of(other_store, OUT) is None
        assert counts_of(other_store, OUT) == Counts()
        assert other_store.cancel([jobs[0].id]) == [None]

    def test_take_no_key(self, store: Store) -> None:
        store.stage(WRITE, "a", outputs(1, key="k"))
        (pushed,) = store.push(outputs(1, key="k"))
        assert not pushed.duplicate

    def test_are_forgotten_with_their_write(self, store: Store, other_store: Store) -> None:
        first, second = staged(store, outputs(2)), staged(store, outputs(2), write="write 2")
        other_store.unstage(WRITE)
        other_store.unstage("unknown")
        with pytest.raises(StagedJobsLost):
            store.publish(first)
        assert store.publish(second)
        assert sizes_of(store, OUT).total == 2

    def test_are_forgotten_after_a_day(self, store: Store, clock: StoreClock) -> None:
        old = staged(store, outputs(2))
        grown = staged(store, outputs(2), write="grown")
        clock.advance(DAY / 2)
        more = outputs(1)
        store.stage("grown", "b", more)
        store.maintain()
        clock.advance(DAY / 2 + 1)
        fresh = staged(store, outputs(2), write="fresh")
        store.maintain()
        with pytest.raises(StagedJobsLost):
            store.publish(old)
        assert store.publish(fresh)
        assert store.publish(grown._replace(attempts=(*grown.attempts, ("b", 1))))
        assert sizes_of(store, OUT).total == 5

    def test_twice_under_one_attempt_counts_once(self, store: Store, other_store: Store) -> None:
        jobs = outputs(5)
        store.stage(WRITE, "a", jobs[:3])
        other_store.stage(WRITE, "a", jobs)
        store.stage(WRITE, "a", [])
        assert store.publish(Publication(WRITE, (("a", 5),)))
        assert sizes_of(store, OUT).total == 5


class TestPublishing:
    def test_stores_the_jobs(self, store: Store, other_store: Store) -> None:
        jobs = outputs(20)
        store.stage(WRITE, "a", jobs[:10])
        other_store.stage(WRITE, "a", jobs[10:15])
        other_store.stage(WRITE, "b", jobs[15:])
        assert other_store.publish(Publication(WRITE, (("a", 15), ("b", 5))))
        assert counts_of(store, OUT) == Counts(pushed=20)
        rows = claim(store, 99, queue=OUT)
        assert [row.id for row in rows] == [job.id for job in jobs]
        assert [row.payload for row in rows] == [job.payload for job in jobs]

    def test_into_several_queues_that_are_made(self, store: Store) -> None:
        publication = staged(store, [*outputs(3), *outputs(2, queue="more"), *outputs(1, queue="third")])
        assert store.publish(publication)
        assert [settings.name for settings in store.queues()] == ["more", OUT, "third"]
        assert [counts_of(store, queue).pushed for queue in (OUT, "more", "third")] == [3, 2, 1]
        assert [sizes_of(store, queue).ready for queue in (OUT, "more", "third")] == [3, 2, 1]

    def test_keeps_what_is_said_of_each_job(self, store: Store) -> None:
        store.configure(OUT, {"lanes": 4, "uses_lanes": True})
        origin, flow, node = new_ids(3)
        strange = '{"a": "ü 🦆\\n\\t\\u0000 \\\\N \'%:s\\""}'
        plain, full = (
            new_job(strange, queue=OUT),
            NewJob(
                *(new_id(), OUT, strange),
                task="work",
                priority=-7,
                delay=60.0,
                headers='{"x":"\\\\N"}',
                tenant="o'hara",
                key="k \\N",
                order_key="o",
                limits=limits_text(Limits(("s",))),
                flow_root=flow,
                flow_node=node,
                flow_index=0,
                flow_after=f"{node}*",
                origin=origin,
                max_attempts=3,
                timeout=9.5,
                lane=3,
                enqueued_at=1_700_000_000_000_000,
            ),
        )
        at = new_job(queue=OUT, run_at=store.now() + 90_000_000, lane=2, tenant="acme")
        assert store.publish(staged(store, [plain, full, at]))
        rows = store.fetch([plain.id, full.id, at.id])
        for job in (plain, full, at):
            for name in set(NewJob._fields) & set(JobRow._fields) - {"run_at"}:
                if name != "enqueued_at" or job is full:
                    assert getattr(rows[job.id], name) == getattr(job, name), name
            assert rows[job.id].state == "queued"
        assert rows[at.id].run_at == at.run_at
        assert seconds_until(store, rows[full.id].run_at) == about(60)
        assert rows[plain.id].attempts == 0

    def test_counts_a_delay_from_then_on_and_due_now_from_then(self, store: Store, clock: StoreClock) -> None:
        late, now = new_job(queue=OUT, delay=60), new_job(queue=OUT)
        publication = staged(store, [late, now])
        clock.advance(1000)
        assert store.publish(publication)
        assert seconds_until(store, row_of(store, late.id).run_at) == about(60)
        assert seconds_until(store, row_of(store, now.id).enqueued_at) == about(0)
        assert [row.id for row in claim(store, 9, queue=OUT)] == [now.id]

    def test_in_the_order_of_priorities_and_ids(self, store: Store) -> None:
        jobs = [new_job(str(n), queue=OUT, priority=n % 3) for n in range(9)]
        for attempt, part in (("b", jobs[:5]), ("a", jobs[5:])):
            store.stage(WRITE, attempt, part)
        assert store.publish(Publication(WRITE, (("a", 4), ("b", 5))))
        taken = [int(row.payload) for row in claim(store, 9, queue=OUT)]
        assert taken == sorted(range(9), key=lambda n: (-(n % 3), n))

    def test_drops_the_attempts_that_are_not_named(self, store: Store) -> None:
        kept, dropped = outputs(3), outputs(4)
        store.stage(WRITE, "lost", dropped)
        store.stage(WRITE, "won", kept)
        assert store.publish(Publication(WRITE, (("won", 3),)))
        assert [row.id for row in claim(store, 99, queue=OUT)] == [job.id for job in kept]
        with pytest.raises(StagedJobsLost):
            store.publish(Publication(WRITE, (("lost", 4),), ValueChange("k", "n", "t", 0)))

    def test_the_same_ids_of_two_attempts(self, store: Store) -> None:
        jobs = outputs(3)
        store.stage(WRITE, "first", jobs)
        store.stage(WRITE, "second", jobs)
        assert store.publish(Publication(WRITE, (("second", 3),)))
        assert sizes_of(store, OUT).total == 3

    def test_a_count_that_does_not_fit_changes_nothing(self, store: Store) -> None:
        publication = staged(store, outputs(3))
        store.stage(WRITE, "b", outputs(2))
        for attempts in ((("a", 4),), (("a", 2),), (("a", 3), ("b", 3)), (("a", 3), ("c", 1)), (("a", 4), ("b", 1))):
            with pytest.raises(StagedJobsLost):
                store.publish(Publication(WRITE, attempts))
        assert sizes_of(store, OUT).total == 0
        assert counts_of(store, OUT) == Counts()
        assert store.values("write") == []
        assert store.publish(publication)
        assert sizes_of(store, OUT).total == 3

    def test_a_second_time_is_false_and_clears_the_stage(self, store: Store, other_store: Store) -> None:
        assert store.publish(staged(store, outputs(3)))
        again = staged(other_store, outputs(4))
        assert not other_store.publish(again)
        assert not other_store.publish(Publication(WRITE, (("never", 7),)))
        assert sizes_of(store, OUT).total == 3
        with pytest.raises(StagedJobsLost):  # under another value: the stage is empty
            store.publish(again._replace(value=ValueChange("k", "n", "t", 0)))
        assert counts_of(store, OUT).pushed == 3

    def test_of_nothing(self, store: Store) -> None:
        assert store.publish(Publication(WRITE))
        assert not store.publish(Publication(WRITE))
        assert store.publish(staged(store, [], write="empty"))

    def test_is_known_for_a_month(self, store: Store, clock: StoreClock) -> None:
        assert store.publish(staged(store, outputs(1)))
        assert store.compare_and_set("stream", "s", "{}", 0)
        clock.advance(29 * DAY)
        store.maintain()
        assert not store.publish(staged(store, outputs(1)))
        clock.advance(2 * DAY)
        store.maintain()
        assert store.values("write") == []
        assert store.values("stream") == [VersionedValue("s", "{}", 1)]
        assert store.publish(staged(store, outputs(1)))

    def test_of_many(self, store: Store) -> None:
        jobs = outputs(3000)
        for start in range(0, 3000, 1000):
            store.stage(WRITE, f"task {start}", jobs[start : start + 1000])
        assert store.publish(Publication(WRITE, tuple((f"task {start}", 1000) for start in range(0, 3000, 1000))))
        assert sizes_of(store, OUT).ready == 3000
        assert counts_of(store, OUT).pushed == 3000
        assert [row.id for row in claim(store, 3000, queue=OUT)] == [job.id for job in jobs]

    def test_keys_are_honoured(self, store: Store) -> None:
        taken, renewed = new_job("1", queue=OUT, key="taken"), new_job("1", queue=OUT, key="renewed")
        store.push([taken, renewed])
        jobs = [
            new_job("2", queue=OUT, key="taken"),
            new_job("3", queue=OUT, key="renewed", on_duplicate="replace"),
            new_job("4", queue=OUT, key="own"),
            new_job("5", queue=OUT, key="own"),
            new_job("6", queue=OUT),
        ]
        assert store.publish(staged(store, jobs))
        assert sorted(row.payload for row in claim(store, 9, queue=OUT)) == ["1", "3", "4", "6"]
        assert counts_of(store, OUT).pushed == 4

    def test_one_that_asks_to_be_told_of_its_key_refuses_all(self, store: Store) -> None:
        store.push([new_job("1", queue=OUT, key="k")])
        refused = staged(store, [*outputs(3), new_job("2", queue=OUT, key="k", on_duplicate="raise")])
        with pytest.raises(DuplicateKey):
            store.publish(refused)
        assert sizes_of(store, OUT).total == 1
        assert store.values("write") == []
        (holder,) = claim(store, queue=OUT)
        store.settle([Commit(holder.lease)])
        assert store.publish(refused)
        assert sizes_of(store, OUT).total == 4

    def test_slots_are_kept_to(self, store: Store) -> None:
        store.set_semaphore("slot", 1)
        slot = limits_text(Limits(("slot",)))
        assert store.publish(staged(store, [*outputs(2, limits=slot), *outputs(2, order_key="k")]))
        assert len(claim(store, 9, queue=OUT)) == 2

    def test_ids_that_are_known_are_not_stored_again(self, store: Store) -> None:
        jobs = outputs(4)
        store.push(jobs[:2])
        (done, _) = claim(store, 2, queue=OUT)
        store.settle([Commit(done.lease)])
        assert store.publish(staged(store, jobs))
        assert counts_of(store, OUT).pushed == 4
        assert sizes_of(store, OUT).total == 3
        assert state(store, done.id) is JobState.DONE

    def test_wakes_those_who_wait_there(self, store: Store) -> None:
        publication = staged(store, outputs(1))
        listener = store.listen([OUT])
        try:
            while listener.wait(0.2):
                pass
            assert store.publish(publication)
            assert listener.wait(LONG)
        finally:
            listener.close()

    def test_by_several_at_once_is_done_by_one(self, store: Store, new_store: NewStore) -> None:
        publication = staged(store, outputs(300))
        told: list[bool] = []
        stores = [store, new_store(), new_store()]
        all_at_once([lambda one=one: told.append(one.publish(publication)) for one in stores])  # type: ignore[misc]
        assert sorted(told) == [False, False, True]
        assert sizes_of(store, OUT).total == 300
        assert counts_of(store, OUT).pushed == 300
