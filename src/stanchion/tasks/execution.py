"""Execution: calls the work of a reserved job and turns the result into an outcome for the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from decimal import getcontext, setcontext
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from stanchion.context.context import Context
from stanchion.context.unknown_work import Unknown
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.flows.failure import failure_for
from stanchion.flows.plan import after_of
from stanchion.flows.results import Values
from stanchion.jobs.failures import Failure, described, failure_of, with_cause
from stanchion.jobs.held_job import (
    Passing,
    Settlement,
    encoded_outcome,
    hold_passing,
    is_asked_to_stop,
    lease_of,
    payload_text,
    record_no_more,
)
from stanchion.jobs.outcome import Bury, Cancel, Outcome, RetryAfter, Snooze
from stanchion.jobs.reservation import Reservation
from stanchion.stores.one_by_one import DATA
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.rules.lifecycle.outcomes import commit_of, have_rows
from stanchion.tasks.coroutines import run_to_end
from stanchion.tasks.function_call import FunctionCall, Unrunnable
from stanchion.tasks.retrying import after_failure
from stanchion.tasks.traced import TracedAttempt
from stanchion.telemetry.traces import Traces

P = ParamSpec("P")
T = TypeVar("T")


class SharedCall(Protocol):
    """A call for the jobs of a batch: its errors may show the values of any of them."""

    @property
    def mask(self) -> Callable[[str], str] | None: ...
    def failure(self, error: BaseException | str) -> Failure: ...


class Superseded(Unrunnable):
    """The job must not run, as a newer one has taken its place: it is cancelled with this reason."""


class Execution(FunctionCall):
    """One attempt at a job: the reserved job, the work that it calls, and the arguments.

    The attempts of a batch share one call. Raises Unknown if this code lacks the task or station, Unrunnable if the
    arguments do not fit, and StoreUnavailable if the values from its flow can't be read now.
    """

    __slots__ = ("_job", "_making", "batch", "passing", "payload", "row", "settlement")

    def __init__(self, context: Context, row: JobRow, passing: Passing | None = None) -> None:
        self._context, self.row, self.passing = context, row, passing
        self._job: Reservation | None = None
        # Its own: threads that shared one would wake each other for each job, once they had met there.
        self._making = threading.Lock()
        self.traced = None
        self.batch: SharedCall | None = None
        """The call that it shares with other attempts, while these end."""
        self.settlement: Settlement | None = None
        """How the task of a batch has said that the job ends."""
        try:
            known = context.registry.known_work_of(row)
            self.work = known if row.items is None else known.of_chunk(row)
            if refusal := self.work.refused(row):
                raise Unrunnable(refusal)
            self.payload = context.value_of(row.payload)
            self.args, self.kwargs = self.work.arguments(self.payload)
            # A bare payload is the item of a station, which takes nothing else.
            if row.flow_root is not None and row.task is not None and (after := after_of(row)).node:
                self.args.insert(0, Values(context, row.flow_root).behind(after))
            if self.work.models is not None:
                self.args, self.kwargs = self.work.models.given(self.args, self.kwargs)
            if self.work.batching is not None and (len(self.args) != 1 or self.kwargs):
                raise Unrunnable(f"the arguments no longer fit {self.work.name}: each job of a batch has one item")
            failed = self.work.failure_parameter
            given: dict[str, object] = {} if failed is None else {failed: failure_for(context, row)}
        except (StoreUnavailable, Unrunnable, Unknown):
            raise
        except (ValueError, RecursionError, StanchionError) as error:
            raise Unrunnable(f"job {row.id} can't be read: {error}") from None
        if (name := self.work.job_parameter) is not None:
            given[name] = self.job
        self._give(self.work.signature, given)

    @property
    def job(self) -> Reservation:
        """The reserved job, made when something asks for it first: most tasks and their workers never do."""
        if self._job is None:
            with self._making:  # a worker's thread that asks the job to stop must reach the one that the task has
                if self._job is None:
                    row, record = self.row, None if self.work.batching is None else self._record
                    told = row.worker is not None
                    job = Reservation(self._context, row, self.work.retry, record, told=told)
                    hold_passing(job, self.passing)
                    self._job = job
        return self._job

    @property
    def known_job(self) -> Reservation | None:
        """The reserved job, if something has asked for it."""
        return self._job

    @property
    def jobs(self) -> list[Reservation]:
        """The reserved job, in a list."""
        return [self.job]

    @property
    def mask(self) -> Callable[[str], str] | None:
        """What hides the values that the task hides in texts; None if it hides nothing."""
        return self.own_mask if self.batch is None else self.batch.mask

    @property
    def own_mask(self) -> Callable[[str], str] | None:
        """What hides these values of this job only."""
        return self._context.hidden.masking(self.row.task, lambda: self.payload)

    @property
    def settled(self) -> bool:
        """Whether the task has settled its job itself."""
        return self._job is not None and self._job.settled_as is not None

    @property
    def asked_to_stop(self) -> bool:
        """Whether the job was asked to stop, as far as this process knows."""
        return bool(self.row.cancel_requested) if self._job is None else is_asked_to_stop(self._job)

    @property
    def heard(self) -> bool:
        """Whether the task has the job, or a listener hears of its success."""
        return self._job is not None or self._context.events.hears("done")

    def failure(self, error: BaseException | str) -> Failure:
        """Return an error or a reason as it is stored, without the values that the task hides."""
        if self.batch is not None:
            return self.batch.failure(error)
        return failure_of(error, self.row.task, self.mask)

    def leave_batch(self) -> None:
        """End the recording of how the job ends: from now on it acts on the store, which refuses what comes late."""
        self.batch = None
        if self._job is not None:
            record_no_more(self._job)

    def _traced(self, traces: Traces) -> TracedAttempt:
        return TracedAttempt(traces, self.row, traces.processing(self.row, self.work.name), lambda: self.mask)

    def _check(self) -> None:
        if self.work.expectations is not None:
            self.work.expectations.check(self._context.store, self.row, self.payload)

    def _record(self, settlement: Settlement) -> None:
        if self.settlement is not None:
            raise InvalidInput(f"job {self.row.id} of the batch has an outcome already: each job ends once")
        self.settlement = settlement


def outcome_of_value(execution: Execution, value: object) -> outcomes.Outcome | None:
    """Return the outcome of an attempt that returned; None if the task settled its job itself."""
    if execution.settled:
        return None
    if value is None and execution.row.task is not None:  # what a station drops may be the output of a key
        return commit_of(execution.row)
    if isinstance(value, Outcome):
        return outcome_of_error(execution, value)
    try:
        if execution.traced is not None:
            return execution.traced.outcome(lambda: execution.work.outcome(execution.row, execution.payload, value))
        return execution.work.outcome(execution.row, execution.payload, value)
    except InvalidInput as error:
        return outcomes.Bury(execution.row.lease, *execution.failure(error))


def outcome_of_error(execution: Execution, error: BaseException) -> outcomes.Outcome | None:
    """Return the outcome of an attempt that raised, or returned an Outcome."""
    if execution.settled:
        return None
    job = execution.job
    match error:
        case Snooze() | RetryAfter():
            return _put_off(execution, error)
        case Cancel(reason=reason):
            return outcomes.Abandon(lease_of(job), execution.failure(reason).error)
        case Bury(reason=reason):
            return outcomes.Bury(lease_of(job), *_caused(execution, error, reason or "buried"))
        case Unrunnable():
            return unrunnable(execution.row, error)
    try:
        return after_failure(lease_of(job), job, execution.work, error, execution.failure(error))
    except Bury as outcome:  # raised by the retry policy
        outcome.__cause__ = outcome.__cause__ or error
        return outcomes.Bury(lease_of(job), *_caused(execution, outcome, outcome.reason or "buried"))


def _caused(execution: Execution, error: Outcome, reason: str) -> Failure:
    """Return the reason of an outcome that a task has raised, with the error that it was raised from."""
    return with_cause(execution.failure(reason), error, execution.mask)


def _put_off(execution: Execution, wanted: Snooze | RetryAfter) -> outcomes.Outcome:
    """Return the outcome of an attempt that is to be made again, dead if its checkpoint can't be stored."""
    job = execution.job
    try:
        payload = payload_text(job, wanted.payload)
    except InvalidInput as error:
        return outcomes.Bury(lease_of(job), *failure_of(error, job.task))
    if isinstance(wanted, Snooze):
        return outcomes.Rollback(lease_of(job), wanted.seconds, refund=True, payload=payload)
    failure = _caused(execution, wanted, f"RetryAfter: {wanted.seconds:g} s")
    return outcomes.Rollback(lease_of(job), wanted.seconds, *failure, payload=payload)


