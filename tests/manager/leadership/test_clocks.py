"""Clocks that are set, and managers that are late."""

from __future__ import annotations

import pytest

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.sessions import SESSION, session_row
from tests.manager.leadership.conftest import At
from tests.manager.leadership.model import INTERVAL, LEASE, Fault, Process, World, beside

HOUR = 3600.0
ROUNDS = int(LEASE / INTERVAL) + 1
"""Rounds within which the slices of a dead manager are taken over: a lease and an interval."""
CALLS = 6
"""Calls of an iteration in which nothing changes: now, compare_and_set; queues, values, values, now."""


def test_a_dead_manager_is_replaced_within_a_lease_and_an_interval(world: World, pair: tuple[Process, Process]) -> None:
    one, other = pair
    one.state = "dead"
    rounds = 0
    while len(other.engine.serving) < 4:
        world.round()
        rounds += 1
    assert rounds <= ROUNDS
    world.check_quiet()


def test_a_dead_manager_is_replaced_though_the_stores_clock_was_set_back(
    world: World, pair: tuple[Process, Process]
) -> None:
    one, other = pair
    one.state = "dead"
    world.set_clock(-HOUR)
    world.rounds(ROUNDS + 1)  # its session was seen first up to an interval after its last renewal
    assert len(other.engine.serving) == 4
    world.check_quiet()


def test_live_managers_keep_their_slices_though_the_stores_clock_was_set_back(
    world: World, pair: tuple[Process, Process]
) -> None:
    before = [one.engine.serving.copy() for one in pair]
    for _ in range(3):
        world.set_clock(-HOUR)
        world.rounds(5)
    assert [one.engine.serving for one in pair] == before
    assert [one.engine.losses for one in pair] == [0, 0]
    for session in (session_row(value) for value in world.store.values(SESSION)):
        assert session.until <= world.store.now() + LEASE * SECOND


@pytest.mark.parametrize("number", range(1, CALLS + 1))
def test_a_clock_set_back_amid_an_iteration_harms_no_session(
    world: World, at: At, pair: tuple[Process, Process], number: int
) -> None:
    """The other one renews by the new clock: what it writes is long over by the old one."""
    one, other = pair

    def set_back() -> None:
        world.clock.at -= int(HOUR * SECOND)
        beside(other.step)

    at.call(one, number, set_back)
    world.pass_(INTERVAL)
    one.step()
    world.rounds(5)
    assert (one.engine.losses, other.engine.losses) == (0, 0)
    world.check_quiet()


def test_what_is_written_lasts_a_lease_by_the_clock_set_back_before_a_second_try(
    world: World, at: At, pair: tuple[Process, Process]
) -> None:
    one, _ = pair

    def set_back() -> Fault:
        world.clock.at -= int(HOUR * SECOND)
        return Fault("lost")

    at.call(one, 2, set_back)
    one.step()
    assert one.leadership.until <= world.store.now() + LEASE * SECOND
    assert one.engine.losses == 0


@pytest.mark.parametrize("seconds", [LEASE * 2, HOUR])
@pytest.mark.usefixtures("pair")
def test_managers_agree_again_after_the_stores_clock_was_set_forward(world: World, seconds: float) -> None:
    world.set_clock(seconds)
    world.rounds(4)
    world.regular = True
    world.rounds(4)
    world.check_quiet()


@pytest.mark.parametrize("kind", ["lost", "unheard"])
def test_a_renewal_without_an_answer_loses_nothing(
    world: World, at: At, pair: tuple[Process, Process], kind: str
) -> None:
    one, _ = pair
    session, before = one.leadership.session, one.engine.serving.copy()
    at.call(one, 2, lambda: Fault(kind))
    world.rounds(3)
    assert one.leadership.session == session
    assert one.engine.serving == before
    assert one.engine.losses == 0


def test_a_deadline_counts_from_before_the_renewal(at: At, pair: tuple[Process, Process]) -> None:
    one, _ = pair
    at.call(one, 2, lambda: Fault("stop", after=True, seconds=LEASE / 2))
    one.step()
    assert 0 < one.leadership.seconds_left() <= 0.4 * LEASE


def test_an_answer_that_comes_late_is_no_reason_to_go_on(world: World, at: At, pair: tuple[Process, Process]) -> None:
    one, _ = pair
    world.pass_(INTERVAL)
    at.call(one, 2, lambda: Fault("stop", after=True, seconds=LEASE * 0.91))
    one.step()
    assert one.leadership.seconds_left() <= 0
    assert one.engine.serving == set()
    world.rounds(ROUNDS)
    world.check_quiet()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, CALLS + 1))
def test_one_that_is_stopped_for_long_owns_nothing_when_it_goes_on(
    world: World, at: At, pair: tuple[Process, Process], number: int, after: bool
) -> None:
    one, other = pair
    before = one.leadership.session
    at.call(one, number, lambda: Fault("stop", after, 3 * LEASE))
    world.pass_(INTERVAL)
    one.step()
    assert len(other.engine.serving) == 4 or one.leadership.session != before
    assert one.engine.losses >= 1
    world.rounds(3)
    world.check_quiet()


def test_a_first_write_that_lands_after_the_session_was_deleted_does_not_bring_it_back(
    world: World, pair: tuple[Process, Process]
) -> None:
    one, _ = pair
    session = one.leadership.session
    version = next(value.version for value in world.store.values(SESSION, [session]))
    assert world.store.compare_and_set(SESSION, session, None, version)
    assert world.store.compare_and_set(SESSION, session, '{"until":0,"address":"one"}', 0)
    world.regular = False
    one.step()
    assert one.engine.losses == 1
    assert one.leadership.session != session
    world.regular = True
    world.rounds(3)
    world.check_quiet()
