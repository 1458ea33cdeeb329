"""Jobs that go on as others, and staged jobs that are published, by processes that are cut at any command."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import cast
from unittest.mock import patch

import pyarrow as pa
import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.core.spark_errors import LeasesLost
from stanchion.queues.operating import purge
from stanchion.stores.cas.entries import STALE
from stanchion.stores.cas.staging import Staged, Staging
from stanchion.stores.mongo import staging
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.ports import PreparedJobs
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.registry import open_store
from stanchion.stores.rules import prepared as rules
from stanchion.stores.rules.lifecycle.jobs import detached
from stanchion_conformance.harness import NewStore, StoreClock, counts_of, ids_reserved, rows_reserved, sizes_of
from tests.mongo import inside
from tests.mongo.acts import Act, World, purged
from tests.mongo.cutting import WAYS, Begin, Check, Cutting
from tests.mongo.guillotine import Guillotine

HOUR = 3600.0
ASIDE = STALE / SECOND + 1


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few jobs be several pieces."""
    monkeypatch.setattr(staging, "_PAGE", 2)
    monkeypatch.setattr(rules, "_BYTES", 150)


def token_of(world: World) -> str:
    return f"batch {world.queue}"


def write_of(world: World) -> str:
    return f"write {world.queue}"


def value_of(world: World, version: int = 0) -> ValueChange:
    return ValueChange("stream", world.queue, "acked 1", version)


def written(store: Store, world: World) -> bool:
    """Tell whether the value of the world was written."""
    return any(value.name == world.queue and value.text == "acked 1" for value in store.values("stream"))


def run_out(store: Store, queue: str) -> Counter[str]:
    """Run all that is due in a queue, and tell how often each job was run."""
    ran: Counter[str] = Counter()
    while rows := store.claim(Claim(queue, 50, new_id(), lease=30.0)).rows:
        assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
        ran.update(row.id for row in rows)
    return ran


def run_early_and_late(store: MongoStore, world: World) -> Counter[str]:
    """Run jobs in a queue without history before and after others have seen to what was left half done."""
    ran = run_out(store, world.other)
    store.maintain()
    world.clock.advance(ASIDE)
    store.recover(limit=0)
    ran += run_out(store, world.other)
    world.clock.advance(HOUR + 1)
    store.maintain()
    world.clock.advance(ASIDE)
    store.recover(limit=0)
    return ran + run_out(store, world.other)


def fan_out(world: World) -> Act:
    world.store.configure(world.other, {"history_ttl": 0.0})
    world.push()
    (row,) = world.claim(lease=30.0)
    children = tuple(NewJob(one, world.other, "{}") for one in new_ids(2))
    return lambda store: store.settle([Commit(row.lease, jobs=children)], repeat=True)


def check_fan_out(store: MongoStore, world: World) -> None:
    ran = run_early_and_late(store, world)
    store.recover()
    (parent,) = store.fetch(world.ids).values()
    assert sorted(ran.values()) == ([1, 1] if parent.state == JobState.DONE else [])
    assert counts_of(store, world.other).pushed == len(ran)
    assert not inside.entries(store)


def publish(world: World) -> Act:
    world.store.configure(world.other, {"history_ttl": 0.0})
    jobs = [NewJob(one, world.other, "{}") for one in new_ids(5)]
    world.store.stage(write_of(world), "a", jobs[:3])
    world.store.stage(write_of(world), "b", jobs[3:])
    world.store.stage(write_of(world), "lost", jobs[:1])
    publication = Publication(write_of(world), (("a", 3), ("b", 2)), value_of(world))
    return lambda store: store.publish(publication)


def check_publication(store: MongoStore, world: World) -> None:
    begun = written(store, world)
    if begun:
        assert store.compare_and_set("stream", world.queue, "theirs", 1)  # a successor goes on with the value
    ran = run_early_and_late(store, world)
    assert sorted(ran.values()) == ([1] * 5 if begun else [])
    if begun:
        assert inside.staged(store, write_of(world)) == {}
    store.unstage(write_of(world))
    nothing_staged(store, world)


def nothing_staged(store: MongoStore, world: World) -> None:
    """Check that nothing is left of what was staged."""
    left = {"$or": [{"write": write_of(world)}, {"_id": write_of(world)}]}
    assert store.server.call(lambda on, _again: on.stage.count_documents(left)) == 0
    assert not inside.begun(store)