def unrunnable(row: JobRow, error: Unrunnable) -> outcomes.Outcome:
    """Return the outcome of a job that this code can't run, or that must not run any more."""
    if isinstance(error, Superseded):
        return outcomes.Abandon(row.lease, str(error))
    return outcomes.Bury(row.lease, described(error)[0])


def not_begun(context: Context, row: JobRow, error: Unrunnable | Unknown) -> Attempted:
    """Return the end of a job that could not start: dead, or put off if its work is unknown."""
    outcome = unrunnable(row, error) if isinstance(error, Unrunnable) else context.unknown_work.outcome(row, error)
    if isinstance(outcome, outcomes.Rollback):
        return Attempted(None, outcome)
    return Attempted(Reservation(context, row), outcome, error)


def report(
    context: Context,
    job: Reservation,
    outcome: outcomes.Outcome | None,
    state: JobState,
    error: BaseException | None,
) -> None:
    """Fire the events of an attempt that was settled by `outcome` (None: by the task itself)."""
    job.state = state
    if state is JobState.DONE or (not state.final and _passed_on(outcome)):
        context.events.fire("done", job)
        return
    if _failed(outcome):
        context.events.fire("failed", job, error)
    if state is JobState.DEAD or _dead_lettered(job, outcome, state):
        context.events.fire("dead", job, error)
    elif not state.final and error is not None:
        context.events.fire("retrying", job, error)


