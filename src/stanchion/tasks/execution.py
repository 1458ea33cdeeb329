"""From a reserved job to its outcome: call the task, turn what comes of it into a record for the store."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

from stanchion.core.retry import Retry
from stanchion.errors import InvalidInput, LeaseLost, StanchionError, StoreUnavailable, UnknownTask
from stanchion.flows.continuation import continued
from stanchion.flows.parts import Part
from stanchion.flows.plan import after_of
from stanchion.flows.results import Values
from stanchion.jobs.call import called_with
from stanchion.jobs.outcome import Bury, Cancel, Outcome, RetryAfter, Snooze
from stanchion.jobs.reservation import Reservation, described
from stanchion.jobs.unknown_work import Unknown
from stanchion.stores.records import jobs as jobs_records
from stanchion.stores.records import outcomes as outcomes_records
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules.flows import handler_of, standing
from stanchion.tasks.task import Task

if TYPE_CHECKING:
    from stanchion.app import Stanchion
    from stanchion.pipelines.station import Station

log = logging.getLogger("stanchion.worker")


class Unrunnable(StanchionError):
    """The job can't be run by this code, now or on a retry: it is dead with this error."""


class Execution:
    """One attempt: the job in hand, its task and arguments; of an item in a pipeline, its station and the item.

    Raises Unknown where this code lacks the task or station, Unrunnable when the arguments don't fit, and
    StoreUnavailable where what a job gets in a flow can't be read now.
    """

    __slots__ = ("args", "item", "job", "kwargs", "task")

    def __init__(self, app: Stanchion, row: JobRow) -> None:
        self.item: Any = None
        try:
            self.task = _runs(app, row)
            payload = app.codec.decode(row.payload)
            if isinstance(self.task, Task):
                self.args, self.kwargs = called_with(payload)
            else:
                self.args, self.kwargs, self.item = [payload], {}, payload
            if row.flow is not None and (after := after_of(row)).node:
                self.args.insert(0, Values(app, standing(row.flow).root).behind(after))
        except (StoreUnavailable, Unrunnable, Unknown):
            raise
        except (ValueError, RecursionError, StanchionError) as error:
            raise Unrunnable(f"job {row.id} can't be read: {error}") from None
        self.job = Reservation(app, row, self.task.retry)
        if self.task.job_parameter is not None:
            self._give_job(self.task.job_parameter)

    def _give_job(self, name: str) -> None:
        """Pass the job to the parameter that asks for it, in its place among the stored arguments."""
        parameters = self.task.signature.parameters
        place = list(parameters).index(name)
        if parameters[name].kind is Parameter.KEYWORD_ONLY or place > len(self.args):
            self.kwargs[name] = self.job
        else:
            self.args.insert(place, self.job)

    def call(self) -> Any:
        """Run the task; for an async one, return the coroutine."""
        try:
            return self.task.function(*self.args, **self.kwargs)
        except TypeError as error:
            # Only a call that never entered the function is about its arguments.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise Unrunnable(f"the arguments no longer fit {self.task.name}: {error}") from None
            raise


_IMPORT_TASK = "import the module that defines it, or keep the old name with @app.task(name=...)"


def _runs(app: Stanchion, row: JobRow) -> Task[..., Any] | Station:
    """Return what a job calls: a task by its name or, for a bare payload, the station whose queue it is in."""
    if row.task is not None:
        try:
            return app.task_named(row.task)
        except UnknownTask:
            raise Unknown(row.task, f"no task {row.task!r} is registered here", _IMPORT_TASK) from None
    station = app.stations.get(row.queue)
    if station is None:
        message = f"no station works on the bare payloads of queue {row.queue!r} here"
        advice = f"import the pipeline that has it, or take the payloads with app.queue({row.queue!r}).reserve()"
        raise Unknown(row.queue, message, advice)
    if refusal := station.refused(row):
        raise Unrunnable(refusal)
    return station


def outcome_of_value(execution: Execution, value: Any) -> outcomes_records.Outcome | None:
    """Return the outcome of an attempt that returned; None when the task settled its job itself."""
    job = execution.job
    if job.settled_as is not None:
        return None
    if value is None:
        return outcomes_records.Commit(job._row.id, job.token)
    if isinstance(value, Outcome):
        return outcome_of_error(execution, value)
    try:
        if not isinstance(execution.task, Task):
            return execution.task.outcome(job._row, execution.item, value)
        if isinstance(value, Part):
            return _as_called(job._app, continued(job._app, job._row, value))
        return outcomes_records.Commit(job.id, job.token, job._app.codec.encode(value, "result"))
    except InvalidInput as error:
        return outcomes_records.Bury(job.id, job.token, *described(error))


def _as_called(app: Stanchion, outcome: outcomes_records.Continue) -> outcomes_records.Continue:
    """Return how a job goes on, made ready as an enqueue is."""
    jobs = [outcome.job, *outcome.jobs]
    handlers = [job for node in outcome.nodes if (job := handler_of(node)) is not None]
    with suppress(StoreUnavailable):  # without a lane it is in nobody's way; the work that is done is worth more
        app.make_ready(handlers)
        app.make_ready(jobs)
    return outcome._replace(job=jobs[0], jobs=tuple(jobs[1:]))


