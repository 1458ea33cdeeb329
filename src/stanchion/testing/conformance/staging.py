"""Batches for readers and writers elsewhere: jobs in hand under a token, and jobs that are staged and published."""

from __future__ import annotations

import pytest

from stanchion.errors import CannotJoin, DuplicateKey, LeasesLost, StagedJobsLost
from stanchion.ids import new_id, new_ids
from stanchion.stores.gates import Limits, Rate, limits_text
from stanchion.stores.protocol import Store
from stanchion.stores.records import (
    Abandon,
    Claim,
    Commit,
    Counts,
    Find,
    Finish,
    JobRow,
    JobState,
    NewJob,
    Note,
    NoteChange,
    Publication,
    Rollback,
)
from stanchion.testing.conformance.harness import (
    QUEUE,
    NewStore,
    StoreClock,
    about,
    all_at_once,
    claim,
    new_job,
    row_of,
    seconds_until,
    state,
    worker,
)

TOKEN, WRITE = "batch", "write 1"
OUT = "out"
DAY = 86_400.0
LONG = 20.0


def reserve(store: Store, limit: int = 100, token: str = TOKEN, **fields: object) -> int:
    """Reserve jobs under a token."""
    return store.reserve(Claim(**{"queue": QUEUE, "limit": limit, "token": token, "worker": "w", **fields}))  # type: ignore[arg-type]


def filled(store: Store, jobs: int, **fields: object) -> list[str]:
    """Push so many jobs; return their ids."""
    pushed = [new_job(str(number), **fields) for number in range(jobs)]
    store.push(pushed)
    return [job.id for job in pushed]


class TestReserve:
    def test_tells_how_many_are_in_hand(self, store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 3) == 3
        assert store.ids_in_hand(QUEUE, TOKEN) == ids[:3]
        assert reserve(store, 9, token="other") == 2
        assert store.ids_in_hand(QUEUE, "other") == ids[3:]
        assert reserve(store, 9, token="third") == 0
        assert store.counts(QUEUE).reserved == 5

    def test_makes_them_run_like_a_claim(self, store: Store) -> None:
        (job_id,) = filled(store, 1)
        assert reserve(store) == 1
        row = row_of(store, job_id)
        assert (row.state, row.token, row.worker, row.attempts, row.lease_until) == ("running", TOKEN, "w", 1, None)
        assert row.started_at is not None
        assert store.settle([Commit(job_id, TOKEN)]) == [JobState.DONE]

    def test_under_a_lease_where_there_is_no_worker(self, store: Store, clock: StoreClock) -> None:
        ids = filled(store, 2)
        assert reserve(store, worker=None, lease=30.0) == 2
        assert seconds_until(store, row_of(store, ids[0]).lease_until or 0) == about(30)
        clock.advance(31)
        assert store.ids_in_hand(QUEUE, TOKEN) == []
        assert reserve(store, worker=None, token="next") == 2

    def test_a_repeat_gives_the_same_and_takes_no_more(self, store: Store, other_store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 2) == 2
        assert reserve(other_store, 2, repeat=True) == 2
        assert reserve(other_store, 4, repeat=True) == 2
        assert store.ids_in_hand(QUEUE, TOKEN) == ids[:2]
        assert reserve(store, 2, token="new", repeat=True) == 2
        assert store.counts(QUEUE).reserved == 4

    def test_a_repeat_after_some_were_settled_takes_no_more(self, store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 3) == 3
        store.settle([Commit(ids[0], TOKEN)])
        assert reserve(store, 3, repeat=True) == 2

    def test_takes_the_most_important_and_only_what_is_due(self, store: Store) -> None:
        low, high = new_job(priority=-1), new_job(priority=5)
        store.push([low, high, new_job(delay=60), new_job(queue=OUT)])
        assert reserve(store, 1) == 1
        assert store.ids_in_hand(QUEUE, TOKEN) == [high.id]
        assert reserve(store, 9, token="rest") == 1
        assert store.ids_in_hand(QUEUE, "rest") == [low.id]

    def test_of_a_large_batch(self, store: Store) -> None:
        ids = [job_id for _ in range(3) for job_id in filled(store, 1000)]
        assert reserve(store, 2500) == 2500
        assert store.ids_in_hand(QUEUE, TOKEN) == sorted(ids[:2500])
        assert store.sizes(QUEUE)._asdict() == {
            **{"total": 3000, "ready": 500, "scheduled": 0, "waiting": 0},
            "running": 2500,
        }

    def test_keeps_to_a_pause(self, store: Store) -> None:
        filled(store, 3)
        store.configure(QUEUE, {"paused": True})
        assert reserve(store) == 0
        store.configure(QUEUE, {"paused": False})
        assert reserve(store) == 3

    def test_keeps_to_max_running(self, store: Store) -> None:
        filled(store, 5)
        store.configure(QUEUE, {"max_running": 2})
        assert reserve(store) == 2
        assert reserve(store, token="other") == 0

    def test_keeps_to_max_rate(self, store: Store) -> None:
        filled(store, 9)
        store.configure(QUEUE, {"max_rate": 2.0})
        assert 1 <= reserve(store) < 9

    def test_keeps_to_semaphores_order_keys_and_rates(self, store: Store) -> None:
        store.set_semaphore("slot", 2)
        slot, rate = limits_text(Limits(("slot",))), limits_text(Limits((), Rate("r", 0.001)))
        filled(store, 3, limits=slot)
        filled(store, 3, order_key="k")
        filled(store, 3, limits=rate)
        filled(store, 2)
        while (found := reserve(store, repeat=False)) < 6:
            assert found
        assert found == 2 + 1 + 1 + 2
        held = [(row.limits, row.order_key) for row in store.in_hand(QUEUE, TOKEN)]
        assert sorted(held, key=str) == sorted(
            [(slot, None)] * 2 + [(None, "k")] + [(rate, None)] + [(None, None)] * 2, key=str
        )

    def test_goes_round_the_lanes(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 2, "laned": True})
        for lane in (1, 2):
            filled(store, 4, lane=lane)
        assert reserve(store, 4) == 4
        assert sorted(row.lane for row in store.in_hand(QUEUE, TOKEN)) == [1, 1, 2, 2]
        assert reserve(store, 9, token="range", lanes=(2, 2)) == 2
        assert {row.lane for row in store.in_hand(QUEUE, "range")} == {2}

    def test_by_several_at_once_gives_each_job_to_one(self, store: Store, new_store: NewStore) -> None:
        ids = filled(store, 400)
        stores = [store, new_store(), new_store()]
        counted: dict[str, int] = {}

        def take(mine: Store, name: str) -> None:
            for batch in range(8):
                counted[f"{name}{batch}"] = reserve(mine, 20, token=f"{name}{batch}")

        all_at_once([lambda mine=one, name=f"s{n}.": take(mine, name) for n, one in enumerate(stores)])  # type: ignore[misc]
        held = {token: store.ids_in_hand(QUEUE, token) for token in counted}
        assert {token: len(found) for token, found in held.items()} == counted
        assert sorted(one for found in held.values() for one in found) == sorted(ids)


