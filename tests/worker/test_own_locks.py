"""Runner threads share no lock for each job: once two met at one, each job would wake the other thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stanchion import Reservation, Stanchion
from stanchion.context import context_of
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.tasks import execution
from stanchion.tasks.execution import Execution
from stanchion.worker.running.attempt import Limit
from stanchion.worker.running.timeouts import Timeouts

SECONDS = 20.0


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    yield app
    app.close()


def in_time(act: Callable[[], object]) -> None:
    """Do something in a thread of its own, which may have to wait for ever."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_job_is_made_while_another_one_is(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    def quick() -> None:
        pass

    for _ in range(2):
        quick.enqueue()
    context = context_of(app)
    slow, other = context.store.claim(Claim("default", 2, "token", lease=SECONDS)).rows
    begun, go_on, made = threading.Event(), threading.Event(), Reservation

    def making(context: Any, row: JobRow, *args: Any, **options: Any) -> Any:
        if row.id == slow.id:
            begun.set()
            assert go_on.wait(2 * SECONDS)
        return made(context, row, *args, **options)

    monkeypatch.setattr(execution, "Reservation", making)
    attempt = Execution(context, slow)
    thread = threading.Thread(target=lambda: attempt.job)
    thread.start()
    assert begun.wait(SECONDS)
    in_time(lambda: Execution(context, other).job)
    go_on.set()
    thread.join(SECONDS)
    assert attempt.job.id == slow.id


def test_a_limit_ends_while_another_one_interrupts() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def interrupt() -> None:
        begun.set()
        assert go_on.wait(2 * SECONDS)

    timeouts = Timeouts({}, lambda *_: None)
    late, other = Limit(0.0, interrupt, lambda _: False), Limit(SECONDS, interrupt, lambda _: False)
    attempt: Any = None
    thread = threading.Thread(target=timeouts._late, args=(0, attempt, late))
    thread.start()
    assert begun.wait(SECONDS)
    in_time(lambda: timeouts.lift(other))
    go_on.set()
    thread.join(SECONDS)
    assert late.expired