def prepared(store: Store, world: World, number: int) -> list[Prepared]:
    found = cast("PreparedJobs", store).prepare(
        PlainColumns(world.other, pa.array(new_ids(number)), pa.array(["{}"] * number))
    )
    assert found is not None
    return found


def publish_prepared(world: World) -> Act:
    world.store.configure(world.other, {"history_ttl": 0.0})
    world.store.stage(write_of(world), "a", [NewJob(new_id(), world.other, "{}")])
    store = cast("PreparedJobs", world.store)
    for attempt in ("a", "lost"):
        store.stage_prepared(write_of(world), attempt, prepared(world.store, world, 2))
    publication, carried = Publication(write_of(world), (("a", 3),), value_of(world)), prepared(world.store, world, 2)
    return lambda store: cast("PreparedJobs", store).publish_prepared(publication, carried)


def stage_prepared(world: World) -> Act:
    parts = prepared(world.store, world, 3)
    return lambda store: cast("PreparedJobs", store).stage_prepared(write_of(world), "a", parts)


def check_staged_prepared(store: MongoStore, world: World) -> None:
    staged = inside.staged(store, write_of(world))
    if staged.get("a", Staged(0, strict=False)).jobs == 3:
        assert store.publish(Publication(write_of(world), (("a", 3),)))
        assert sorted(run_out(store, world.other).values()) == [1] * 3
    store.unstage(write_of(world))
    nothing_staged(store, world)


def stage(world: World) -> Act:
    jobs = [NewJob(one, world.other, "{}") for one in new_ids(3)]
    world.ids += [job.id for job in jobs]
    return lambda store: store.stage(write_of(world), "a", jobs)


def check_stage(store: MongoStore, world: World) -> None:
    jobs = [NewJob(one, world.other, "{}") for one in world.ids]
    store.stage(write_of(world), "a", jobs[1:])
    store.stage(write_of(world), "a", jobs)
    assert store.publish(Publication(write_of(world), (("a", 3),)))
    assert run_out(store, world.other) == Counter(world.ids)
    nothing_staged(store, world)


def finish(world: World) -> Act:
    world.push(2)
    world.push(1, order_key="k")
    assert world.store.claim(Claim(world.queue, 9, token_of(world), worker="w", rows=False)).reserved == 3
    publication = Publication(write_of(world), (), value_of(world), Finish(world.queue, token_of(world), 3))

    def act(store: Store) -> bool:
        try:
            return store.publish(publication)
        except LeasesLost:  # some are finished by an earlier try
            left = len(ids_reserved(store, world.queue, token_of(world)))
            return store.publish(publication._replace(finish=Finish(world.queue, token_of(world), left)))

    return act


def check_finish(store: MongoStore, world: World) -> None:
    left = len(ids_reserved(store, world.queue, token_of(world)))
    before = written(store, world)
    assert not before or left == 0
    publication = Publication(write_of(world), (), value_of(world), Finish(world.queue, token_of(world), left))
    assert store.publish(publication) is not before
    world.clock.advance(ASIDE)
    store.recover(limit=0)
    assert counts_of(store, world.queue).committed == 3
    assert not [hold for hold in inside.holds(store) if hold.job in world.ids]


def reserve(world: World) -> Act:
    world.push(3)
    world.push(2, order_key="k")
    wish = Claim(world.queue, 3, token_of(world), worker="w", repeat=True, rows=False)
    return lambda store: store.claim(wish).reserved


def check_reserved(store: MongoStore, world: World) -> None:
    before = len(ids_reserved(store, world.queue, token_of(world)))
    again = store.claim(Claim(world.queue, 3, token_of(world), worker="w", repeat=True, rows=False)).reserved
    assert again == (before or again) <= 4
    assert [row.id for row in rows_reserved(store, world.queue, token_of(world))] == (
        ids_reserved(store, world.queue, token_of(world))
    )
    assert sizes_of(store, world.queue).running >= again > 0


ACTS: list[tuple[Begin, Check]] = [
    (fan_out, check_fan_out),
    (publish, check_publication),
    (stage, check_stage),
    (publish_prepared, check_publication),
    (stage_prepared, check_staged_prepared),
    (finish, check_finish),
    (reserve, check_reserved),
]