class TestInHand:
    def test_whole_jobs_by_their_ids(self, store: Store) -> None:
        first, second = new_job("1", priority=-5, headers='{"a":1}'), new_job("2", priority=5, tenant="acme")
        store.push([first, second])
        reserve(store)
        rows = store.in_hand(QUEUE, TOKEN)
        assert rows == [row_of(store, first.id), row_of(store, second.id)]
        assert [row.payload for row in rows] == ["1", "2"]

    def test_in_ranges_that_include_their_ends(self, store: Store) -> None:
        ids = filled(store, 6)
        reserve(store)

        def found(first: str | None, last: str | None) -> list[str]:
            return [row.id for row in store.in_hand(QUEUE, TOKEN, first, last)]

        assert found(None, None) == ids
        assert found(ids[1], ids[3]) == ids[1:4]
        assert found(ids[4], None) == ids[4:]
        assert found(None, ids[1]) == ids[:2]
        assert found(ids[2], ids[2]) == [ids[2]]
        assert found(ids[3], ids[2]) == []

    def test_others_are_not_seen(self, store: Store) -> None:
        filled(store, 3)
        reserve(store, 1)
        reserve(store, 1, token="other")
        store.push([new_job(queue=OUT)])
        reserve(store, queue=OUT)
        assert len(store.in_hand(QUEUE, TOKEN)) == 1
        assert store.in_hand(QUEUE, "unknown") == []
        assert store.ids_in_hand("no queue", TOKEN) == []
        assert len(store.ids_in_hand(OUT, TOKEN)) == 1

    def test_shrinks_by_whatever_ends_a_reservation(self, store: Store, clock: StoreClock) -> None:
        ids = filled(store, 5)
        store.beat(worker("w"))
        reserve(store)
        store.settle([Commit(ids[0], TOKEN), Rollback(ids[1], TOKEN, 0.0)])
        assert store.ids_in_hand(QUEUE, TOKEN) == ids[2:]
        store.cancel([ids[2]])
        assert store.ids_in_hand(QUEUE, TOKEN) == ids[2:], "it is only asked to stop"
        store.settle([Abandon(ids[2], TOKEN)])
        assert store.ids_in_hand(QUEUE, TOKEN) == ids[3:]
        clock.advance(60)
        store.beat(worker("other"))
        assert len(store.recover()) == 2
        assert store.ids_in_hand(QUEUE, TOKEN) == []
        assert store.in_hand(QUEUE, TOKEN) == []

    def test_what_is_reserved_again_is_another_s(self, store: Store) -> None:
        (job_id,) = filled(store, 1)
        reserve(store)
        store.settle([Rollback(job_id, TOKEN, 0.0)])
        assert reserve(store, token="next") == 1
        assert store.ids_in_hand(QUEUE, TOKEN) == []


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
        assert other_store.sizes(OUT).total == 0
        assert other_store.find(Find()) == []
        assert other_store.fetch([job.id for job in jobs]) == {}
        assert claim(other_store, 9, queue=OUT) == []
        assert other_store.next_due([OUT]) is None
        assert other_store.counts(OUT) == Counts()
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
        assert store.sizes(OUT).total == 2

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
        assert store.sizes(OUT).total == 5

    def test_twice_under_one_attempt_counts_once(self, store: Store, other_store: Store) -> None:
        jobs = outputs(5)
        store.stage(WRITE, "a", jobs[:3])
        other_store.stage(WRITE, "a", jobs)
        store.stage(WRITE, "a", [])
        assert store.publish(Publication(WRITE, (("a", 5),)))
        assert store.sizes(OUT).total == 5


