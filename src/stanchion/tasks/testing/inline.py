"""Running tasks in this process, for tests and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from stanchion.context.context import Context
from stanchion.context.unknown_work import Unknown
from stanchion.context.work import Batching
from stanchion.core.ids import new_token
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.tasks.batches.execution import attempted_together
from stanchion.tasks.execution import Attempted, attempted, report, settled


def run_here(context: Context, row: JobRow) -> bool:
    """Run one claimed job in this thread and settle it; return False if it was put off."""
    return _ended_here(context, row, attempted(context, row))


def run_batch_here(context: Context, rows: Sequence[JobRow]) -> int:
    """Run claimed jobs of a batch task by one call, and settle each; return the number that was not put off."""
    return sum(_ended_here(context, row, end) for row, end in attempted_together(context, rows))


def _ended_here(context: Context, row: JobRow, attempt: Attempted) -> bool:
    job, outcome, error = attempt
    state = settled(context, row, outcome) if outcome is not None else job.settled_as if job is not None else None
    if state is not None and job is not None:
        report(context, job, outcome, state, error)
    return job is not None


def drained(context: Context, queues: Sequence[str]) -> int:
    """Run all due jobs of these queues in this thread; return the number of attempts.

    If claims of a queue fail, the jobs of other queues run nevertheless; then the first error is raised.
    """
    context.registry.check_worked(queues)
    for name in queues:
        context.declare(name)
    context.registry.prepare(context.store, queues)
    ran = 0
    while True:
        claims, failures = list[Claimed](), list[Exception]()
        for name in queues:
            try:
                claims.append(context.store.claim(Claim(name, 1, new_token())))
            except Exception as error:
                failures.append(error)
                if not _answers(context):
                    break
        for row in (row for claimed in claims for row in claimed.rows):
            ran += _run(context, row)
        if not any(claimed.rows or claimed.retry_in == 0 for claimed in claims):
            if failures:
                raise failures[0]
            return ran


def _run(context: Context, row: JobRow | None) -> int:
    """Run a claimed job, or with it those due in its queue that its batch may have; return the number of attempts."""
    ran = 0
    while row is not None:
        if (batching := _batching(context, row)) is None:
            return ran + run_here(context, row)
        batch, other = [row], None
        while len(batch) < batching.size and (more := context.store.claim(Claim(row.queue, 1, new_token())).rows):
            if more[0].task != row.task:
                other = more[0]  # it has been claimed, and comes next
                break
            batch += more
        ran += run_batch_here(context, batch)
        row = other
    return ran


def _batching(context: Context, row: JobRow) -> Batching | None:
    try:
        return context.registry.known_work_of(row).batching
    except Unknown:
        return None


def _answers(context: Context) -> bool:
    """Return whether the store answers at all: each call to one that is away takes as long as a call may."""
    try:
        context.store.now()
    except StoreUnavailable:
        return False
    return True


_RUNNING: Final[ContextVar[bool]] = ContextVar("stanchion_runs_at_once", default=False)
"""True within a job that runs inline: the jobs that it enqueues run after its attempt."""


class AtOnce:
    """Runs due jobs whenever the store has changed."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self) -> None:
        """Run all due jobs that this process has the code for, unless a job that runs inline has made this call."""
        if _RUNNING.get():
            return
        token = _RUNNING.set(True)
        try:
            while drained(self._context, self._queues()):
                pass
        finally:
            _RUNNING.reset(token)

    def next_due(self, after: int) -> int | None:
        """Return the next time, after this one, when a job is due."""
        stats = self._context.store.stats(self._queues(), {"next_due"})
        return min((one.next_due for one in stats.values() if one.next_due and one.next_due > after), default=None)

    def _queues(self) -> list[str]:
        """Return the queues of tasks and stations, and others that hold calls of these tasks."""
        own, store = self._context.registry.own_queues(), self._context.store
        others = sorted({queue.name for queue in store.queues()} - set(own))
        tasks = list(self._context.registry.tasks)
        return own + [name for name in others if tasks and _holds(self._context, name, tasks)]


def _holds(context: Context, queue: str, tasks: list[str]) -> bool:
    """Return whether a queue holds a call of one of these tasks."""
    of_tasks = (Condition("queue", "=", queue), Condition("task", "in", tuple(tasks)))
    return bool(context.store.select(Query("live", of_tasks, limit=1)).rows)