@pytest.mark.one_in_each("begin", "way")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("begin", "check"), ACTS)
def test_cut_at_any_command(
    begin: Begin, check: Check, way: str, new_store: NewStore, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_and_clear(store: MongoStore, world: World) -> None:
        check(store, world)
        for queue in (world.queue, world.other):
            store.drop_queue(queue)

    WAYS[way](Cutting(new_store, clock, Guillotine(monkeypatch), check_and_clear), begin)


@pytest.fixture
def world(new_store: NewStore, clock: StoreClock) -> World:
    return World(new_store(), clock)


def begun_by_one_who_died(world: World) -> None:
    """Have a publication begun, and nothing of it done."""
    with patch.object(Staging, "go_on"):
        assert publish(world)(world.store)


class TestPublishing:
    def test_what_has_begun_is_kept_longer_than_a_day(self, world: World) -> None:
        begun_by_one_who_died(world)
        world.clock.advance(3 * 86_400)
        world.store.maintain()
        assert len(run_out(world.store, world.other)) == 5

    def test_what_has_begun_is_not_given_up(self, world: World) -> None:
        begun_by_one_who_died(world)
        world.store.unstage(write_of(world))
        world.clock.advance(ASIDE)
        world.store.recover(limit=0)
        assert len(run_out(world.store, world.other)) == 5

    def test_what_has_begun_with_a_note_does_not_go_with_it(self, world: World) -> None:
        begun_by_one_who_died(world)
        assert world.store.compare_and_set("stream", world.queue, None, 1)
        assert len(run_out(world.store, world.other)) == 5

    def test_one_that_goes_on_is_left_alone(self, world: World) -> None:
        begun_by_one_who_died(world)
        world.clock.advance(-5)  # so that it is young on a slow machine too
        world.store.recover(limit=0)
        world.clock.advance(5)
        assert not run_out(world.store, world.other)
        world.clock.advance(ASIDE)
        world.store.recover(limit=0)
        assert len(run_out(world.store, world.other)) == 5

    def test_what_nobody_publishes_goes(self, world: World, database: str) -> None:
        stage(world)(world.store)
        world.clock.advance(86_401)
        world.store.maintain()
        with closing(open_store(database)) as store:
            assert isinstance(store, MongoStore)
            nothing_staged(store, world)


def by_hand(store: Store, queue: str) -> int:
    return purge(store, queue, 0.0)


@pytest.mark.parametrize("by", [purged, by_hand])
def test_what_is_purged_early_does_not_come_again(world: World, by: Callable[[Store, str], int]) -> None:
    act = fan_out(world)
    store = world.store
    store.configure(world.other, {"history_ttl": 100.0})
    with patch.object(Jobs, "delete_entries"):
        assert act(store) == [JobState.DONE]
    ran = run_out(store, world.other)
    assert by(store, world.other) == 2
    assert by(store, world.other) == 0
    assert store.fetch(list(ran)) == {}
    world.clock.advance(ASIDE)
    store.recover(limit=0)
    assert len(ran) == 2
    assert not run_out(store, world.other)


def test_what_was_deleted_early_can_be_adopted(world: World) -> None:
    act = fan_out(world)
    store = world.store
    store.configure(world.other, {"history_ttl": 100.0})
    act(store)
    ran = run_out(store, world.other)
    first, second = store.fetch(list(ran)).values()
    assert store.delete([first.ref, second.ref]) == [True, True]
    store.push([NewJob(new_id(), world.other, "{}", key="k")])
    again = [detached(first, 0)._replace(state=QUEUED, finished_at=None, result=None), second]
    taken = again[0]._replace(key="k")
    assert store.adopt([taken, second]) == [False, True]
    assert store.adopt(again) == [True, True]
    assert store.fetch(list(ran)) == {row.id: row for row in again}
    store.maintain()
    assert len(store.fetch(list(ran))) == 2


def test_a_reserved_batch_is_found_by_an_index(world: World) -> None:
    store = world.store
    assert isinstance(store, MongoStore)
    world.push(3)
    store.claim(Claim(world.queue, 2, token_of(world), worker="w", rows=False))
    held = {"state": "running", "token": token_of(world), "queue": world.queue}
    plan = store.server.call(lambda on, _again: on.jobs.find(held).explain())
    assert "COLLSCAN" not in str(plan)
