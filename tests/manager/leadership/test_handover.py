"""Slices change hands: managers come and go, queues come, go and change."""

from __future__ import annotations

import logging

import pytest

from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.manager.server.access import CLOSED
from stanchion.stores.rules.leases.sessions import SESSION
from tests.manager.leadership.conftest import At
from tests.manager.leadership.model import INTERVAL, LEASE, Fault, Process, World, beside


def epochs(world: World, queue: str) -> list[int]:
    return [row.epoch for row in map(slice_row, world.store.values(SLICE)) if row.queue == queue]


class TestManagers:
    @pytest.mark.parametrize("number", range(1, 12))
    def test_two_that_start_at_once(self, world: World, at: At, number: int) -> None:
        one, other = world.start("one"), world.start("other")
        at.call(one, number, lambda: beside(other.step))
        one.step()
        world.rounds(2)
        assert (one.engine.losses, other.engine.losses) == (0, 0)
        world.check_quiet()

    def test_one_that_joins_has_its_share_after_a_round_trip(self, world: World) -> None:
        one = world.start("one")
        world.round()
        other = world.start("other")
        other.step()
        assert one.woken
        one.step()  # lets slices go
        assert not other.woken
        one.step()  # they have no owner now
        assert other.woken
        other.step()
        world.check_quiet()

    def test_a_slice_is_kept_until_the_statements_for_it_have_ended(self, world: World) -> None:
        one = world.start("one", slow=3)
        world.round()
        other = world.start("other")
        other.step()
        one.step()
        for _ in range(3):
            assert not other.engine.serving
            one.step()
            other.step()
        one.step()
        other.step()
        world.check_quiet()

    def test_one_that_leaves_is_replaced_at_once(self, world: World, pair: tuple[Process, Process]) -> None:
        one, other = pair
        one.leave()
        assert other.woken
        other.step()
        assert one.leadership.seconds_left() <= 0
        world.check_quiet()
        one.loop.run_until_complete(one.leadership.step())
        world.check_quiet()

    def test_one_that_can_not_leave_in_order_is_replaced_later(
        self, world: World, at: At, pair: tuple[Process, Process]
    ) -> None:
        one, _ = pair
        at.call(one, 1, lambda: Fault("lost"))
        one.leave()
        world.rounds(int(LEASE / INTERVAL) + 1)
        world.check_quiet()

    def test_all_know_all(self, world: World, pair: tuple[Process, Process]) -> None:
        world.rounds(2)
        one, other = pair
        assert one.leadership.managers() == other.leadership.managers()
        found = {manager.address: set(manager.slices) for manager in one.leadership.managers()}
        assert found == {"one": one.engine.serving, "other": other.engine.serving}
        version = one.leadership.version
        world.rounds(2)
        assert one.leadership.version == version
        other.leave()
        one.step()
        assert one.leadership.version > version
        assert [manager.address for manager in one.leadership.managers()] == ["one"]

    def test_a_signal_that_fails_harms_nothing(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_addresses: object) -> None:
            raise RuntimeError("no network")

        monkeypatch.setattr(world, "signal", fail)
        one = world.start("one")
        world.round()
        world.start("other")
        with caplog.at_level(logging.ERROR, "stanchion.manager"):
            world.rounds(4)
        assert "could not be notified" in caplog.text
        assert len(one.engine.serving) == 2
        world.check_quiet()


class TestQueues:
    @pytest.mark.usefixtures("pair")
    def test_one_that_comes_moves_no_other(self, world: World) -> None:
        before = epochs(world, "orders")
        world.queues.update({f"new-{n}": n for n in range(1, 20)})
        world.rounds(2)
        world.check_quiet()
        assert epochs(world, "orders") == before

    @pytest.mark.usefixtures("pair")
    @pytest.mark.one_in_each("lanes", "before")
    @pytest.mark.parametrize("lanes", [1, 2, 3, 5, 64, 100])
    @pytest.mark.parametrize("before", [4, 64, 100])
    def test_lanes_change(self, world: World, before: int, lanes: int) -> None:
        for n in range(4):
            world.queues["orders"] = before
            world.rounds(3)
            world.check_quiet()
            world.queues["orders"] = lanes
            world.rounds(3)
            world.check_quiet()
            world.start(f"another-{n}").step()
            world.rounds(2)

    def test_a_slice_waits_for_lanes_that_another_manager_has_under_the_former_number(
        self, world: World, pair: tuple[Process, Process]
    ) -> None:
        one, other = pair
        world.queues["orders"] = 8
        for _ in range(3):
            one.step()
            world.check()
        others = {lane for owned in other.engine.serving for lane in range(owned.lanes[0], owned.lanes[1] + 1)}
        mine = {lane for owned in one.engine.serving for lane in range(owned.lanes[0], owned.lanes[1] + 1)}
        assert not others & mine
        world.rounds(3)
        world.check_quiet()

    @pytest.mark.usefixtures("pair")
    def test_one_that_goes_leaves_no_value(self, world: World) -> None:
        del world.queues["orders"]
        world.rounds(2)
        assert world.store.values(SLICE) == []
        world.check_quiet()

    @pytest.mark.usefixtures("pair")
    def test_values_of_managers_and_queues_of_long_ago_go(self, world: World) -> None:
        world.store.compare_and_set(SESSION, "gone", '{"until":1,"address":"gone"}', 0)
        world.store.compare_and_set(SLICE, "old/0", '{"owner":"gone","queue":"old","lanes":[-1,1023],"base":1}', 0)
        world.store.compare_and_set(SLICE, "older/0", '{"owner":"other","queue":"older","lanes":[-1,1023]}', 0)
        world.store.compare_and_set(SLICE, "strange/0", "[]", 0)
        world.store.compare_and_set(SESSION, "strange", "no JSON", 0)
        world.rounds(2)
        world.check_quiet()

    @pytest.mark.usefixtures("pair")
    def test_an_epoch_grows_though_the_queue_was_dropped(self, world: World) -> None:
        before = epochs(world, "orders")
        del world.queues["orders"]
        world.rounds(2)
        world.queues["orders"] = 4
        world.rounds(2)
        assert all(one > other for one, other in zip(epochs(world, "orders"), before, strict=True))


def test_a_slice_taken_by_a_write_without_an_answer_is_taken_again(world: World, at: At) -> None:
    one = world.start("one")
    at.call(one, 7, lambda: Fault("unheard"))
    one.step()
    assert not one.engine.serving
    assert [row.owner for row in map(slice_row, world.store.values(SLICE))] == [one.leadership.session]
    one.step()
    world.check_quiet()
    assert one.engine.losses == 0


def test_more_slices_than_an_interval_suffices_for(world: World) -> None:
    """The session is renewed in between."""
    world.call = 0.02
    world.queues = {f"queue-{n}": 64 for n in range(5)}
    one = world.start("one")
    world.rounds(5)
    assert one.engine.losses == 0
    world.check_quiet()


def test_values_are_closed_to_clients() -> None:
    assert SESSION.startswith(CLOSED)
    assert SLICE.startswith(CLOSED)
