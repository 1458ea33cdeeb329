"""Publications with a value or with finished jobs in the same step."""

from __future__ import annotations

import pytest

from stanchion.core.spark_errors import LeasesLost, StagedJobsLost
from stanchion.core.values.framing import chunk_with
from stanchion.errors import CannotJoin
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Rollback, Tally
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion_conformance.harness import QUEUE, claim, counts_of, ids_reserved, new_job, row_of, sizes_of, state
from stanchion_conformance.jobs.chunk_contents import chunk
from stanchion_conformance.streams.reserved_jobs import OUT, TOKEN, filled, reserve
from stanchion_conformance.streams.staging import WRITE, outputs, staged

LONG = 20.0


class TestPublishingWithAValue:
    def test_writes_it(self, store: Store) -> None:
        publication = staged(store, outputs(2))._replace(value=ValueChange("stream", "s", "one", 0))
        assert store.publish(publication)
        assert store.values("stream") == [VersionedValue("s", "one", 1)]
        assert store.values("write") == []
        again = staged(store, outputs(2))._replace(value=ValueChange("stream", "s", "two", 1))
        assert store.publish(again), "the value alone tells whether it was published before"
        assert sizes_of(store, OUT).total == 4

    def test_is_false_when_another_was_quicker(self, store: Store) -> None:
        assert store.compare_and_set("stream", "s", "theirs", 0)
        for version in (0, 2):
            publication = staged(store, outputs(2))._replace(value=ValueChange("stream", "s", "mine", version))
            assert not store.publish(publication)
        assert store.values("stream") == [VersionedValue("s", "theirs", 1)]
        assert sizes_of(store, OUT).total == 0
        with pytest.raises(StagedJobsLost):
            store.publish(publication._replace(value=ValueChange("stream", "s", "mine", 1)))
        assert store.values("stream") == [VersionedValue("s", "theirs", 1)]


class TestPublishingWithFinish:
    """Finishing what is reserved; with staged jobs in the same moment only where the store has such moments."""

    VALUE = ValueChange("stream", "s", "acked 1", 0)

    def test_commits_what_is_reserved(self, store: Store) -> None:
        ids = filled(store, 5)
        reserve(store, 3)
        assert store.publish(Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 3)))
        assert [state(store, one) for one in ids] == [JobState.DONE] * 3 + [JobState.READY] * 2
        done = row_of(store, ids[0])
        assert (done.result, done.attempts, done.payload) == (None, 1, "0")
        assert done.finished_at is not None
        assert counts_of(store, QUEUE) == Counts(pushed=5, reserved=3, committed=3)
        assert ids_reserved(store, QUEUE, TOKEN) == []
        assert store.values("stream") == [VersionedValue("s", "acked 1", 1)]

    def test_of_none_reserved(self, store: Store) -> None:
        assert store.publish(Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 0)))
        assert store.values("stream") == [VersionedValue("s", "acked 1", 1)]

    def test_a_second_time_is_false(self, store: Store) -> None:
        filled(store, 2)
        reserve(store, 2)
        publication = Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 2))
        assert store.publish(publication)
        assert not store.publish(publication)
        assert counts_of(store, QUEUE).committed == 2

    def test_is_refused_when_some_were_taken_back(self, store: Store) -> None:
        ids = filled(store, 3)
        reserve(store)
        store.settle([Rollback(Lease(QUEUE, ids[1], TOKEN), 0.0)])
        with pytest.raises(LeasesLost):
            store.publish(Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 3)))
        assert store.values("stream") == []
        assert ids_reserved(store, QUEUE, TOKEN) == [ids[0], ids[2]]
        assert counts_of(store, QUEUE).committed == 0
        assert store.publish(Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 2)))

    def test_keeps_no_history_where_none_is_kept(self, store: Store) -> None:
        store.configure(QUEUE, {"history_ttl": 0.0})
        ids = filled(store, 2)
        reserve(store)
        assert store.publish(Publication(WRITE, finish=Finish(QUEUE, TOKEN, 2)))
        assert store.fetch(ids) == {}
        assert counts_of(store, QUEUE).committed == 2

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
        assert counts_of(store, QUEUE).committed == 6
        assert store.semaphores()[0].held == 0

    def test_of_many(self, store: Store) -> None:
        for _ in range(3):
            filled(store, 1000)
        assert reserve(store, 3000) == 3000
        assert store.publish(Publication(WRITE, value=self.VALUE, finish=Finish(QUEUE, TOKEN, 3000)))
        assert sizes_of(store, QUEUE).total == 0
        assert counts_of(store, QUEUE).committed == 3000

    def test_inputs_end_and_outputs_begin_in_one_step(self, store: Store) -> None:
        filled(store, 3)
        reserve(store)
        publication = staged(store, outputs(5))._replace(value=self.VALUE, finish=Finish(QUEUE, TOKEN, 3))
        if not store.capabilities.atomic_batches:
            with pytest.raises(CannotJoin):
                store.publish(publication)
            assert (sizes_of(store, OUT).total, sizes_of(store, QUEUE).running) == (0, 3)
            return
        assert store.publish(publication)
        assert not store.publish(publication)
        assert (sizes_of(store, OUT).ready, sizes_of(store, QUEUE).total) == (5, 0)
        assert (counts_of(store, OUT).pushed, counts_of(store, QUEUE).committed) == (5, 3)

    def test_or_nothing_is_changed_and_the_stage_is_still_there(self, store: Store) -> None:
        ids = filled(store, 3)
        reserve(store)
        store.settle([Rollback(Lease(QUEUE, ids[0], TOKEN), 60.0)])
        publication = staged(store, outputs(5))._replace(value=self.VALUE, finish=Finish(QUEUE, TOKEN, 3))
        with pytest.raises(LeasesLost if store.capabilities.atomic_batches else CannotJoin):
            store.publish(publication)
        if not store.capabilities.atomic_batches:
            assert store.publish(publication._replace(finish=None))
            return
        assert (sizes_of(store, OUT).total, sizes_of(store, QUEUE).running) == (0, 2)
        assert counts_of(store, OUT) == Counts()
        with pytest.raises(StagedJobsLost):
            store.publish(publication._replace(attempts=(("a", 6),), finish=Finish(QUEUE, TOKEN, 2)))
        assert (sizes_of(store, OUT).total, sizes_of(store, QUEUE).running) == (0, 2)
        assert store.values("stream") == []
        assert store.publish(publication._replace(finish=Finish(QUEUE, TOKEN, 2)))
        assert (sizes_of(store, OUT).ready, counts_of(store, QUEUE).committed) == (5, 2)


