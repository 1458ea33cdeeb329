"""Events of topics, cut at any command: all subscribers get an event, once, or none does."""

from stanchion import Stanchion, Topic
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import find_jobs
from tests.mongo.acts import Act, World
from tests.mongo.cutting import cut_at_any_command


def push(world: World) -> Act:
    event_id = Topic.new_id()
    for queue in (world.queue, world.other):
        Stanchion(store=world.store).topic(world.queue).subscribe(queue, queue=queue)

    def act(store: Store) -> object:
        return len(Stanchion(store=store).topic(world.queue).push("x", id=event_id).jobs)

    return act


def check(store: MongoStore, world: World) -> None:
    world.clock.advance(5)
    store.recover(limit=0)
    here, there = (
        sorted(row.headers or "" for row in find_jobs(store, queue=queue)) for queue in (world.queue, world.other)
    )
    assert here == there
    assert len(here) < 2
    for queue in (world.queue, world.other):
        store.drop_queue(queue)


test_cut_at_any_command = cut_at_any_command([push], check)
