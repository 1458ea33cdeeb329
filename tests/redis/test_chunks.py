"""Chunks that are divided, and jobs that pass queues, by processes that die at any step on the way."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.core.values.framing import chunk_with, items_in
from stanchion.stores.cas.entries import STALE
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import ExtendFlow, FlowNode, OpenFlow
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Passage, Tally
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.flows import FlowPosition
from stanchion_conformance.harness import counts_of, sizes_of
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, ways
from tests.redis.keys import broken_rules

FROM, VIA, INTO, DEAD = "from", "via", "into", "dead"
QUEUES = (FROM, VIA, INTO, DEAD)
LEASE, HOUR = 30.0, 3600.0
ERRORS = '[{"error":"E"}]'


def chunk(items: int, queue: str = FROM, **fields: Any) -> NewJob:
    return NewJob(**{"id": new_id(), "queue": queue, "payload": chunk_with(items, b"\x1d\x1e\x1f\xff"), **fields})


def reserved(store: RedisStore, *jobs: NewJob) -> list[JobRow]:
    store.set_semaphore("slot", 5, declared=False)
    store.push(jobs)
    return store.claim(Claim(FROM, 9, new_id(), lease=LEASE)).rows


def divided(row: JobRow, queue: str) -> Commit:
    """Divide a chunk of ten, the same way whenever it is asked: six go on, three fail in `queue`, one is dead."""
    parts = (
        chunk(6, INTO, id=f"{row.id}1", origin=row.id),
        chunk(3, queue, id=f"{row.id}2", origin=row.id, attempts=1, errors=ERRORS),
        NewJob(f"{row.id}3", DEAD, "1", origin=row.id, attempts=1, errors=ERRORS, dead_from=queue),
    )
    tallies = (Tally(queue, "moved", 6), Tally(queue, "rolled_back", 3), Tally(queue, "buried", 1))
    return Commit(row.lease, jobs=parts, tallies=(*tallies, Tally(queue, "pushed", -3)))


def passed(row: JobRow) -> Pass:
    """Take a chunk through a queue into the next, and divide it there."""
    return Pass(row.lease, (Passage(VIA), Passage(INTO, changed=True)), divided(row, INTO), chunk_with(10, b"\xfe"))


def at_rest(store: RedisStore) -> None:
    """Check that nothing is left half done."""
    assert [rule for queue in QUEUES for rule in broken_rules(store, queue)] == []
    assert list(store._jobs.entries(store.now() + SECOND)) == []
    assert store._jobs.places.with_any(QUEUES, "leaving") == []
    assert list(store._slot_rows.holds()) == []


def look_after(store: RedisStore, seconds: float) -> None:
    """Do what workers do now and then, once what a dead process held is given up."""
    store.clock_offset += seconds
    store.recover(limit=0)
    store.maintain()


@ways
@pytest.mark.parametrize("outcome", [lambda row: divided(row, FROM), passed], ids=["divided", "passed"])
def test_each_item_is_once_wherever_its_process_dies(opened: Open, url: str, way: Way, outcome: Any) -> None:
    slot, done = limits_text(Limits(("slot",))), set[bool]()

    def act(store: RedisStore, rows: list[JobRow]) -> None:
        assert store.settle([outcome(row) for row in rows]) == [JobState.DONE] * 2

    for scene in at_every_call(
        opened, url, way, lambda store: reserved(store, chunk(10), chunk(10, order_key="k", limits=slot)), act
    ):
        store, rows = scene.witness, scene.made
        look_after(store, STALE / SECOND + 1)
        look_after(store, HOUR)
        look_after(store, 2 * HOUR)
        place = INTO if outcome is passed else FROM
        divisions = 0
        for row in rows:
            whole = store.fetch([row.id])[row.id]
            parts = store.fetch([f"{row.id}{number}" for number in (1, 2, 3)])
            if whole.state != JobState.DONE:
                assert (whole.queue, whole.items, parts) == (FROM, 10, {})
                continue
            divisions += 1
            assert (whole.queue, whole.items) == (place, 0)
            assert [parts[f"{row.id}{number}"].items for number in (1, 2, 3)] == [6, 3, None]
            assert (parts[f"{row.id}2"].failures, parts[f"{row.id}3"].dead_from) == (1, place)
        counts = counts_of(store, place)
        assert (counts.moved, counts.rolled_back, counts.buried) == (6 * divisions, 3 * divisions, divisions)
        if outcome is passed:
            assert (counts_of(store, FROM).moved, counts_of(store, VIA).reserved) == (10 * divisions, 10 * divisions)
        assert counts_of(store, DEAD).pushed == divisions
        store.recover()
        store.cancel([row.id for row in rows])
        at_rest(store)
        done.add(divisions == 2)
    assert done == ({True} if way == "lost" else {False, True})


def test_the_keys_agree_after_each_step(one: RedisStore) -> None:
    slot = limits_text(Limits(("slot",)))
    one.configure(FROM, {"dead_letter": DEAD})
    rows = reserved(one, chunk(2, key="k", lane=3, expires=HOUR), chunk(3, order_key="o", limits=slot), chunk(4))
    assert [items_in(row.payload) for row in rows] == [row.items for row in rows]
    assert broken_rules(one, FROM) == []
    keyed = chunk(5, INTO, key="k", attempts=2, errors=ERRORS, lane=2)
    gone = chunk(6, INTO, attempts=2, errors=ERRORS, dead_from=INTO)
    ends: list[Outcome] = [
        Move(rows[0].lease, INTO, chunk_with(9, b"\xff")),
        Pass(rows[1].lease, (Passage(VIA),), Commit(rows[1].lease, jobs=(keyed, gone))),
        passed(rows[2]),
    ]
    assert JobState.DONE in one.settle(ends)
    at_rest(one)
    (again,) = one.push([chunk(7, INTO, key="k")])
    assert (again.id, again.duplicate) == (keyed.id, True)
    assert one.fetch([gone.id])[gone.id].state == JobState.DEAD


def test_pushed_times_are_those_stored(one: RedisStore) -> None:
    jobs = [chunk(2), chunk(3, delay=5.0), NewJob(new_id(), FROM, "1", delay=5.0), chunk(4, INTO)]
    for told in one.push(jobs):
        row = one.fetch([told.id])[told.id]
        assert (told.run_at, told.enqueued_at) == (row.run_at, row.enqueued_at)


def test_one_not_handed_out_gives_all_its_starts_back(one: RedisStore) -> None:
    one.configure(FROM, {"max_rate": 100.0})
    one.set_semaphore("slot", 1, declared=False)
    slot = limits_text(Limits(("slot",)))
    one.push([chunk(5, limits=slot), chunk(7, limits=slot)])
    (row,) = one.claim(Claim(FROM, 9, new_id(), lease=LEASE)).rows
    assert (counts_of(one, FROM).reserved, sizes_of(one, FROM).waiting) == (row.items, 1)
    tokens = float(one.server.command("HGET", one.server.keys.queue(FROM) + "settings", "rate_tokens"))
    assert tokens == pytest.approx(10.0 - (row.items or 0))


def test_a_queue_expires_with_its_chunks(one: RedisStore) -> None:
    one.configure(FROM, {"expires": HOUR, "expires_with_jobs": True})
    one.push([chunk(5), NewJob(new_id(), FROM, "1")])
    one.maintain()
    one.clock_offset += HOUR
    one.maintain()
    assert one.queues([FROM]) == []


@pytest.mark.parametrize("once", [None, new_id()], ids=["each time", "once"])
def test_a_chunk_is_a_member_of_a_flow(one: RedisStore, once: str | None) -> None:
    root = new_id()
    node = FlowNode(root, root, "list", closed=False)
    member = chunk(4)._replace(**FlowPosition(root, root, 0)._asdict())
    assert one.change_flows([OpenFlow([node], []), ExtendFlow(root, [member], once=once)]) == [True, True]
    (row,) = one.claim(Claim(FROM, 9, new_id(), lease=LEASE)).rows
    assert (row.id, row.payload, row.items) == (member.id, member.payload, 4)
    assert one.settle([Commit(row.lease, member.payload)]) == [JobState.DONE]
    (end,) = one.flow_ends(root)
    assert (end.job, end.result) == (member.id, member.payload)
    assert counts_of(one, FROM).committed == 4