def _failed(outcome: outcomes.Outcome | None) -> bool:
    """Return whether the store counts a failure for this outcome."""
    match outcome:
        case outcomes.Rollback(error=str()) | outcomes.Bury():
            return True
    return False


def _passed_on(outcome: outcomes.Outcome | None) -> bool:
    """Return whether the job went on to another station of its pipeline."""
    match outcome:
        case outcomes.Move() | outcomes.Continue(job=NewJob(task=None)):
            return True
    return False


def _dead_lettered(job: Reservation, outcome: outcomes.Outcome | None, state: JobState) -> bool:
    """Return whether the job died and lives on as a dead letter in another queue."""
    if state.final:
        return False
    match outcome:
        case outcomes.Bury():
            return True
        case outcomes.Rollback(refund=False):
            return job.attempts >= job.max_attempts
    return False


class Attempted(NamedTuple):
    """The result of an attempt: its job, and the outcome to settle, None if the task has settled its job itself.

    The job is None if there is nothing to report because it was put off.
    """

    job: Reservation | None
    outcome: outcomes.Outcome | None
    error: BaseException | None = None


def in_own_variables(run: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a copy of the caller's context variables."""
    variables = copy_context()
    variables.run(setcontext, getcontext().copy())  # decimal's variable holds an object that jobs can change
    return variables.run(run, *args, **kwargs)


def attempted(context: Context, row: JobRow) -> Attempted:
    """Run one claimed job in this thread, without settling it, in a copy of the caller's context variables."""
    return in_own_variables(_attempted, context, row)


def _attempted(context: Context, row: JobRow) -> Attempted:
    try:
        execution = Execution(context, row)
    except (Unrunnable, Unknown) as reason:
        return not_begun(context, row, reason)
    job = execution.job
    context.events.fire("started", job)
    try:
        value = execution.call()
        if execution.work.is_async:
            value = run_to_end(value)
        outcome = encoded_outcome(outcome_of_value(execution, value))
        return Attempted(job, outcome, value if isinstance(value, Outcome) else None)
    except (Exception, SystemExit) as raised:  # a task may raise anything; it is kept with the job
        return Attempted(job, outcome_of_error(execution, raised), raised)


def unstorable(context: Context, row: JobRow | None, outcome: outcomes.Outcome, error: Exception) -> outcomes.Ending:
    """Return the outcome of a job whose own the store can't hold. A retry would fail in the same way.

    A chunk with a row that its table refuses is cut into parts, which run again, until that row is alone. `row`: the
    job as it was at this attempt, if it is known.
    """
    if row is not None and (row.items or 0) > 1 and have_rows([outcome]):
        return context.registry.stations[logical_name(row.queue)].cut(row)
    return outcomes.Bury(outcome.lease, f"the outcome can't be stored: {error}")


def settled(context: Context, row: JobRow, outcome: outcomes.Outcome) -> JobState | None:
    """Settle one job, choosing lanes for its continuations; return the new state, or None if the lease is lost."""

    def settle(outcome: outcomes.Outcome) -> JobState | None:
        if last := context.progress.take([row.lease]):
            context.current_store().settle(last)
        settling = context.lanes.place(context.store, [outcome], lambda: {row.id: row.tenant})
        return context.current_store().settle(settling)[0]

    try:
        return settle(outcome)
    except DATA as error:
        return settle(unstorable(context, row, outcome, error))
