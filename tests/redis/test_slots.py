"""Slots, and processes that die at any step on the way to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.cas.entries import STALE, Hold
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Rollback
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion.stores.rules.capacity.rate_limit import Bucket, Promise
from stanchion.stores.rules.capacity.slots import Asking, order_slot, semaphore_slot, slots_of
from stanchion.waits.pop import pop
from stanchion_conformance.harness import sizes_of
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, ways
from tests.redis.keys import broken_rules

QUEUES = ("orders", "shipping")
SMTP, DISK = "smtp", "disk"
LEASE = 30.0


def limited(*semaphores: str, queue: str = QUEUES[0], **fields: Any) -> NewJob:
    return NewJob(new_id(), queue, "{}", limits=limits_text(Limits(semaphores)), **fields)


def claimed(store: RedisStore, queue: str = QUEUES[0], limit: int = 9) -> list[JobRow]:
    return store.claim(Claim(queue, limit, new_id(), lease=LEASE)).rows


def crowd(store: RedisStore) -> list[JobRow]:
    """Have two semaphores and an order key be wanted by jobs of two queues, and some of the first one run."""
    store.set_semaphore(SMTP, 1)
    store.set_semaphore(DISK, 2)
    for queue in QUEUES:
        store.push(
            [
                limited(SMTP, queue=queue),
                limited(SMTP, DISK, queue=queue),
                limited(DISK, queue=queue, order_key="k"),
                limited(queue=queue, order_key="k"),
                NewJob(new_id(), queue, "{}"),
            ]
        )
    return claimed(store)


def unsound(store: RedisStore) -> list[str]:
    """Return what is wrong with the slots."""
    wrong = [rule for queue in QUEUES for rule in broken_rules(store, queue)]
    holds = list(store._slot_rows.holds())
    rows = store.fetch([hold.job for hold in holds])
    for hold in holds:
        row = rows.get(hold.job)
        if row is None or row.finished_at is not None or hold.slot not in slots_of(row):
            wrong.append(f"{hold} is of a job that has no right to it")
        elif row.waits_for == hold.slot:
            wrong.append(f"{hold} is of a job that waits for it")
    for semaphore in store.semaphores():
        if semaphore.held > semaphore.capacity:
            wrong.append(f"{semaphore} is held by too many")
        if semaphore.waiting and semaphore.held < semaphore.capacity:
            wrong.append(f"{semaphore} is waited for, and free")
    for queue in QUEUES:
        first = store._slot_rows.first_live_each([(queue, "k")])[0]
        held = {hold.job for hold in holds if hold.slot == order_slot(queue, "k")}
        if first is not None and first.row.waits_for == order_slot(queue, "k"):
            wrong.append(f"the first of its key waits: {first.row}, behind {held}")
    wrong += [f"left to do: {entry}" for entry in store._jobs.entries(store.now() + SECOND)]
    return wrong


def look_after(store: RedisStore) -> None:
    """Do what workers do now and then, once what a dead process held is given up."""
    store.clock_offset += LEASE + STALE / SECOND + 1
    store.recover(limit=0)
    store.recover()
    store.recover(limit=0)


def run_out(store: RedisStore) -> set[str]:
    """Run all jobs to their ends, and return them; nothing may be held then."""
    done: set[str] = set()
    while True:
        rows = [row for queue in QUEUES for row in claimed(store, queue)]
        if not rows:
            break
        states = store.settle([Commit(row.lease) for row in rows])
        assert set(states) == {JobState.DONE}
        done |= {row.id for row in rows}
    assert [sizes_of(store, queue).total for queue in QUEUES] == [0, 0]
    assert list(store._slot_rows.holds()) == []
    return done


def settling(outcome: Callable[[JobRow], Outcome]) -> Callable[[RedisStore, list[JobRow]], object]:
    return lambda store, rows: store.settle([outcome(row) for row in rows])


STEPS: dict[str, Callable[[RedisStore, list[JobRow]], object]] = {
    "claim": lambda store, _rows: claimed(store, QUEUES[1]),
    "pop": lambda store, _rows: pop(store, Claim(QUEUES[1], 9, new_id())).rows,
    "commit": settling(lambda row: Commit(row.lease)),
    "roll back": settling(lambda row: Rollback(row.lease, 0.0, "no")),
    "move": settling(lambda row: Move(row.lease, QUEUES[1])),
    "cancel": lambda store, _rows: store.cancel([row.id for row in waiting(store)]),
    "delete": lambda store, _rows: store.delete([row.ref for row in waiting(store)]),
    "raise": lambda store, _rows: store.set_semaphore(SMTP, 3),
    "drop": lambda store, _rows: store.drop_queue(QUEUES[0]),
}


def waiting(store: RedisStore) -> list[JobRow]:
    slots = (semaphore_slot(SMTP), semaphore_slot(DISK), *(order_slot(queue, "k") for queue in QUEUES))
    return [seen.row for slot in slots for seen in store._slot_rows.waiting_at(slot, 9)]


class TestDeath:
    @ways
    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.one_in_each("way", "step")
    def test_leaves_no_free_slot_idle(self, opened: Open, url: str, way: Way, step: str) -> None:
        scenes = 0
        for scene in at_every_call(opened, url, way, crowd, STEPS[step]):
            store = scene.witness
            if way != "lost" and not scene.died:
                assert unsound(store) == []  # without a death there is nothing to look after
            look_after(store)
            assert unsound(store) == []
            run_out(store)
            scenes += 1
        assert scenes > 2

    def test_between_listing_a_slot_and_taking_it(self, one: RedisStore) -> None:
        one.server.command("ZADD", one.server.keys.own("slots"), one.now(), "s:unused")
        assert list(one._slot_rows.holds()) == []
        one.clock_offset += 61
        one.recover(limit=0)
        assert one.server.command("ZCARD", one.server.keys.own("slots")) == 0

    def test_of_one_that_came_too_late_with_its_hold(self, one: RedisStore) -> None:
        one.set_semaphore(SMTP, 1)
        one.push([limited(SMTP)])
        assert one._slot_rows.take_each([Hold(semaphore_slot(SMTP), new_id(), "late")]) == [True]
        assert claimed(one) == []
        one.recover(limit=0)
        assert len(claimed(one)) == 1


class TestKeys:
    def test_of_an_order_key_go_when_it_is_free(self, one: RedisStore) -> None:
        one.push([NewJob(new_id(), QUEUES[0], "{}", order_key=f"k{number}") for number in range(20)])
        rows = claimed(one, limit=20)
        assert len(list(one.server.client.scan_iter(f"{one.server.keys.own('slot')}:*"))) == 20
        one.settle([Commit(row.lease) for row in rows])
        assert list(one.server.client.scan_iter(f"{one.server.keys.own('slot')}:*")) == []

    def test_of_a_rate_go_when_its_bucket_is_full(self, one: RedisStore) -> None:
        one._slot_rows.spend([Asking(Rate(f"r{number}", 0.02)) for number in range(50)] + [Asking(Rate("slow", 0.001))])
        ttls = [one.server.client.pttl(key) for key in one.server.client.scan_iter(f"{one.server.keys.own('rate')}:r*")]
        assert len(ttls) == 50
        assert all(40_000 < ttl <= 51_000 for ttl in ttls)
        assert one.server.client.pttl(one.server.keys.own("rate:slow")) > 999_000

    def test_of_a_queue_go_with_it(self, one: RedisStore) -> None:
        crowd(one)
        one.drop_queue(QUEUES[0])
        assert list(one.server.client.scan_iter(one.server.keys.queue(QUEUES[0]) + "*")) == []


@pytest.mark.parametrize("per_second", [5.0, 30.0])
def test_a_rate_is_the_bucket_of_all_stores(one: RedisStore, per_second: float) -> None:
    rate = Rate("r", per_second)
    bucket = Bucket(rate.per_second, 0.0, 0)
    step, refused = 0.0, 0
    clock = int(one.server.client.time()[0]) * SECOND
    for starts in (1, 4, 1, 2, 5, 1, 1, 3, 9, 2, 1, 1, 6):
        one.clock_offset = (clock - one.now()) / SECOND + one.clock_offset + step
        promises = [(None, Promise(clock, again=True), Promise(clock, again=False))[n * n % 3] for n in range(starts)]
        answers = one._slot_rows.spend([Asking(rate, promise) for promise in promises])
        at = stored_moment(one, rate)
        for answer, promise in zip(answers, promises, strict=True):
            bucket, due = bucket.asked(at, promise)
            assert answer == due
            refused += due is not None
        step += 0.05
    assert refused


def stored_moment(store: RedisStore, rate: Rate) -> int:
    """Return the moment of the last visit to a bucket."""
    found = store.server.client.hget(store.server.keys.own(f"rate:{rate.name}"), "filled_at")
    assert found is not None
    return int(found)


def test_a_semaphore_of_which_a_key_was_lost_is_declared_again(one: RedisStore) -> None:
    assert one.set_semaphore(SMTP, 2, declared=True)
    key = one.server.keys.slot(semaphore_slot(SMTP))
    for lose in (
        ("UNLINK", f"{key}capacity"),
        ("UNLINK", f"{key}declared"),
        ("SREM", one.server.keys.own("semaphores"), SMTP),
    ):
        assert not one.set_semaphore(SMTP, 2, declared=True)
        one.server.command(*lose)
        assert one.set_semaphore(SMTP, 2, declared=True)
        assert [(row.name, row.capacity) for row in one.semaphores()] == [(SMTP, 2)]
