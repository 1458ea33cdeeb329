"""One attempt at a job, seen from the threads of a worker."""

import threading
from typing import Any

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records.claims import Claim
from stanchion.tasks import execution


def test_two_threads_that_ask_for_the_job_at_once_get_the_same_one(monkeypatch):
    app = Stanchion("memory://")

    @app.task
    def work() -> None: ...

    work.enqueue()
    (row,) = app.store.claim(Claim("default", 1, "a-token", lease=30.0)).rows
    attempt = execution.Execution(context_of(app), row)
    found: list[Reservation] = []
    other = threading.Thread(target=lambda: found.append(attempt.job))

    def slow(*args: Any, **options: Any) -> Reservation:
        if other.ident is None:
            other.start()
            other.join(0.2)  # it must not come to its end before this one is made
        return Reservation(*args, **options)

    monkeypatch.setattr(execution, "Reservation", slow)
    found.append(attempt.job)
    other.join(60)
    assert found[0] is found[1]
