"""Partitions move from shard to shard while jobs flow: none is lost, none runs twice."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from stanchion.copying.transfer import Watcher
from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from tests.shards.moves import PARTITIONS, Killed, Shards, new_order

DOUBLED = ((1, "three"), (3, "four"))


def test_doubling_the_shards() -> None:
    shards = Shards()
    shards.push(200)
    found = shards.moved(*DOUBLED)
    assert [(one.partition, one.source, one.to, one.note) for one in found] == [
        ("orders#1", "one", "three", ""),
        ("orders#3", "two", "four", ""),
    ]
    assert [shards.place(number) for number in range(PARTITIONS)] == ["one", "three", "two", "four"]
    assert sum(one.jobs for one in found) == sum(
        shards.stores[name].stats([queue], ["states"])[queue].states.total
        for name, queue in (("three", "orders#1"), ("four", "orders#3"))
    )
    shards.push(200)
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)
    totals = shards.client.stats(["orders"], ["totals"])["orders"].totals
    assert (totals.pushed, totals.committed) == (400, 400)


def test_jobs_flow_between_any_two_calls() -> None:
    shards = Shards(0.0)
    shards.plan(*DOUBLED)
    shards.push(40)
    calls = 0

    def flow(_verb: str) -> None:
        nonlocal calls
        calls += 1
        shards.push(4)
        if calls % 3 == 0:
            shards.work(2)

    found = shards.meddled(flow).run()
    assert [one.note for one in found] == ["", ""]
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)
    assert shards.client.stats(["orders"], ["totals"])["orders"].totals.pushed == len(shards.pushed)


def test_programs_that_do_not_know_of_the_move_take_jobs_from_the_source() -> None:
    shards = Shards()
    shards.plan((1, "three"))
    shards.push(60)
    one, calls = shards.stores["one"], 0

    def take(_verb: str) -> None:
        nonlocal calls
        calls += 1
        if calls % 4 == 0:
            one.configure("orders#1", {"paused": False})
            rows = one.claim(Claim("orders#1", 1, new_id(), lease=60.0)).rows
            one.settle([Commit(row.lease) for row in rows])
            shards.done += [row.id for row in rows]
            one.configure("orders#1", {"paused": True})

    assert [one.note for one in shards.meddled(take).run()] == [""]
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed)


def test_the_destination_is_silent_until_the_end() -> None:
    shards = Shards()
    shards.plan((1, "three"))
    shards.push(40)
    three, calls = shards.stores["three"], list[str]()

    def look(verb: str) -> None:
        if calls or verb == "adopt":
            calls.append(verb)
        if calls and shards.opened().shard_map().moving:
            assert three.claim(Claim("orders#1", 1, new_id(), lease=60.0)).rows == []

    shards.meddled(look).run()
    assert len(calls) > 5


def test_the_source_is_silent_before_jobs_are_handed_over() -> None:
    shards = Shards()
    shards.plan((1, "three"))
    shards.push(40)
    one, calls = shards.stores["one"], list[str]()

    def look(verb: str) -> None:
        if calls or verb == "adopt":
            calls.append(verb)
            shards.client.maintain()  # the queue itself is not paused
            assert one.claim(Claim("orders#1", 1, new_id(), lease=60.0)).rows == []

    shards.meddled(look).run()
    assert len(calls) > 5


def test_what_comes_last_to_the_source_moves_too() -> None:
    shards = Shards()
    shards.plan((1, "three"))
    late: list[str] = []

    def come(verb: str) -> None:
        move = shards.opened().shard_map().moving.get("orders#1")
        if verb == "stats" and move is not None and move.phase == "moved" and not late:
            late.append(new_id())
            shards.stores["one"].push([new_order(id=late[0], queue="orders#1")])

    (found,) = shards.meddled(come).run()
    assert found.jobs == len(late) == 1
    shards.work()
    assert shards.done == late


class Settling(Watcher):
    """Counts how often a mover lets others notice."""

    def __init__(self) -> None:
        self.settled = 0

    def settling(self, seconds: float) -> None:
        assert seconds
        self.settled += 1


def test_a_mover_that_goes_on_settles_again() -> None:
    shards = Shards()
    shards.plan((1, "three"))
    shards.push(20)
    with pytest.raises(Killed):
        shards.mover([], last=25).run()
    assert shards.opened().shard_map().moving["orders#1"].phase == "leaving"
    shards.later()
    watcher = Settling()
    shards.mover(settle=0.01, watcher=watcher).run()
    assert watcher.settled == 1


@pytest.mark.parametrize("moves", [DOUBLED[:1], pytest.param(DOUBLED, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("history_ttl", [0.0, pytest.param(3600.0, marks=pytest.mark.nightly)])
def test_a_death_before_each_call(history_ttl: float, moves: tuple[tuple[int, str], ...]) -> None:
    deaths = 0
    while _dies(Shards(history_ttl), moves, deaths):
        deaths += 1
    assert deaths > 30


@pytest.mark.nightly
def test_a_death_before_each_call_on_sqlite(tmp_path: Path) -> None:
    def opened(death: int) -> list[Any]:
        return [open_store(f"sqlite:///{tmp_path}/{death}-{name}.db?synchronous=off") for name in range(4)]

    deaths, dies = 0, True
    while dies:
        with ExitStack() as stack:
            stores = [stack.enter_context(closing(store)) for store in opened(deaths)]
            dies = _dies(Shards(0.0, stores), DOUBLED[:1], deaths)
            deaths += dies
    assert deaths > 30


def _dies(shards: Shards, moves: tuple[tuple[int, str], ...], last: int) -> bool:
    """Move with a death before a call, and go on; return False if the mover made fewer calls."""
    shards.plan(*moves)
    shards.push(12)
    shards.work(1)
    try:
        shards.mover([], last).run()
    except Killed:
        killed = True
    else:
        killed = False
    shards.push(4)
    shards.work(1)
    shards.later()
    assert all(not one.note for one in shards.mover().run())
    shards.push(4)
    shards.client.maintain()  # as workers do
    shards.work()
    assert sorted(shards.done) == sorted(shards.pushed), f"killed before call {last}"
    assert all(shards.place(number) == to for number, to in moves)
    return killed
