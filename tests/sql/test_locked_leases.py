"""A job whose lease has expired while somebody's transaction holds it slows down no claims of other queues."""

from __future__ import annotations

from typing import Any

import pytest
from tests.crash.scene import until

from stanchion import Queue, Stanchion
from stanchion.stores.rules.leases import locked_leases
from stanchion.stores.sql.engine.runner import CursorRunner

pytestmark = pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)

CLAIMS = 5


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The statements that have run."""
    noted: list[Any] = []
    execute = CursorRunner.execute

    def note(self: CursorRunner, statement: Any, *given: Any) -> None:
        noted.append(statement)
        execute(self, statement, *given)

    monkeypatch.setattr(CursorRunner, "execute", note)
    return noted


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment is long enough for a slow machine."""
    monkeypatch.setattr(locked_leases, "REMEMBERED_SECONDS", 60.0)


@pytest.fixture(params=["plain", "slots", "lanes"])
def other(app: Stanchion, request: pytest.FixtureRequest) -> Queue:
    """A queue of each shape, with jobs."""
    queue = app.queue("others")
    if request.param == "lanes":
        queue.configure(lanes=4)
    limits = ["smtp"] if request.param == "slots" else []
    if limits:
        app.semaphore("smtp", capacity=100)
    for n in range(4 * CLAIMS):
        queue.push(n, limits=limits)
    return queue


def claim(queue: Any, ran: list[Any]) -> int:
    """Claim one job, and return the number of statements."""
    before = len(ran)
    (job,) = queue.reserve(1, lease=3600)
    assert job
    return len(ran) - before


def test_claims_of_other_queues(app: Stanchion, other: Any, ran: list[Any]) -> None:
    queue = app.queue("orders")
    queue.push("held")
    (held,) = queue.reserve(lease=30)
    usual = max([claim(other, ran) for _ in range(2 * CLAIMS)][1:])
    with app.transaction() as transaction:
        held.commit(tx=transaction)
        app.store.clock_offset += 31
        found = [claim(other, ran) for _ in range(CLAIMS)]
    assert max(found[1:]) <= usual, found
    assert queue.size().total == 0


def test_the_moment_ends(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that expires later is found at once, and the locked one as soon as it is free."""
    queue, other = app.queue("orders"), app.queue("others")
    queue.push("locked")
    queue.push("later")
    locked, later = (queue.reserve(lease=lease)[0] for lease in (30, 60))
    with app.transaction() as transaction:
        locked.commit(tx=transaction)
        app.store.clock_offset += 31
        other.push(1)
        assert len(other.reserve(lease=3600)) == 1
        app.store.clock_offset += 31
        assert [job.id for job in queue.reserve(lease=30)] == [later.id]
        transaction.rollback()
    monkeypatch.setattr(locked_leases, "REMEMBERED_SECONDS", 0.0)
    assert until(lambda: queue.reserve(lease=30), 60, "the locked job")[0].id == locked.id
