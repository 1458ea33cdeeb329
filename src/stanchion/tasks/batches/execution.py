"""Execution of batches: one call for several jobs, each of which ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from stanchion.context.context import Context
from stanchion.context.unknown_work import Unknown
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.failures import Failure, failure_of
from stanchion.jobs.held_job import Settlement
from stanchion.jobs.outcome import Bury, Cancel, Outcome, RetryAfter, Snooze
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.tasks.coroutines import run_to_end
from stanchion.tasks.execution import (
    Attempted,
    Execution,
    in_own_variables,
    not_begun,
    outcome_of_error,
    outcome_of_value,
)
from stanchion.tasks.function_call import FunctionCall, Unrunnable
from stanchion.tasks.traced import TracedAttempt
from stanchion.telemetry.traces import Traces


class BatchExecution(FunctionCall):
    """One call of the function of a batch task, for these attempts at its jobs: at least one."""

    __slots__ = ("_failures", "members")

    def __init__(self, context: Context, members: Sequence[Execution]) -> None:
        self._context, self.members, self.work = context, members, members[0].work
        self.traced = None
        self._failures: dict[int, Failure] = {}
        self.args, self.kwargs = [[member.args[0] for member in members]], {}
        batching = self.work.batching
        assert batching is not None  # noqa: S101 - only batch tasks have batches
        if (name := batching.jobs_parameter) is not None:
            self._give(batching.signature, {name: self.jobs})

    @property
    def job(self) -> None:
        """None, as there are several."""
        return

    @property
    def jobs(self) -> list[Reservation]:
        """The reserved jobs, in the order of their items."""
        return [member.job for member in self.members]

    @property
    def rows(self) -> list[JobRow]:
        """The jobs as they were claimed."""
        return [member.row for member in self.members]

    @property
    def mask(self) -> Callable[[str], str] | None:
        """What hides in texts the values that the task hides, of all jobs: an error may show any of them."""
        masks = [mask for one in self.members if (mask := one.own_mask) is not None]
        return (lambda text: reduce(lambda told, mask: mask(told), masks, text)) if masks else None

    def failure(self, error: BaseException | str) -> Failure:
        """Return an error as it is stored; one that fails many jobs is put into words once."""
        if (known := self._failures.get(id(error))) is None:
            known = self._failures[id(error)] = failure_of(error, self.work.name, self.mask)
        return known

    def _traced(self, traces: Traces) -> TracedAttempt:
        span = traces.processing_batch(self.rows, self.work.name)
        for member in self.members:
            member.traced = TracedAttempt(traces, member.row, span, lambda: self.mask)
        return TracedAttempt(traces, self.members[0].row, span, lambda: self.mask)

    # -- how its jobs end

    def ended(self, value: object) -> list[Attempted]:
        """Return the ends of the jobs, in order, after the call has returned a value."""
        if value is None or isinstance(value, Outcome):
            return self._ends([value] * len(self.members))
        if isinstance(value, (list, tuple)) and len(value) == len(self.members):
            return self._ends(value)
        given = (
            f"{len(value)} results" if isinstance(value, (list, tuple)) else f"a value of type {type(value).__name__}"
        )
        return self.failed(
            InvalidInput(
                f"{self.work.name} returned {given} for {len(self.members)} jobs; return a list with a result for "
                f"each job, in the order of the items, or None"
            )
        )

    def failed(self, error: BaseException) -> list[Attempted]:
        """Return the ends of the jobs, in order, after the call has raised an error."""
        return self._ends([error] * len(self.members))

    def _ends(self, values: Sequence[object]) -> list[Attempted]:
        for member in self.members:
            member.batch = self
        try:
            return [_end(member, value) for member, value in zip(self.members, values, strict=True)]
        finally:  # nothing that has ended keeps itself, or its errors
            self._failures.clear()
            for member in self.members:
                member.leave_batch()


def _end(member: Execution, value: object) -> Attempted:
    """Return the end of a job: as the task has said of this one, else by its result or its error."""
    if (own := member.settlement) is not None:
        return Attempted(member.job, own.outcome, _error_of(own))
    if member.settled:
        return Attempted(member.job, None)
    if member.asked_to_stop:
        return Attempted(member.job, outcomes.Abandon(member.row.lease))
    if isinstance(value, BaseException):
        return Attempted(member.job, outcome_of_error(member, value), value)
    if value is None and not member.heard:
        return Attempted(None, commit_of(member.row))
    return Attempted(member.job, outcome_of_value(member, value))


def _error_of(settlement: Settlement) -> BaseException | None:
    """Return what events of a job tell that ends as the task has said of it: as if the task had raised it."""
    match settlement.outcome:
        case outcomes.Rollback(refund=True, delay=seconds):
            return Snooze(seconds)
        case outcomes.Rollback(error=None, delay=seconds):
            return RetryAfter(seconds)
        case outcomes.Rollback(error=text):
            return settlement.error or StanchionError(text)
        case outcomes.Bury(error=text):
            return settlement.error or Bury(text)
        case outcomes.Abandon(reason=text):
            return Cancel(text)
    return None


def attempted_together(context: Context, rows: Sequence[JobRow]) -> list[tuple[JobRow, Attempted]]:
    """Run claimed jobs of a batch task by one call in this thread, without settling them."""
    return in_own_variables(_attempted_together, context, rows)


def _attempted_together(context: Context, rows: Sequence[JobRow]) -> list[tuple[JobRow, Attempted]]:
    members, ends = list[Execution](), list[tuple[JobRow, Attempted]]()
    for row in rows:
        try:
            members.append(Execution(context, row))
        except (Unrunnable, Unknown) as reason:
            ends.append((row, not_begun(context, row, reason)))
    if not members:
        return ends
    batch = BatchExecution(context, members)
    for job in batch.jobs:
        context.events.fire("started", job)
    try:
        value = batch.call()
        if batch.work.is_async:
            value = run_to_end(value)
        ended = batch.ended(value)
    except (Exception, SystemExit) as raised:  # a task may raise anything; it is kept with its jobs
        ended = batch.failed(raised)
    return [*ends, *zip(batch.rows, ended, strict=True)]