class TestPublishingWithEnds:
    """Finishing what is reserved, where the items of some chunks end differently."""

    VALUE = ValueChange("stream", "s", "acked 1", 0)

    def divided(self, store: Store) -> tuple[Finish, list[NewJob], NewJob]:
        """Reserve two chunks and a single job; return how they end: one of the chunks has a failed item."""
        jobs = [chunk(4), chunk(2), new_job("1")]
        store.push(jobs)
        assert reserve(store) == 3
        retry = new_job('"failed"', attempts=1, errors='[{"error":"E"}]', origin=jobs[0].id)
        tallies = Tally(QUEUE, "committed", 3), Tally(QUEUE, "rolled_back", 1), Tally(QUEUE, "pushed", -1)
        rest = chunk_with(3, b"rest")
        end = Commit(Lease(QUEUE, jobs[0].id, TOKEN), payload=rest, jobs=(retry,), tallies=tallies)
        return Finish(QUEUE, TOKEN, 3, (end,)), jobs, retry

    def test_divides_a_chunk(self, store: Store) -> None:
        finish, jobs, retry = self.divided(store)
        publication = Publication(WRITE, value=self.VALUE, finish=finish)
        assert store.publish(publication)
        assert not store.publish(publication)
        done = [row_of(store, job.id) for job in jobs]
        assert [(row.state, row.items) for row in done] == [("done", 3), ("done", 2), ("done", None)]
        assert done[0].payload == chunk_with(3, b"rest")
        (again,) = claim(store, 5)
        assert (again.id, again.attempts, again.errors) == (retry.id, 2, '[{"error":"E"}]')
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.committed, counts.rolled_back) == (7, 6, 1)

    def test_with_new_jobs_in_one_step(self, store: Store) -> None:
        finish, _, retry = self.divided(store)
        publication = staged(store, outputs(5))._replace(value=self.VALUE, finish=finish)
        if not store.capabilities.atomic_batches:
            with pytest.raises(CannotJoin):
                store.publish(publication)
            return
        assert store.publish(publication)
        assert (sizes_of(store, OUT).ready, [row.id for row in claim(store, 5)]) == (5, [retry.id])

    def test_ends_jobs_in_any_way(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "dead"})
        ids = filled(store, 4)
        reserve(store)
        leases = [Lease(QUEUE, one, TOKEN) for one in ids]
        ends = Bury(leases[0], "no"), Rollback(leases[1], 60.0, "later"), Abandon(leases[2], "not needed")
        assert store.publish(Publication(WRITE, finish=Finish(QUEUE, TOKEN, 4, ends)))
        assert [state(store, one) for one in ids] == [
            JobState.DEAD,
            JobState.SCHEDULED,
            JobState.CANCELLED,
            JobState.DONE,
        ]

    def test_not_of_a_job_that_is_reserved_no_longer(self, store: Store) -> None:
        finish, jobs, retry = self.divided(store)
        store.settle([Rollback(Lease(QUEUE, jobs[0].id, TOKEN), 60.0)])
        for number in (2, 3):
            with pytest.raises(LeasesLost):
                store.publish(Publication(WRITE, value=self.VALUE, finish=finish._replace(jobs=number)))
        assert store.values("stream") == []
        assert (store.fetch([retry.id]), sizes_of(store, QUEUE).running) == ({}, 2)
