"""Programs that follow an old map: what they store late is brought to where it belongs."""

from __future__ import annotations

import pytest

from stanchion.core.names.hashing import bucket
from stanchion.errors import DuplicateKey, StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, Redriven
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.shards import known_map
from tests.shards.moves import PARTITIONS, Shards, new_order
from tests.worker.conftest import until

IN = "orders#1"
"""The partition that moves from `one` to `three`."""


@pytest.fixture
def shards() -> Shards:
    return Shards()


KEY, OTHER = [key for key in map(str, range(100)) if bucket(key, PARTITIONS) == 1][:2]


def total(shards: Shards, name: str) -> int:
    live: int = shards.stores[name].stats([IN], ["states"])[IN].states.total
    return live


def test_a_push_that_was_stopped_goes_to_the_new_shard(shards: Shards) -> None:
    late = shards.late("push", lambda: shards.moved((1, "three")))
    jobs = [new_order() for _ in range(40)]
    pushed = late.push(jobs)
    assert [one.id for one in pushed] == [job.id for job in jobs]
    assert total(shards, "one") == 0 < total(shards, "three")
    assert late.stats(["orders"], ["totals"])["orders"].totals.pushed == 40
    shards.pushed += [job.id for job in jobs]
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_a_key_is_taken_in_the_new_shard(shards: Shards) -> None:
    def meanwhile() -> None:
        shards.moved((1, "three"))
        shards.push(key=KEY)

    (answer,) = shards.late("push", meanwhile).push([new_order(key=KEY)])
    assert (answer.id, answer.duplicate) == (shards.pushed[0], True)
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_a_key_that_must_be_free_is_refused(shards: Shards) -> None:
    def meanwhile() -> None:
        shards.moved((1, "three"))
        shards.push(key=KEY)

    with pytest.raises(DuplicateKey):
        shards.late("push", meanwhile).push([new_order(key=KEY, on_duplicate="raise")])
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_the_job_of_a_program_that_died_in_a_late_push(shards: Shards) -> None:
    shards.moved((1, "three"))
    job = new_order(queue=IN)
    shards.stores["one"].push([job])  # its program is dead
    shards.pushed.append(job.id)
    shards.client.maintain()
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)
    shards.work()
    assert shards.done == shards.pushed


def test_keys_wait_between_the_shards(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    shards.plan((1, "three"))
    store = shards.opened()
    store.change_shard_map(lambda shard_map: shard_map.in_phase([IN], "moved"))
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.2)
    with pytest.raises(StoreUnavailable, match=r"'orders#1' is between shard 'one' and 'three'.*shards resume"):
        shards.push(key=KEY)
    monkeypatch.undo()
    shards.push(20)
    assert total(shards, "three") > 0 == total(shards, "one")
    shards.mover().run()
    shards.push(key=KEY)


def test_a_finished_job_holds_its_key_from_the_former_shard(shards: Shards) -> None:
    shards.push(key=KEY)
    shards.work()
    shards.moved((1, "three"))
    (again,) = shards.client.push([new_order(key=KEY, key_ttl=600.0)])
    assert (again.id, again.duplicate) == (shards.pushed[0], True)
    with pytest.raises(DuplicateKey):
        shards.client.push([new_order(key=KEY, key_ttl=600.0, on_duplicate="raise")])
    shards.push(key=OTHER, key_ttl=600.0)
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_a_repeated_push_asks_the_former_shard(shards: Shards) -> None:
    jobs = [new_order() for _ in range(20)]
    shards.client.push(jobs)
    shards.work()
    shards.moved((1, "three"))
    again = shards.client.push([*jobs, new_order()], repeat=True)
    assert [one.id for one in again[:20]] == [job.id for job in jobs]
    assert shards.client.stats(["orders"], ["states"])["orders"].states.total == 1


def test_a_known_id_of_before_the_move_is_not_stored_again(shards: Shards) -> None:
    job = new_order(key=KEY)
    shards.client.push([job])
    shards.work()
    shards.moved((1, "three"))
    assert shards.client.push([job])[0].id == job.id
    shards.moved((1, "four"))
    assert shards.client.push([job])[0].id == job.id
    assert shards.client.stats(["orders"], ["states"])["orders"].states.total == 0


def test_listeners_hear_of_the_new_shard(shards: Shards) -> None:
    listener = shards.client.listen(["orders"])
    try:
        assert listener.connected
        shards.moved((1, "three"))
        shards.client.stats(["orders"], ["states"])  # reads the map
        assert listener.wait(60.0)
        assert shards.client.claim(Claim("orders", 10, "token", lease=60.0)).rows == []
        until(lambda: listener.connected)
        shards.opened().push([new_order(key=KEY, queue=IN)])
        assert listener.wait(60.0)
    finally:
        listener.close()


