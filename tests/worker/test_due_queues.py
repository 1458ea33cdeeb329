"""Which queues a worker claims from next."""

import pytest

from stanchion import Stanchion
from stanchion.stores.wakeup.signs import ANY, NO_SIGNS, Signs
from stanchion.worker.due_queues import DueQueues

QUEUES = ["full", "other", "empty"]


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.fixture
def due(app: Stanchion) -> DueQueues:
    """What knows that no claim gets the job of the full queue."""
    due = DueQueues(app.context, QUEUES, poll=300)
    assert sorted(due.next()) == sorted(QUEUES)
    app.queue("full").push(1)
    assert due.nap(None, connected=False) == 0  # it came due between the claim and the look
    assert due.next() == ["full"]
    assert due.nap(None, connected=False) > 200
    return due


def test_a_signal_names_them(due: DueQueues) -> None:
    due.woken(Signs(frozenset({"other", "of another worker"})), by_sign=True)
    assert due.next() == ["other"]


def test_a_signal_for_any(due: DueQueues) -> None:
    due.woken(ANY, by_sign=True)
    assert sorted(due.next()) == sorted(QUEUES)


def test_outcomes_of_this_worker_may_let_a_queue_go_on(due: DueQueues) -> None:
    due.woken(NO_SIGNS, by_sign=True)
    assert due.next() == ["full"]


def test_after_the_time_those_with_due_jobs(app: Stanchion, due: DueQueues) -> None:
    app.queue("other").push(2)
    due.woken(NO_SIGNS, by_sign=False)
    assert sorted(due.next()) == ["full", "other"]


def test_a_queue_that_is_held_back_hides_no_other(app: Stanchion, due: DueQueues) -> None:
    due.woken(Signs(frozenset({"full"})), by_sign=True)
    assert due.next() == ["full"]
    app.queue("other").push(2)
    assert due.nap(None, connected=False) == 0
    assert due.next() == ["other"]


def test_a_rate_is_waited_for_and_hides_no_other(app: Stanchion, due: DueQueues) -> None:
    app.queue("full").push(0, priority=1)
    due.woken(Signs(frozenset({"full"})), by_sign=True)
    assert due.next() == ["full"]
    assert due.nap(0.25, connected=False) == 0.25
    app.queue("other").push(2)
    assert due.nap(0.25, connected=False) == 0
    assert due.next() == ["other"]


def test_where_signals_arrive_polls_are_a_backup(due: DueQueues) -> None:
    due.woken(NO_SIGNS, by_sign=False)
    due.next()
    assert due.nap(None, connected=True) > 3 * 300 * 0.8
