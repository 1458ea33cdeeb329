"""The waits of a job that are over: each step that lets it go on, or ends it, adds what it waited for."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Queue, Stanchion, chain
from stanchion.context import context_of
from stanchion.context.queues.pauses import PAUSES_MAX, past_pauses_of
from stanchion.copying.transfer import Transfer
from stanchion.core.ids import new_id
from stanchion.jobs import facts
from stanchion.queues.waiting import past_waits
from stanchion.stores.hand_over import hand_over, queued_portions
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Move, Rollback
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.lifecycle.past_waits import WAITS_MAX, has_older_waits, past_waits_of
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle

MINUTES = 240
NAMES = ("mail", "it's", 'say "so"', '["mail",', "back\\slash", "a%_b", "50 % :now", "ünï🦆", "+", "x" * 200)


def waited(store: Store, job_id: str) -> list[tuple[str, str]]:
    """Return what a job has waited for: the kinds and names of the slots, in order."""
    return [(slot.kind, slot.name) for slot, _, _ in past_waits_of(row_of(store, job_id))]


def one_wait(store: Store, job_id: str) -> tuple[str, str, str]:
    """Return the slot of the only wait of a job, after a check that it took MINUTES."""
    ((slot, since, until),) = past_waits_of(row_of(store, job_id))
    assert MINUTES <= (until - since) / SECOND < MINUTES + 60
    assert until <= store.now() + SECOND  # another store's clock may have stamped it
    return slot


def parked(store: Store, *semaphores: str, **fields: Any) -> tuple[JobRow, str]:
    """Claim a job and park another one behind it; return the former, and the id of the latter."""
    _, second = push(store, *(limited(*semaphores, **fields) if semaphores else new_job(**fields) for _ in range(2)))
    (holder,) = claim(store, 2)
    assert row_of(store, second).state == "waiting"
    return holder, second


class TestPastWaits:
    def test_a_job_that_never_waited_has_none(self, store: Store) -> None:
        (one,) = push(store, limited(SMTP, order_key="k"))
        (row,) = claim(store)
        settle(store, Rollback(row.lease, 0.0, error="no"))
        commit(store, *claim(store))
        assert row_of(store, one).past_waits is None

    def test_for_a_semaphore(self, store: Store, clock: StoreClock) -> None:
        holder, second = parked(store, SMTP)
        assert row_of(store, second).past_waits is None
        clock.advance(MINUTES)
        commit(store, holder)
        assert one_wait(store, second) == ("semaphore", "", SMTP)
        assert row_of(store, holder.id).past_waits is None

    def test_for_an_order_key(self, store: Store, clock: StoreClock) -> None:
        holder, second = parked(store, order_key="customer-5512")
        clock.advance(MINUTES)
        commit(store, holder)
        assert one_wait(store, second) == ("order", QUEUE, "customer-5512")

    def test_for_an_order_key_whose_holder_fails_for_good(self, store: Store, clock: StoreClock) -> None:
        holder, second = parked(store, order_key="customer-5512")
        clock.advance(MINUTES)
        settle(store, Bury(holder.lease, "no"))
        assert one_wait(store, second) == ("order", QUEUE, "customer-5512")

    def test_for_a_rate_until_the_time_that_it_was_promised(self, store: Store) -> None:
        rate = Rate("welcome/acme", 0.01)
        _, second = push(store, limited(rate=rate), limited(rate=rate))
        assert len(claim(store, 2)) == 1
        row = row_of(store, second)
        ((slot, since, until),) = past_waits_of(row)
        assert (slot, until) == (("rate", "", rate.name), row.run_at)
        assert 95 <= (until - since) / SECOND <= 101

    def test_for_a_rate_is_not_over_before(self, q: Queue, store: Store, clock: StoreClock) -> None:
        rate = Rate("welcome/acme", 0.01)
        _, second = push(store, limited(rate=rate), limited(rate=rate))
        claim(store, 2)
        assert [job.past_waits for job in q.find(state="scheduled")] == [[]]
        clock.advance(101)
        assert [len(job.past_waits) for job in q.find(state="ready") if job.id == second] == [1]

    def test_for_a_rate_again_goes_on_from_there(self, store: Store, clock: StoreClock) -> None:
        rate = Rate("welcome/acme", 0.01)
        ids = push(store, *(limited(rate=rate) for _ in range(3)))
        claim(store, 3)
        before = [past_waits_of(row_of(store, one))[0] for one in ids[1:]]
        clock.advance(1000)
        assert [row.id for row in claim(store, 3)] == [ids[1]]
        last = row_of(store, ids[2])
        assert past_waits_of(last) == [before[1]._replace(until=last.run_at)]

    def test_for_a_rate_until_it_is_retried(self, store: Store, clock: StoreClock) -> None:
        rate = Rate("welcome/acme", 0.0001)
        _, second = push(store, limited(rate=rate), limited(rate=rate))
        claim(store, 2)
        clock.advance(MINUTES)
        store.retry([second])
        assert one_wait(store, second) == ("rate", "", rate.name)

    def test_for_a_part_of_its_flow(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        add = app.task(name="add", queue=QUEUE)(lambda *terms: sum(terms))
        flow = chain(add.s(1), add.s(2)).enqueue()
        clock.advance(MINUTES)
        app.drain()
        assert flow.result() == 3
        waits = [past_waits_of(row) for row in store.fetch([job.id for job in flow.members()]).values()]
        ((slot, since, until),) = next(filter(None, waits))
        assert sorted(map(len, waits)) == [0, 1]
        assert slot.kind == "node"
        assert MINUTES <= (until - since) / SECOND < MINUTES + 60

    def test_for_more_capacity(self, store: Store, clock: StoreClock) -> None:
        _, second = parked(store, SMTP)
        clock.advance(MINUTES)
        store.set_semaphore(SMTP, 2)
        assert one_wait(store, second) == ("semaphore", "", SMTP)

    def test_until_it_is_cancelled(self, store: Store, clock: StoreClock) -> None:
        _, second = parked(store, SMTP)
        clock.advance(MINUTES)
        assert store.cancel([second]) == ["cancelled"]
        assert one_wait(store, second) == ("semaphore", "", SMTP)

    def test_until_its_flow_is_stopped(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        add = app.task(name="add", queue=QUEUE)(lambda *terms: sum(terms))
        flow = chain(add.s(1), add.s(2)).enqueue()
        (waiting,) = app.queue(QUEUE).find(state="waiting")
        clock.advance(MINUTES)
        flow.cancel()
        store.recover()
        assert one_wait(store, waiting.id)[0] == "node"

    def test_until_it_is_replaced(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        app.semaphore(SMTP, capacity=1)
        for key in ("a", "b"):
            q.push({}, key=key, limits=[SMTP])
        q.reserve(2)
        (waiting,) = q.find(state="waiting")
        clock.advance(MINUTES)
        q.push({"n": 2}, key="b", on_duplicate="replace", limits=[SMTP])
        assert one_wait(store, waiting.id) == ("semaphore", "", SMTP)


class TestPastPauses:
    def test_are_among_the_waits_of_a_job_that_was_there(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        before = q.push({})
        q.reserve()[0].commit()
        clock.advance(5)
        during = q.push({})
        clock.advance(5)
        began = store.now()
        q.pause("the provider is down", "ana")
        clock.advance(MINUTES)
        later = q.push({})
        clock.advance(MINUTES)
        q.resume()
        ended = store.now()
        after = q.push({})
        found = [app.get(job.id) for job in (before, during, later, after)]
        waits = [past_waits(context_of(app), job) for job in found if job is not None]
        assert [[(one.kind, one.name) for one in some] for some in waits] == [[], *[[("pause", QUEUE)]] * 2, []]
        (whole,), (part,) = waits[1:3]
        assert began <= whole.since.timestamp() * SECOND <= whole.until.timestamp() * SECOND <= ended
        assert (part.since, part.until) == (later.enqueued_at, whole.until)

    def test_of_each_queue_on_its_way(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({})
        for name in (QUEUE, "next"):
            queue = app.queue(name)
            queue.configure(paused=True)
            clock.advance(MINUTES)
            queue.configure(paused=False)
            queue.reserve()[0].move("next" if name == QUEUE else "last")
            clock.advance(5)
        job = app.get(pushed.id)
        assert job is not None
        assert [(one.kind, one.name) for one in past_waits(context_of(app), job)] == [
            ("pause", QUEUE),
            ("pause", "next"),
        ]

    def test_the_newest_are_kept_each_with_its_note(self, q: Queue, store: Store, clock: StoreClock) -> None:
        for number in range(PAUSES_MAX + 2):
            q.pause(f"why {number}", "ana")
            clock.advance(1)  # clocks of some stores tick once a millisecond, and a pause of no length is none
        q.resume()
        q.resume()
        kept = past_pauses_of(store, [QUEUE])[QUEUE]
        assert [one.note for one in kept] == [f"why {number}" for number in range(2, PAUSES_MAX + 2)]
        assert all(one.since <= one.until and one.who == "ana" for one in kept)


class TestSeveralPastWaits:
    def test_for_an_order_key_and_then_a_semaphore(self, store: Store) -> None:
        other = claim(store, 1, queue=push_other(store))
        _, second = push(store, new_job(order_key="k"), limited(SMTP, order_key="k"))
        (holder,) = claim(store, 2)
        commit(store, holder)
        assert claim(store) == []
        commit(store, *other)
        assert waited(store, second) == [("order", "k"), ("semaphore", SMTP)]
        assert [row.id for row in claim(store)] == [second]

    def test_for_the_same_slot_twice(self, store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        (row,) = claim(store)
        push_other(store)
        assert claim(store, queue="other") == []
        settle(store, Rollback(row.lease, 0.0, error="no"))
        other = claim(store, 1, queue="other")
        assert claim(store) == []
        commit(store, *other)
        assert waited(store, second) == [("semaphore", SMTP)] * 2
        first, last = past_waits_of(row_of(store, second))
        assert first.until <= last.since <= last.until

    def test_only_the_newest_are_kept(self, store: Store) -> None:
        names = [f"slot {number:02}" for number in range(WAITS_MAX + 2)]
        blocking = push(store, *(limited(name, queue="other") for name in names))
        rows = claim(store, len(names), queue="other")
        assert [row.id for row in rows] == blocking
        (one,) = push(store, limited(*names))
        for number, row in enumerate(rows):
            assert claim(store) == []
            commit(store, row)
            kept = names[max(0, number - WAITS_MAX + 1) : number + 1]
            assert waited(store, one) == [("semaphore", name) for name in kept]
            assert has_older_waits(row_of(store, one)) == (number >= WAITS_MAX)
        assert [row.id for row in claim(store)] == [one]

    @pytest.mark.parametrize("name", NAMES)
    def test_names_are_kept_as_they_are(self, store: Store, name: str) -> None:
        holder, second = parked(store, name, order_key=name[:200])
        commit(store, holder)
        assert waited(store, second) == [("order", name)]
        commit(store, *claim(store))
        holder, third = parked(store, name)
        commit(store, holder)
        assert waited(store, third) == [("semaphore", name)]


class TestWaitsGoWithTheJob:
    def test_to_its_worker_they_do_not(self, store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        (row,) = claim(store)
        assert (row.id, row.past_waits) == (second, None)
        assert waited(store, second) == [("semaphore", SMTP)]

    def test_into_history_and_back(self, store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        (row,) = claim(store)
        settle(store, Bury(row.lease, "no"))
        assert (row_of(store, second).state, waited(store, second)) == ("dead", [("semaphore", SMTP)])
        store.retry([second])
        assert waited(store, second) == [("semaphore", SMTP)]
        commit(store, *claim(store))
        assert (row_of(store, second).state, waited(store, second)) == ("done", [("semaphore", SMTP)])

    def test_to_another_queue(self, store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        (row,) = claim(store)
        settle(store, Move(row.lease, "next"))
        assert waited(store, second) == [("semaphore", SMTP)]
        commit(store, *claim(store, queue="next"))
        assert waited(store, second) == [("semaphore", SMTP)]

    def test_to_the_dead_letters_and_back(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "dead"})
        holder, second = parked(store, SMTP)
        commit(store, holder)
        (row,) = claim(store)
        settle(store, Bury(row.lease, "no"))
        store.retry([second])
        assert (row_of(store, second).queue, waited(store, second)) == (QUEUE, [("semaphore", SMTP)])

    def test_to_another_store(self, store: Store, other_store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        row, copied, ended = row_of(store, second), new_id(), new_id()
        there = [
            row._replace(id=copied, slots_held=0, slots_hold=None, limits=None),
            row._replace(id=ended, state="done", finished_at=store.now()),
        ]
        assert other_store.adopt(there) == [True, True]
        assert [row_of(store, one).past_waits for one in (copied, ended)] == [row.past_waits] * 2

    def test_to_another_store_while_it_waits(self, store: Store, clock: StoreClock) -> None:
        _, second = parked(store, SMTP)
        clock.advance(MINUTES)
        there = copied(store, clock.governs(MemoryStore()))
        assert one_wait(there, second) == ("semaphore", "", SMTP)

    def test_to_another_store_while_its_rate_defers_it(self, store: Store) -> None:
        rate = Rate("welcome/acme", 0.01)
        _, second = push(store, limited(rate=rate), limited(rate=rate))
        claim(store, 2)
        before = row_of(store, second)
        after = row_of(copied(store, MemoryStore()), second)
        assert (after.past_waits, after.run_at) == (before.past_waits, before.run_at)

    def test_to_the_shard_of_its_partition(self, store: Store, clock: StoreClock) -> None:
        _, second = parked(store, order_key="k")
        clock.advance(MINUTES)
        there = clock.governs(MemoryStore())
        assert sum(hand_over(store, there, rows).moved for rows in queued_portions(store, QUEUE)) == 1
        assert one_wait(there, second) == ("order", QUEUE, "k")

    def test_not_to_a_copy(self, q: Queue, store: Store) -> None:
        holder, second = parked(store, SMTP)
        commit(store, holder)
        commit(store, *claim(store))
        (copy,) = q.replay([second])
        assert row_of(store, copy.id).past_waits is None

    def test_a_job_tells_them(self, q: Queue, store: Store) -> None:
        holder, second = parked(store, SMTP, order_key="k")
        commit(store, holder)
        job = q.get(second)
        assert job is not None
        ((kind, name, since, until),) = job.past_waits
        assert (kind, name, facts.has_older_waits(job)) == ("order_key", "k", False)
        assert job.enqueued_at <= since <= until


def copied(store: Store, there: Store) -> Store:
    """Copy the queue to another store, which is returned; its running job stays."""
    (done,) = Transfer(store, there, [QUEUE], settle=0, wait=0).run()
    assert (done.live, done.running) == (1, 1)
    return there


def push_other(store: Store) -> str:
    """Push a job of another queue that needs the semaphore; return the queue."""
    push(store, limited(SMTP, queue="other"))
    return "other"
