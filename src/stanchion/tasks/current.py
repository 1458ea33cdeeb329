"""The running job, found from any function that a task calls."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from stanchion.jobs.reservation import Reservation


class HasJob(Protocol):
    """An attempt, whose reservation is made when something asks for it; None for a batch."""

    @property
    def job(self) -> Reservation | None: ...


RUNNING: ContextVar[HasJob | None] = ContextVar("stanchion_running", default=None)
"""The attempt that the code is a part of."""


def current_job() -> Reservation | None:
    """Return the running job, in a task, a station, middleware, and all functions that they call; None elsewhere.

    A context variable holds it: `asyncio.to_thread` and tasks of asyncio pass it on, a `threading.Thread` or an
    executor only with `contextvars.copy_context().run`. A batch task and a function of a Spark station have many jobs
    at once, and no current one.
    """
    attempt = RUNNING.get()
    return None if attempt is None else attempt.job