def test_an_outcome_repeated_after_the_move_is_known(shards: Shards) -> None:
    shards.push(key=KEY)
    (row,) = shards.client.claim(Claim("orders", 10, "token", lease=60.0)).rows
    assert shards.client.settle([Commit(row.lease)]) == [JobState.DONE]
    shards.moved((1, "three"))
    shards.client.stats(["orders"], ["states"])  # reads the map
    assert shards.client.settle([Commit(row.lease)], repeat=True) == [JobState.DONE]
    assert shards.client.settle([Commit(row.lease._replace(token="other"))]) == [None]


def test_a_dead_job_of_the_former_shard_is_retried_in_the_new_one(shards: Shards) -> None:
    (job,) = shards.push(key=KEY)
    (row,) = shards.client.claim(Claim("orders", 10, "token", lease=60.0)).rows
    assert shards.client.settle([Bury(row.lease, "broken")]) == [JobState.DEAD]
    shards.moved((1, "three"))
    assert shards.client.fetch([job])[job].state == JobState.DEAD
    assert shards.client.retry([job]) == [Redriven.READY]
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)
    shards.work()
    assert shards.done == [job]


def test_history_stays_and_is_found(shards: Shards) -> None:
    shards.push(40)
    shards.work()
    shards.moved((1, "three"))
    shards.push(40)
    shards.work()
    found = shards.client.select(Query("history", (Condition("queue", "=", "orders"),), limit=100)).rows
    assert {row.id for row in found} == set(shards.pushed)
    assert shards.client.stats(["orders"], ["totals"])["orders"].totals.committed == 80
    assert {row.queue for row in shards.stores["one"].select(Query("history")).rows} == {"orders#0", IN}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of leases of the map, in seconds."""
    now = [1000.0]
    monkeypatch.setattr(known_map, "boot_clock", lambda: now[0])
    return now


def test_the_map_is_read_when_half_its_lease_has_passed(shards: Shards, clock: list[float]) -> None:
    client = shards.opened(lease=6.0)
    client.push([new_order()])
    shards.moved((1, "three"))
    clock[0] += 2.9
    client.stats([IN], ["states"])
    assert client._known_map.now.of(IN) == "one"
    clock[0] += 0.2
    client.stats([IN], ["states"])
    assert client._known_map.now.of(IN) == "three"


def test_a_push_that_outlasts_the_lease_is_proved(shards: Shards, clock: list[float]) -> None:
    def stopped() -> None:
        shards.moved((1, "three"))
        clock[0] += 6.1

    late = shards.late("push", stopped, lease=6.0)
    late.stats(["orders"], ["states"])
    late.push([new_order(key=KEY)])
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_a_slow_read_of_the_map_proves_what_began_with_it(shards: Shards, clock: list[float]) -> None:
    def slow() -> None:
        clock[0] += 4.0

    def stopped() -> None:
        shards.moved((1, "three"))
        clock[0] += 2.1

    late = shards.late("push", stopped, lease=6.0)
    known_map_of = late.within._known_map  # type: ignore[attr-defined]
    read = known_map_of._record.read

    def answered_late() -> object:
        answer = read()
        slow()
        return answer

    known_map_of._record.read = answered_late
    known_map_of.read()
    known_map_of._record.read = read
    known_map_of._tried_at = clock[0]
    late.push([new_order(key=KEY)])
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_a_push_to_a_partition_that_leaves_is_proved(shards: Shards, clock: list[float]) -> None:
    assert clock
    shards.plan((1, "three"))
    shards.opened().change_shard_map(lambda shard_map: shard_map.in_phase([IN], "leaving"))
    late = shards.late("push", lambda: shards.mover().run(), lease=6.0)
    late.stats(["orders"], ["states"])
    late.push([new_order(key=KEY)])
    assert (total(shards, "one"), total(shards, "three")) == (0, 1)


def test_without_the_default_shard_a_late_push_is_not_answered(shards: Shards, clock: list[float]) -> None:
    def stopped() -> None:
        clock[0] += 6.1
        shards.stores["one"].values = away

    def away(*_args: object, **_named: object) -> None:
        raise StoreUnavailable("it is down")

    late = shards.late("push", stopped, lease=6.0)
    late.stats(["orders"], ["states"])
    with pytest.raises(StoreUnavailable, match="shard 'one'"):
        late.push([new_order(key=KEY)])
