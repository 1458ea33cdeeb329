"""A process dies, loses an answer or meets another one at any command: after outbox recovery all slots are right."""

from collections import Counter
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRef, JobRow, JobState
from stanchion.stores.records.outcomes import Bury, Commit, Move, Outcome, Rollback
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion.stores.rules.capacity.slots import semaphore_slot, slots_of
from stanchion.stores.rules.lifecycle.jobs import detached
from stanchion.waits.pop import pop as popped
from stanchion_conformance.harness import counts_of
from tests.mongo import inside
from tests.mongo.acts import Act, World, settled
from tests.mongo.aftermath import finish, jobs, take_back
from tests.mongo.cutting import Begin, cut_at_any_command

CAPACITY = 2


def limited(world: World, count: int, **fields: Any) -> list[str]:
    """Push jobs that need a slot of the world's semaphore."""
    world.store.set_semaphore(world.queue, CAPACITY)
    return world.push(count, **{"limits": limits_text(Limits((world.queue,))), **fields})


def claim(world: World) -> Act:
    limited(world, 4)
    wish = Claim(world.queue, 3, new_id(), repeat=True)
    return lambda store: len(store.claim(wish).rows)


def claim_two_kinds(world: World) -> Act:
    limited(world, 3, order_key="k")
    limited(world, 2)
    wish = Claim(world.queue, 4, new_id(), repeat=True)
    return lambda store: len(store.claim(wish).rows)


def claim_under_a_rate(world: World) -> Act:
    rate = Rate(world.queue, 0.01)
    limited(world, 3, limits=limits_text(Limits((world.queue,), rate)))
    wish = Claim(world.queue, 2, new_id(), repeat=True)
    return lambda store: len(store.claim(wish).rows)


def commit(world: World) -> Act:
    limited(world, 5)
    rows = world.claim(2)
    world.claim(3)
    return settled([Commit(row.lease) for row in rows])


def commit_in_order(world: World) -> Act:
    world.push(3, order_key="k")
    rows = world.claim(3)
    return settled([Commit(row.lease) for row in rows])


def give_back_and_move(world: World) -> Act:
    limited(world, 5, order_key="a")
    limited(world, 1, order_key="b")
    first, second = world.claim(6)
    outcomes: list[Outcome] = [
        Rollback(first.lease, 60.0, "no"),
        Move(second.lease, world.other),
    ]
    return settled(outcomes)


def bury(world: World) -> Act:
    world.store.configure(world.queue, {"dead_letter": world.other})
    limited(world, 2, order_key="k")
    limited(world, 2)
    rows = world.claim(4)
    return settled([Bury(row.lease, "no") for row in rows])


def recover(world: World) -> Act:
    limited(world, 4)
    world.claim(4, lease=5.0)
    world.clock.advance(6)
    return lambda store: len(store.recover())


def cancel(world: World) -> Act:
    ids = limited(world, 5)
    rows = world.claim(5)
    world.store.settle([Commit(row.lease) for row in rows])
    return lambda store: store.cancel(ids[2:4])


def replace(world: World) -> Act:
    limited(world, 3)
    limited(world, 1, key="k")
    rows = world.claim(4)
    world.store.settle([Commit(row.lease) for row in rows])
    job = world.new(key="k", on_duplicate="replace", delay=50.0)
    return lambda store: [pushed.duplicate for pushed in store.push([job])]


def pop(world: World) -> Act:
    limited(world, 2)
    world.push(1)
    limited(world, 2, order_key="k")
    token = new_id()
    return lambda store: len(popped(store, Claim(world.queue, 5, token)).rows) >= 0


def resize(world: World) -> Act:
    limited(world, 5)
    world.claim(5)
    return lambda store: store.set_semaphore(world.queue, CAPACITY + 2)


def delete(world: World) -> Act:
    world.may_vanish = True
    ids = limited(world, 5)
    rows = world.claim(5)
    world.store.settle([Commit(row.lease) for row in rows])
    return lambda store: len(store.delete([JobRef(one) for one in ids[2:]])) >= 0


def adopt(world: World) -> Act:
    world.may_vanish = True
    (job,) = limited(world, 1)
    (row,) = world.store.fetch([job]).values()
    world.store.delete([row.ref])
    there = detached(row, world.store.now())
    return lambda store: store.adopt([there])


def drop_queue(world: World) -> Act:
    world.may_vanish = True
    limited(world, 3)
    world.claim(3)
    limited(world, 2, queue=world.other)
    world.store.claim(Claim(world.other, 2, new_id()))
    return lambda store: store.drop_queue(world.queue) >= 0


ACTS: list[Begin] = [
    claim,
    claim_two_kinds,
    claim_under_a_rate,
    commit,
    commit_in_order,
    give_back_and_move,
    bury,
    recover,
    cancel,
    replace,
    pop,
    resize,
    delete,
    adopt,
    drop_queue,
]


def check(store: MongoStore, world: World) -> None:
    """Clear up as other processes would, look at the slots, and finish what is live, within all limits."""
    within_limits(store, [])
    take_back(store, world)
    store.recover(limit=0)
    at_rest(store, world)
    finish(store, world, lambda rows: within_limits(store, rows))
    at_rest(store, world)
    store.recover(limit=0)
    assert not [hold for hold in inside.holds(store) if hold.job in world.ids]
    found = jobs(store, world)
    assert world.may_vanish or {row.id for row in found} == set(world.ids)
    store.maintain()
    assert not inside.entries(store)
    counts = [counts_of(store, queue) for queue in (world.queue, world.other)]
    if not world.may_vanish:
        assert sum(one.pushed for one in counts) == len(world.ids)
        assert sum(one.committed + one.popped for one in counts) == sum(row.state == JobState.DONE for row in found)
    assert min(one.reserved for one in counts) >= 0
    for queue in (world.queue, world.other):
        store.drop_queue(queue)


def within_limits(store: MongoStore, handed_out: list[JobRow]) -> None:
    """Check that no slot is held by more than it may be, and that these jobs hold all that they need."""
    capacity = {semaphore_slot(one.name): one.capacity for one in store.semaphores()}
    for slot, count in Counter(hold.slot for hold in inside.holds(store)).items():
        assert count <= capacity.get(slot, 1), slot
    held = {(hold.slot, hold.job) for hold in inside.holds(store)}
    for row in handed_out:
        assert all((slot, row.id) in held for slot in slots_of(row)), row


def at_rest(store: MongoStore, world: World) -> None:
    """Check what outbox recovery restores: no slot of a job without a right to it, no waiter at a free one."""
    rows = {row.id: row for row in jobs(store, world)}
    for hold in inside.holds(store):
        if hold.job in world.ids:
            row = rows.get(hold.job)
            assert row is not None, hold
            assert row.finished_at is None, hold
            assert hold.slot in slots_of(row), hold
            assert row.waits_for != hold.slot, hold
    capacity = {semaphore_slot(one.name): one.capacity for one in store.semaphores()}
    for row in rows.values():
        if row.waits_for is not None:
            assert len(holders(store, row.waits_for)) >= capacity.get(row.waits_for, 1), row


def holders(store: MongoStore, slot: Slot) -> list[str]:
    """Return who holds a slot."""
    return [hold.job for hold in inside.holds(store) if hold.slot == slot]


test_cut_at_any_command = pytest.mark.nightly(cut_at_any_command(ACTS, check))
