"""What must hold: at any moment, after outbox recovery, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from stanchion.stores.cas.entries import Hold
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import NodeState
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.slots import held_slots, node_slot, order_slot, slots_of
from tests.protocol.fake import Fake
from tests.protocol.world import World

if TYPE_CHECKING:
    from tests.protocol.explorer import Scenario

Result = TypeVar("Result")

_ROUNDS = 20
_PAUSE = 3600 * SECOND


class BoundedSteps:
    """Takes steps at once, up to a number."""

    def __init__(self, left: int = 5000) -> None:
        self.left = left

    def __call__(self, what: str, take: Callable[[], Result]) -> Result:
        self.left -= 1
        assert self.left, f"it never ends: {what}"
        return take()


def reserved(world: World) -> list[JobRow]:
    """Return the jobs that run, held by the actor whose claim got them."""
    rows = (world.rows[job][1] for job, _ in world.admitted)
    return [row for row in rows if row.state == JobState.RUNNING and (row.id, row.token) in world.admitted]


def hold_of(row: JobRow, slot: Slot) -> Hold:
    """Return the slot that a job has a right to."""
    token = row.order_hold if slot.kind == ORDER else row.slots_hold
    return Hold(slot, row.id, token or row.token or "")


def always(world: World, scenario: Scenario) -> Iterator[str]:
    """Tell what is wrong, while everybody is busy."""
    running = {row.id: row for row in reserved(world)}.values()
    for slot, number in Counter(slot for row in running for slot in slots_of(row)).items():
        if number > scenario.most.get(slot, 1):
            yield f"{number} jobs run at {slot.name}"
    for row in running:
        for slot in slots_of(row):
            if hold_of(row, slot) not in world.slots:
                yield f"{row.id} runs without {slot.name}"
        if scenario.in_order and row.order_key is not None and _first(world, row.queue, row.order_key) != row.id:
            yield f"{row.id} runs before it is head of line"
    for row in world.live():
        for slot in held_slots(row):
            if hold_of(row, slot) not in world.slots:
                yield f"{row.id} says that it holds {slot.name}"
    if scenario.ends_once:
        yield from (f"{one} has ended {number} times" for one, number in world.ended.items() if number > 1)


def at_rest(world: World) -> Iterator[str]:
    """Tell what is wrong when no actor has anything left to do: of what outbox recovery puts right, too."""
    yield from (f"{entry} is not done" for entry in world.outbox.values())
    for node in world.nodes.values():
        if node.state == NodeState.RUNNING:
            if node.closed and node.ended >= node.size:
                yield f"{node.id} is not done"
        elif node.id not in world.followed:
            yield f"{node.id} was not followed"
        yield from (f"{row.id} waits for {node.id}" for row in world.live() if _waits_in_vain(row, node.id, node.state))
    yield from (f"{hold} without a right" for hold in world.slots if not _rightful(world, hold))
    for slot in sorted({row.waits_for for row in world.live() if row.waits_for is not None}):
        yield from _idle(world, slot)


def in_the_end(store: Fake, crashed: Sequence[str], scenario: Scenario) -> Iterator[str]:
    """Recover the outbox, then drive all jobs to their ends; tell what is wrong on the way."""
    world = store.world
    store.recover_outbox()
    yield from (f"after outbox recovery: {one}" for one in (*always(world, scenario), *at_rest(world)))
    for name in crashed:
        store.rows.presume_dead(name)
    store.settle([Commit(row.lease) for row in reserved(world) if row.worker not in crashed])
    for turn in range(_ROUNDS):
        store.recover()
        store.recover_outbox()
        yield from (f"after a recovery: {one}" for one in (*always(world, scenario), *at_rest(world)))
        for queue in sorted({row.queue for row in world.live()}):
            rows = store.claim(Claim(queue, 10, f"survivor{turn}{queue}", "survivor")).rows
            world.admitted.update({(row.id, row.token or ""): None for row in rows})
            yield from (f"of the survivor: {one}" for one in always(world, scenario))
            store.settle([Commit(row.lease) for row in rows])
        if not world.live():
            break
        world.now += _PAUSE
        world.starts.update(dict.fromkeys(world.starts, 1))
    yield from (f"stuck: {row}" for row in world.live())
    yield from (f"in the end: {one}" for one in (*always(world, scenario), *at_rest(world)))
    yield from (f"{hold} in the end" for hold in world.slots)
    yield from (f"{node.id} never ends" for node in world.nodes.values() if node.state == NodeState.RUNNING)
    yield from scenario.finally_(world)


def _first(world: World, queue: str, order_key: str) -> str | None:
    mine = [(row.enqueued_at, row.id) for row in world.live() if (row.queue, row.order_key) == (queue, order_key)]
    return min(mine)[1] if mine else None


def _waits_in_vain(row: JobRow, node: str, state: str) -> bool:
    return row.waits_for == node_slot(node) and state != NodeState.RUNNING


def _rightful(world: World, hold: Hold) -> bool:
    row = world.rows[hold.job][1]
    if row.finished_at is not None or hold.slot not in slots_of(row) or row.waits_for == hold.slot:
        return False
    return hold == hold_of(row, hold.slot)


def _idle(world: World, slot: Slot) -> Iterator[str]:
    """Tell of a free slot beside waiters."""
    waiting = [row for row in world.live() if row.waits_for == slot]
    held = [hold for hold in world.slots if hold.slot == slot]
    if slot.kind == SEMAPHORE:
        if len(held) < world.capacity.get(slot, 1):
            yield f"a slot of {slot.name} is free, and {[row.id for row in waiting]} wait"
    elif not held:
        first = [row for row in waiting if row.order_key and _first(world, row.queue, row.order_key) == row.id]
        if first and slot == order_slot(first[0].queue, first[0].order_key or ""):
            yield f"{first[0].id} waits although it is head of line"