class TestPublishing:
    def test_stores_the_jobs(self, store: Store, other_store: Store) -> None:
        jobs = outputs(20)
        store.stage(WRITE, "a", jobs[:10])
        other_store.stage(WRITE, "a", jobs[10:15])
        other_store.stage(WRITE, "b", jobs[15:])
        assert other_store.publish(Publication(WRITE, (("a", 15), ("b", 5))))
        assert store.counts(OUT) == Counts(pushed=20)
        rows = claim(store, 99, queue=OUT)
        assert [row.id for row in rows] == [job.id for job in jobs]
        assert [row.payload for row in rows] == [job.payload for job in jobs]

    def test_into_several_queues_that_are_made(self, store: Store) -> None:
        publication = staged(store, [*outputs(3), *outputs(2, queue="more"), *outputs(1, queue="third")])
        assert store.publish(publication)
        assert [settings.name for settings in store.queues()] == ["more", OUT, "third"]
        assert [store.counts(queue).pushed for queue in (OUT, "more", "third")] == [3, 2, 1]
        assert [store.sizes(queue).ready for queue in (OUT, "more", "third")] == [3, 2, 1]

    def test_keeps_what_is_said_of_each_job(self, store: Store) -> None:
        store.configure(OUT, {"lanes": 4, "laned": True})
        origin, flow = new_ids(2)
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
                flow=f"{flow}:::",
                origin=origin,
                max_attempts=3,
                timeout=9.5,
                lane=3,
            ),
        )
        at = new_job(queue=OUT, run_at=store.now() + 90_000_000, lane=2, tenant="acme")
        assert store.publish(staged(store, [plain, full, at]))
        rows = store.fetch([plain.id, full.id, at.id])
        for job in (plain, full, at):
            for name in set(NewJob._fields) & set(JobRow._fields) - {"run_at"}:
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
            store.publish(Publication(WRITE, (("lost", 4),), NoteChange("k", "n", "t", 0)))

    def test_the_same_ids_of_two_attempts(self, store: Store) -> None:
        jobs = outputs(3)
        store.stage(WRITE, "first", jobs)
        store.stage(WRITE, "second", jobs)
        assert store.publish(Publication(WRITE, (("second", 3),)))
        assert store.sizes(OUT).total == 3

    def test_a_count_that_does_not_fit_changes_nothing(self, store: Store) -> None:
        publication = staged(store, outputs(3))
        store.stage(WRITE, "b", outputs(2))
        for attempts in ((("a", 4),), (("a", 2),), (("a", 3), ("b", 3)), (("a", 3), ("c", 1)), (("a", 4), ("b", 1))):
            with pytest.raises(StagedJobsLost):
                store.publish(Publication(WRITE, attempts))
        assert store.sizes(OUT).total == 0
        assert store.counts(OUT) == Counts()
        assert store.notes("write") == []
        assert store.publish(publication)
        assert store.sizes(OUT).total == 3

    def test_a_second_time_is_false_and_clears_the_stage(self, store: Store, other_store: Store) -> None:
        assert store.publish(staged(store, outputs(3)))
        again = staged(other_store, outputs(4))
        assert not other_store.publish(again)
        assert not other_store.publish(Publication(WRITE, (("never", 7),)))
        assert store.sizes(OUT).total == 3
        with pytest.raises(StagedJobsLost):  # under another note: the stage is empty
            store.publish(again._replace(note=NoteChange("k", "n", "t", 0)))
        assert store.counts(OUT).pushed == 3

    def test_of_nothing(self, store: Store) -> None:
        assert store.publish(Publication(WRITE))
        assert not store.publish(Publication(WRITE))
        assert store.publish(staged(store, [], write="empty"))

    def test_is_known_for_a_month(self, store: Store, clock: StoreClock) -> None:
        assert store.publish(staged(store, outputs(1)))
        assert store.set_note("stream", "s", "{}", 0)
        clock.advance(29 * DAY)
        store.maintain()
        assert not store.publish(staged(store, outputs(1)))
        clock.advance(2 * DAY)
        store.maintain()
        assert store.notes("write") == []
        assert store.notes("stream") == [Note("s", "{}", 1)]
        assert store.publish(staged(store, outputs(1)))

    def test_of_many(self, store: Store) -> None:
        jobs = outputs(3000)
        for start in range(0, 3000, 1000):
            store.stage(WRITE, f"task {start}", jobs[start : start + 1000])
        assert store.publish(Publication(WRITE, tuple((f"task {start}", 1000) for start in range(0, 3000, 1000))))
        assert store.sizes(OUT).ready == 3000
        assert store.counts(OUT).pushed == 3000
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
        assert store.counts(OUT).pushed == 4

    def test_one_that_asks_to_be_told_of_its_key_refuses_all(self, store: Store) -> None:
        store.push([new_job("1", queue=OUT, key="k")])
        refused = staged(store, [*outputs(3), new_job("2", queue=OUT, key="k", on_duplicate="raise")])
        with pytest.raises(DuplicateKey):
            store.publish(refused)
        assert store.sizes(OUT).total == 1
        assert store.notes("write") == []
        (holder,) = claim(store, queue=OUT)
        store.settle([Commit(holder.id, holder.token or "")])
        assert store.publish(refused)
        assert store.sizes(OUT).total == 4

    def test_gates_are_kept_to(self, store: Store) -> None:
        store.set_semaphore("slot", 1)
        slot = limits_text(Limits(("slot",)))
        assert store.publish(staged(store, [*outputs(2, limits=slot), *outputs(2, order_key="k")]))
        assert len(claim(store, 9, queue=OUT)) == 2

    def test_ids_that_are_known_are_not_stored_again(self, store: Store) -> None:
        jobs = outputs(4)
        store.push(jobs[:2])
        (done, _) = claim(store, 2, queue=OUT)
        store.settle([Commit(done.id, done.token or "")])
        assert store.publish(staged(store, jobs))
        assert store.counts(OUT).pushed == 4
        assert store.sizes(OUT).total == 3
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
        assert store.sizes(OUT).total == 300
        assert store.counts(OUT).pushed == 300