def outcome_of_error(execution: Execution, error: BaseException) -> outcomes_records.Outcome | None:
    """Return the outcome of an attempt that raised, or returned an Outcome."""
    job = execution.job
    if job.settled_as is not None:
        return None
    match error:
        case Snooze(seconds=seconds):
            return outcomes_records.Rollback(job.id, job.token, seconds, refund=True)
        case RetryAfter(seconds=seconds):
            return outcomes_records.Rollback(job.id, job.token, seconds, f"RetryAfter: {seconds:g} s")
        case Cancel(reason=reason):
            return outcomes_records.Abandon(job.id, job.token, reason)
        case Bury(reason=reason):
            return outcomes_records.Bury(job.id, job.token, reason or "buried")
        case Unrunnable():
            return unrunnable(job._row, error)
    if not isinstance(execution.task, Task) and job.attempts >= execution.task.retry.max_attempts:
        return outcomes_records.Bury(job.id, job.token, *described(error))
    return outcomes_records.Rollback(job.id, job.token, _delay(job, error), *described(error))


def _delay(job: Reservation, error: BaseException) -> float:
    """Return the seconds that the retry policy says; a custom one that fails is replaced by the default."""
    return _delay_by(job.retry_delay, job.task, job.failures + 1, error)


def lost_lease_delay(app: Stanchion, row: JobRow, number: int) -> float:
    """Return the seconds of the first, second, ... wait of a job after lost leases: its retry policy's delays."""
    work = app.stations.get(row.queue) if row.task is None else app.tasks.get(row.task)
    retry, error = app.retry if work is None else work.retry, LeaseLost(row.id)
    return _delay_by(lambda error: retry.delay(number, error), row.task, number, error)


def _delay_by(policy: Callable[[BaseException], float], task: str | None, failures: int, error: BaseException) -> float:
    try:
        seconds = policy(error)
        if math.isfinite(seconds):
            return max(0.0, seconds)
        log.error("the retry policy of %s returned %r; the default is used", task, seconds)
    except Exception:
        log.exception("the retry policy of %s failed; the default is used", task)
    return Retry().delay(failures, error)


def unrunnable(row: JobRow, error: Unrunnable) -> outcomes_records.Outcome:
    """Return the outcome of a job that this code can't run."""
    assert row.token is not None  # noqa: S101 - a claimed row has one
    return outcomes_records.Bury(row.id, row.token, described(error)[0])


def not_begun(app: Stanchion, row: JobRow, error: Unrunnable | Unknown) -> Attempted:
    """Return the end of a job that could not be begun: it is dead or, where its work is unknown, put off."""
    outcome = unrunnable(row, error) if isinstance(error, Unrunnable) else app.unknown_work.outcome(row, error)
    if isinstance(outcome, outcomes_records.Rollback):
        return Attempted(None, outcome)
    return Attempted(Reservation(app, row), outcome, error)


def report(
    app: Stanchion,
    job: Reservation,
    outcome: outcomes_records.Outcome | None,
    state: JobState,
    error: BaseException | None,
) -> None:
    """Fire the events that follow an attempt which was settled by `outcome` (None: by the task itself)."""
    job.state = state
    if state is JobState.DONE or (not state.final and _passed_on(outcome)):
        app.events.fire("success", job)
        return
    if _failed(outcome):
        app.events.fire("failure", job, error)
    if state is JobState.DEAD or _dead_lettered(job, outcome, state):
        app.events.fire("dead", job, error)
    elif not state.final and error is not None:
        app.events.fire("retry", job, error)


def _failed(outcome: outcomes_records.Outcome | None) -> bool:
    """Tell whether the store counts a failure for this outcome."""
    match outcome:
        case outcomes_records.Rollback(error=str()) | outcomes_records.Bury():
            return True
    return False


def _passed_on(outcome: outcomes_records.Outcome | None) -> bool:
    """Tell whether the job went on to another station of its pipeline."""
    match outcome:
        case outcomes_records.Move() | outcomes_records.Continue(job=jobs_records.NewJob(task=None)):
            return True
    return False


def _dead_lettered(job: Reservation, outcome: outcomes_records.Outcome | None, state: JobState) -> bool:
    """Tell whether the job died though it lives on: in the dead-letter queue of its queue."""
    if state.final:
        return False
    match outcome:
        case outcomes_records.Bury():
            return True
        case outcomes_records.Rollback(refund=False):
            return job.attempts >= job.max_attempts
    return False


class Attempted(NamedTuple):
    """What came of an attempt: its job, and what to settle; None where the task has settled its job itself.

    The job is None where there is nothing to report: it was put off.
    """

    job: Reservation | None
    outcome: outcomes_records.Outcome | None
    error: BaseException | None = None


def attempted(app: Stanchion, row: JobRow) -> Attempted:
    """Run one claimed job in this thread; nothing is settled yet."""
    try:
        execution = Execution(app, row)
    except (Unrunnable, Unknown) as reason:
        return not_begun(app, row, reason)
    job = execution.job
    app.events.fire("start", job)
    try:
        value = execution.call()
        if execution.task.is_async:
            value = asyncio.run(value)
        return Attempted(job, outcome_of_value(execution, value), value if isinstance(value, Outcome) else None)
    except Exception as raised:  # a task may raise anything; it is kept with the job
        return Attempted(job, outcome_of_error(execution, raised), raised)


def unstorable(outcome: outcomes_records.Outcome, error: InvalidInput) -> outcomes_records.Bury:
    """Return what becomes of a job whose outcome is more than the store can hold: it would be so each time."""
    return outcomes_records.Bury(outcome.id, outcome.token, f"the outcome can't be stored: {error}")


def _settled(app: Stanchion, row: JobRow, outcome: outcomes_records.Outcome) -> JobState | None:
    def settle(outcome: outcomes_records.Outcome) -> JobState | None:
        return app.store.settle(app.lanes.place([outcome], lambda: {row.id: row.tenant}))[0]

    try:
        return settle(outcome)
    except InvalidInput as error:
        return settle(unstorable(outcome, error))
