"""What does not move at once, and is said so: the source goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.copying.guard import CopyRefused
from stanchion.copying.moving import Moved
from stanchion.copying.planning import Placed, Plans
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from tests.shards.moves import PARTITIONS, Killed, Shards, new_order
from tests.shards.test_late import IN, KEY, total

LIMITED = '{"hold":["smtp"]}'


@pytest.fixture
def shards() -> Shards:
    return Shards()


def phase(shards: Shards) -> Any:
    move = shards.opened().shard_map().moving.get(IN)
    return None if move is None else move.phase


def run_one(shards: Shards) -> Any:
    (row,) = shards.client.claim(Claim("orders", 1, "token", lease=600.0)).rows
    return row


def test_a_running_job_ends_in_the_source(shards: Shards) -> None:
    shards.push(key=KEY)
    row = run_one(shards)
    (found,) = shards.moved((1, "three"))
    assert found == Moved(IN, "one", "three", 0, "1 of its jobs still run: run `stanchion shards resume` later")
    assert phase(shards) == "planned"
    assert shards.client.settle([Rollback(row.lease, 0.0)]) == [JobState.READY]
    row = run_one(shards)  # the source goes on
    assert shards.client.settle([Rollback(row.lease, 0.0)]) == [JobState.READY]
    (found,) = shards.mover().run()
    assert (found.jobs, found.note) == (1, "")
    assert shards.client.fetch(shards.pushed)[shards.pushed[0]].attempts == 2
    shards.work()
    assert shards.done == shards.pushed


def test_a_job_that_ends_meanwhile_is_waited_for(shards: Shards) -> None:
    shards.push(key=KEY)
    row = run_one(shards)

    def end(verb: str) -> None:
        if verb == "recover":
            shards.client.settle([Commit(row.lease)])

    shards.plan((1, "three"))
    (found,) = shards.meddled(end, wait=60.0).run()
    assert (found.jobs, found.note) == (0, "")


def killed_before_the_first_delete(shards: Shards) -> Any:
    """Push jobs, let a mover adopt them and die; return one that the source hands out nevertheless."""
    shards.plan((1, "three"))
    shards.push(40)
    with pytest.raises(Killed):
        shards.mover([], last=_calls_until("delete")).run()
    assert total(shards, "three") > 0
    shards.later()
    shards.stores["one"].configure(IN, {"paused": False})
    (row,) = shards.stores["one"].claim(Claim(IN, 1, "token", lease=600.0)).rows
    return row


def test_what_was_handed_over_comes_back_if_a_job_runs(shards: Shards) -> None:
    row = killed_before_the_first_delete(shards)
    (found,) = shards.mover().run()
    assert "still run" in found.note
    assert total(shards, "three") == 0
    assert shards.stores["one"].settle([Commit(row.lease)]) == [JobState.DONE]
    shards.done.append(row.id)
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_what_the_source_has_done_nevertheless_does_not_run_again(shards: Shards) -> None:
    row = killed_before_the_first_delete(shards)
    assert shards.stores["one"].settle([Commit(row.lease)]) == [JobState.DONE]
    shards.done.append(row.id)
    (found,) = shards.mover().run()
    assert found.note == ""
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def _calls_until(verb: str) -> int:
    """Return the number of calls of a mover before its first of a verb."""
    other, calls = Shards(), list[str]()
    other.plan((1, "three"))
    other.push(40)
    other.mover(calls).run()
    return calls.index(verb)


@pytest.mark.parametrize("tie", [{"limits": LIMITED}, {"flow_root": "root", "flow_node": "root", "flow_index": 0}])
def test_jobs_with_ties_keep_a_partition_of_an_undivided_queue(tie: dict[str, Any]) -> None:
    shards = Shards(p2="one", p3="one")
    shards.stores["one"].set_semaphore("smtp", 1)
    shards.stores["one"].push([new_order(queue=IN, **tie)])
    shards.plan((1, "three"))
    calls: list[str] = []
    (found,) = shards.mover(calls).run()
    assert found.note.startswith("it has jobs of flows, semaphores or rates")
    assert phase(shards) == "planned"
    assert "compare_and_set" not in calls  # the source went on with it
    with pytest.raises(InvalidInput, match="several shards"):
        shards.client.push([new_order(limits=LIMITED)])


def test_a_job_with_ties_that_comes_late_stays_in_the_source() -> None:
    """It comes between the look for such jobs and the first page that is handed over."""
    shards = Shards()
    shards.stores["one"].set_semaphore("smtp", 1)
    shards.plan((1, "three"))
    tied: list[str] = []

    def come(verb: str) -> None:
        if verb == "select" and phase(shards) == "leaving" and not tied:
            tied.append(new_id())
            shards.stores["one"].push([new_order(id=tied[0], queue=IN, limits=LIMITED)])
        assert verb != "adopt"

    (found,) = shards.meddled(come).run()
    assert found.note.startswith("it has jobs of flows, semaphores or rates")
    assert phase(shards) == "planned"
    assert list(shards.stores["one"].fetch(tied)) == tied
    shards.work()
    assert shards.done == tied


def test_jobs_of_an_order_key_stay_in_order(shards: Shards) -> None:
    first = shards.push(order_key=KEY)
    shards.push(3, order_key=KEY)
    row = run_one(shards)
    shards.client.settle([Rollback(row.lease, 3600.0, error="E: later")])
    shards.moved((1, "three"))
    ran = []
    for _ in range(4):
        row = run_one(shards)
        assert shards.client.claim(Claim("orders", 10, "other", lease=600.0)).rows == []
        shards.client.settle([Commit(row.lease)])
        ran.append(row.id)
    assert ran[:1] == first
    assert ran == shards.pushed


def test_two_movers_at_once(shards: Shards) -> None:
    shards.plan((1, "three"))
    refused: list[str] = []

    def rival(verb: str) -> None:
        if verb == "adopt" and not refused:
            refused.append(verb)
            with pytest.raises(CopyRefused, match="is copying orders#1"):
                shards.mover(heartbeat=0.01).run()

    shards.push(40)
    (found,) = shards.meddled(rival).run()
    assert (found.note, refused) == ("", ["adopt"])
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_a_shard_that_is_down_stops_the_move(shards: Shards) -> None:
    shards.push(40)
    three, adopt = shards.stores["three"], shards.stores["three"].adopt

    def away(*_args: object) -> Any:
        raise StoreUnavailable("it is down")

    three.adopt = away
    with pytest.raises(StoreUnavailable, match="shard 'three'"):
        shards.moved((1, "three"))
    assert phase(shards) == "leaving"
    shards.push(40)
    three.adopt = adopt
    shards.mover().run()
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_a_paused_queue_stays_paused(shards: Shards) -> None:
    shards.push(20)
    shards.client.configure("orders", {"paused": True})
    shards.plan((1, "three"))

    def resumed(verb: str) -> None:
        if verb == "adopt":
            shards.client.configure("orders", {"paused": False})
            shards.client.maintain()
            shards.client.configure("orders", {"paused": True})

    shards.meddled(resumed).run()
    shards.work()
    assert shards.done == []
    shards.client.configure("orders", {"paused": False})
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_settings_go_along(shards: Shards) -> None:
    shards.client.configure("orders", {"lease": 7.0})
    shards.moved((1, "three"))
    (settings,) = shards.stores["three"].queues([IN])
    assert (settings.lease, settings.paused) == (7.0, False)
    shards.client.configure("orders", {"lease": 8.0})
    assert shards.stores["three"].queues([IN])[0].lease == 8.0


def test_plans(shards: Shards) -> None:
    plans = Plans(shards.client)
    shards.push(key=KEY)
    assert plans.places() == [Placed("orders", "one", "0-1", 1), Placed("orders", "two", "2-3", 0)]
    assert plans.half("two") == ["orders#3"]
    assert plans.half("three") == []
    assert plans.put(plans.some("orders", [1, 0, 1]), "one") == []
    assert plans.put(plans.some("orders", [1, 2]), "two") == [IN]
    assert Placed("orders", "one", "1", 1, "two", "planned") in plans.places()
    with pytest.raises(InvalidInput, match="on record already"):
        plans.put(["orders#0"], "three")
    shards.opened().change_shard_map(lambda shard_map: shard_map.in_phase([IN], "leaving"))
    assert plans.abandon() == 0
    shards.opened().change_shard_map(lambda shard_map: shard_map.in_phase([IN], "planned"))
    assert plans.abandon() == 1
    assert plans.put(plans.half("two", ["orders"]), "four") == ["orders#3"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda plans: plans.put([IN], "five"), "'five' is no shard: the file of the map has one, two, three, four"),
        (lambda plans: plans.half("five"), "is no shard"),
        (lambda plans: plans.some("orders", [3, 4]), "no partition 4"),
        (lambda plans: plans.some("mail", [0]), "has no partitions"),
    ],
)
def test_what_can_not_be_planned(shards: Shards, ask: Callable[[Plans], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(Plans(shards.client))


def test_dead_letters_stay_in_one_shard() -> None:
    shards = Shards(p2="one", p3="one")
    shards.client.configure("orders", {"dead_letter": "dead"})
    with pytest.raises(InvalidInput, match="dead_letter"):
        Plans(shards.client).put([IN], "three")


def test_a_queue_that_moves_is_not_dropped(shards: Shards) -> None:
    shards.push(20)
    shards.plan((1, "three"))
    with pytest.raises(InvalidInput, match="on their way"):
        shards.client.drop_queue("orders")
    shards.mover().run()
    shards.push(20)
    assert shards.client.drop_queue("orders") == 40
    assert total(shards, "one") == total(shards, "three") == 0


def test_back_and_forth(shards: Shards) -> None:
    for to in ("three", "one", "two", "one"):
        shards.push(20)
        shards.work(3)
        assert [one.note for one in shards.moved((1, to))] == [""]
    shards.push(20)
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)
    assert shards.place(1) == "one"
    assert len(shards.client.partitions_of("orders")) - 1 == PARTITIONS
    assert shards.client.stats(["orders"], ["totals"])["orders"].totals.committed == len(shards.done)