class TestPublishingWithANote:
    def test_writes_it(self, store: Store) -> None:
        publication = staged(store, outputs(2))._replace(note=NoteChange("stream", "s", "one", 0))
        assert store.publish(publication)
        assert store.notes("stream") == [Note("s", "one", 1)]
        assert store.notes("write") == []
        again = staged(store, outputs(2))._replace(note=NoteChange("stream", "s", "two", 1))
        assert store.publish(again), "the note alone tells whether it was published before"
        assert store.sizes(OUT).total == 4

    def test_is_false_when_another_was_quicker(self, store: Store) -> None:
        assert store.set_note("stream", "s", "theirs", 0)
        for version in (0, 2):
            publication = staged(store, outputs(2))._replace(note=NoteChange("stream", "s", "mine", version))
            assert not store.publish(publication)
        assert store.notes("stream") == [Note("s", "theirs", 1)]
        assert store.sizes(OUT).total == 0
        with pytest.raises(StagedJobsLost):
            store.publish(publication._replace(note=NoteChange("stream", "s", "mine", 1)))
        assert store.notes("stream") == [Note("s", "theirs", 1)]


class TestPublishingWithFinish:
    """Finishing what is in hand; with staged jobs in the same moment only where the store has such moments."""

    NOTE = NoteChange("stream", "s", "acked 1", 0)

    def test_commits_what_is_in_hand(self, store: Store) -> None:
        ids = filled(store, 5)
        reserve(store, 3)
        assert store.publish(Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 3)))
        assert [state(store, one) for one in ids] == [JobState.DONE] * 3 + [JobState.READY] * 2
        done = row_of(store, ids[0])
        assert (done.result, done.attempts, done.payload) == (None, 1, "0")
        assert done.finished_at is not None
        assert store.counts(QUEUE) == Counts(pushed=5, reserved=3, committed=3)
        assert store.ids_in_hand(QUEUE, TOKEN) == []
        assert store.notes("stream") == [Note("s", "acked 1", 1)]

    def test_of_none_in_hand(self, store: Store) -> None:
        assert store.publish(Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 0)))
        assert store.notes("stream") == [Note("s", "acked 1", 1)]

    def test_a_second_time_is_false(self, store: Store) -> None:
        filled(store, 2)
        reserve(store, 2)
        publication = Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 2))
        assert store.publish(publication)
        assert not store.publish(publication)
        assert store.counts(QUEUE).committed == 2

    def test_is_refused_when_some_were_taken_back(self, store: Store) -> None:
        ids = filled(store, 3)
        reserve(store)
        store.settle([Rollback(ids[1], TOKEN, 0.0)])
        with pytest.raises(LeasesLost):
            store.publish(Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 3)))
        assert store.notes("stream") == []
        assert store.ids_in_hand(QUEUE, TOKEN) == [ids[0], ids[2]]
        assert store.counts(QUEUE).committed == 0
        assert store.publish(Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 2)))

    def test_keeps_no_history_where_none_is_kept(self, store: Store) -> None:
        store.configure(QUEUE, {"history_ttl": 0.0})
        ids = filled(store, 2)
        reserve(store)
        assert store.publish(Publication(WRITE, finish=Finish(QUEUE, TOKEN, 2)))
        assert store.fetch(ids) == {}
        assert store.counts(QUEUE).committed == 2

    def test_frees_what_they_held(self, store: Store) -> None:
        store.set_semaphore("slot", 1)
        slot = limits_text(Limits(("slot",)))
        filled(store, 2, limits=slot)
        filled(store, 2, order_key="k")
        filled(store, 2)
        assert reserve(store) == 4
        assert store.publish(Publication(WRITE, finish=Finish(QUEUE, TOKEN, 4)))
        assert reserve(store, token="next") == 2
        assert store.publish(Publication("write 2", finish=Finish(QUEUE, "next", 2)))
        assert store.counts(QUEUE).committed == 6
        assert store.semaphores()[0].held == 0

    def test_of_many(self, store: Store) -> None:
        for _ in range(3):
            filled(store, 1000)
        assert reserve(store, 3000) == 3000
        assert store.publish(Publication(WRITE, note=self.NOTE, finish=Finish(QUEUE, TOKEN, 3000)))
        assert store.sizes(QUEUE).total == 0
        assert store.counts(QUEUE).committed == 3000

    def test_inputs_end_and_outputs_begin_in_one_step(self, store: Store) -> None:
        filled(store, 3)
        reserve(store)
        publication = staged(store, outputs(5))._replace(note=self.NOTE, finish=Finish(QUEUE, TOKEN, 3))
        if not store.capabilities.atomic_batches:
            with pytest.raises(CannotJoin):
                store.publish(publication)
            assert (store.sizes(OUT).total, store.sizes(QUEUE).running) == (0, 3)
            return
        assert store.publish(publication)
        assert not store.publish(publication)
        assert (store.sizes(OUT).ready, store.sizes(QUEUE).total) == (5, 0)
        assert (store.counts(OUT).pushed, store.counts(QUEUE).committed) == (5, 3)

    def test_or_nothing_is_changed_and_the_stage_is_still_there(self, store: Store) -> None:
        ids = filled(store, 3)
        reserve(store)
        store.settle([Rollback(ids[0], TOKEN, 60.0)])
        publication = staged(store, outputs(5))._replace(note=self.NOTE, finish=Finish(QUEUE, TOKEN, 3))
        with pytest.raises(LeasesLost if store.capabilities.atomic_batches else CannotJoin):
            store.publish(publication)
        if not store.capabilities.atomic_batches:
            assert store.publish(publication._replace(finish=None))
            return
        assert (store.sizes(OUT).total, store.sizes(QUEUE).running) == (0, 2)
        assert store.counts(OUT) == Counts()
        with pytest.raises(StagedJobsLost):
            store.publish(publication._replace(attempts=(("a", 6),), finish=Finish(QUEUE, TOKEN, 2)))
        assert (store.sizes(OUT).total, store.sizes(QUEUE).running) == (0, 2)
        assert store.notes("stream") == []
        assert store.publish(publication._replace(finish=Finish(QUEUE, TOKEN, 2)))
        assert (store.sizes(OUT).ready, store.counts(QUEUE).committed) == (5, 2)
