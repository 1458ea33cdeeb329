"""A process dies, loses an answer or meets another one at any command: each item of a chunk is in one job, once."""

from collections import Counter

from stanchion.core.ids import new_id
from stanchion.core.values.framing import chunk_with
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Pass, Passage, Tally
from stanchion_conformance.harness import NewStore, StoreClock, counts_of
from tests.mongo.acts import Act, World, purged, settled
from tests.mongo.aftermath import finish, jobs, take_back
from tests.mongo.cutting import cut_at_any_command

ITEMS = 10


def push(world: World) -> Act:
    chunks = [world.new(payload=chunk_with(ITEMS - 1, b"\xff")), world.new()]
    return lambda store: len(store.push(chunks))


def claim(world: World) -> Act:
    world.push(payload=chunk_with(ITEMS - 1, b"\xff"))
    world.push()
    wish = Claim(world.queue, 2, new_id(), lease=30.0, repeat=True)
    return lambda store: len(store.claim(wish).rows)


def divide(world: World) -> Act:
    return settled([divided(world, whole(world), world.queue)])


def divide_without_history(world: World) -> Act:
    world.may_vanish = True
    for queue in (world.queue, world.other):
        world.store.configure(queue, {"history_ttl": 0.0})
    return divide(world)


def pass_on(world: World) -> Act:
    row = whole(world)
    through = Passage(passed(world)), Passage(world.other, True)
    return settled([Pass(row.lease, through, divided(world, row, world.other), chunk_with(ITEMS, b"later"))])


def passed(world: World) -> str:
    """Return the queue that a chunk passes."""
    return f"{world.queue}-passed"


def whole(world: World) -> JobRow:
    """Reserve a chunk."""
    world.push(payload=chunk_with(ITEMS, b"\xff"))
    (row,) = world.claim()
    return row


def divided(world: World, row: JobRow, queue: str) -> Commit:
    """Return the outcome of a chunk, two items of which fail, and one is dead."""
    failed = world.new(queue=queue, attempts=1, errors='[{"error":"E"}]', origin=row.id)
    parts = (
        NewJob(new_id(), world.other, chunk_with(ITEMS - 3, b"good"), origin=row.id),
        failed._replace(id=new_id(), payload=chunk_with(2, b"again")),
        failed._replace(id=new_id(), payload='"dead"', dead_from=queue),
    )
    tallies = Tally(queue, "moved", ITEMS - 3), Tally(queue, "rolled_back", 2), Tally(queue, "buried", 1)
    return Commit(row.lease, jobs=parts, tallies=(*tallies, Tally(queue, "pushed", -3)))


def check(store: Store, world: World) -> None:
    """Clear up as other processes would, finish what is live, and see each item end once, and counted."""
    take_back(store, world)
    store.maintain()
    ran: list[JobRow] = []
    finish(store, world, ran.extend)
    assert max(Counter(row.id for row in ran).values(), default=0) <= 1
    for _ in range(2):  # as events, and folded
        counts = [counts_of(store, queue) for queue in (world.queue, world.other, passed(world))]
        pushed, committed, moved, rolled_back, buried = (
            sum(getattr(each, name) for each in counts)
            for name in ("pushed", "committed", "moved", "rolled_back", "buried")
        )
        if moved:
            assert (pushed, committed, rolled_back, buried) == (2 * ITEMS - 3, ITEMS - 1, 2, 1)
            assert moved in (ITEMS - 3, 2 * ITEMS + ITEMS - 3)
        else:
            assert (committed, rolled_back, buried) == (pushed, 0, 0)
        store.maintain()
    parts = [row for row in jobs(store, world) if row.origin is not None]
    assert len(parts) == (3 if moved and not world.may_vanish else 0)
    for queue in (world.queue, world.other, passed(world)):
        store.drop_queue(queue)


test_cut_at_any_command = cut_at_any_command(
    [push, claim, divide, divide_without_history, pass_on], check, ["dies", "repeated", "unanswered", "another"]
)


def test_a_queue_that_a_job_passes_is_known(new_store: NewStore, clock: StoreClock) -> None:
    world = World(store := new_store(), clock)
    pass_on(world)(store)
    assert {world.queue, world.other, passed(world)} <= {one.name for one in store.queues()}


def test_the_items_of_a_chunk_are_counted_when_it_leaves_history(new_store: NewStore, clock: StoreClock) -> None:
    world = World(store := new_store(), clock)
    store.settle([Commit(whole(world).lease)])
    assert purged(store, world.queue) == 1
    counts = counts_of(store, world.queue)
    assert (counts.pushed, counts.reserved, counts.committed) == (ITEMS, ITEMS, ITEMS)
