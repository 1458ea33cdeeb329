"""Jobs as results of Django's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.utils import timezone

from stanchion.django.tasks.compat import TaskError, TaskResult, TaskResultStatus
from stanchion.django.tasks.known import as_enqueued
from stanchion.jobs.call import called_with
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.lifecycle.outcomes import LEASE_LOST, NEVER_BEGAN

if TYPE_CHECKING:
    from stanchion.jobs.job import Job

RUN_AFTER = "x-django-run-after"
"""The header with the `run_after` of a task, as the job's due time changes with each retry."""

_STATUS = {
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.DONE: TaskResultStatus.SUCCESSFUL,
    JobState.DEAD: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
}
"""The status of a job's state; of any other, READY."""


class Started(NamedTuple):
    """An attempt: the worker's id, empty if it is not known, and when it began."""

    worker: str
    at: datetime | None


def result_of(task: object, job: Job, alias: str) -> object:
    """Return a job as the result of a task, read by the backend with this alias."""
    args, kwargs = called_with(job.payload)
    run_after = job.headers.get(RUN_AFTER)
    attempts = attempts_of(job)
    result = TaskResult(
        task=as_enqueued(
            task,
            priority=job.priority,
            queue_name=job.died_in or job.queue,
            backend=alias,
            run_after=None if run_after is None else datetime.fromisoformat(run_after),
        ),
        id=job.id,
        status=_STATUS.get(job.state, TaskResultStatus.READY),
        enqueued_at=local(job.enqueued_at),
        started_at=_local(attempts[0].at) if attempts else None,
        finished_at=_local(job.finished_at) if job.state.final else None,
        last_attempted_at=_local(attempts[-1].at) if attempts else None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[_error(entry) for entry in job.errors if _tells_attempt(entry)],
        worker_ids=[one.worker for one in attempts],
    )
    if job.state is JobState.DONE:
        object.__setattr__(result, "_return_value", job.result)
    return result


def attempts_of(job: Job) -> Sequence[Started]:
    """Return the attempts of a job that count, oldest first; since it was last retried by hand."""
    found: dict[int, Started] = {}
    after = job.attempts + 1
    for entry in reversed(job.errors):
        if _tells_attempt(entry):
            if entry["attempt"] >= after:  # of the time before the retry
                break
            after = entry["attempt"]
            found[after] = Started(entry.get("worker", ""), _moment(entry.get("started")))
            if earlier := entry.get("earlier"):
                found[1] = Started("", _moment(earlier["started"]))
                for number, worker in enumerate(reversed(earlier["workers"]), 1):
                    known = found.get(after - number, Started("", None))
                    found[after - number] = known._replace(worker=worker or "")
    if job.state in (JobState.RUNNING, JobState.DONE):
        found[job.attempts] = Started(job.worker or "", job.started_at)
    return [found.get(number, Started("", None)) for number in range(1, job.attempts + 1)]


def _tells_attempt(entry: Mapping[str, object]) -> bool:
    """Return whether an entry is the error of an attempt, not of a job that was put off or given back unharmed."""
    return "times" not in entry and entry["error"] != NEVER_BEGAN


def _error(entry: dict[str, Any]) -> object:
    kind = entry.get("type") or ("stanchion.errors.LeaseLost" if entry["error"] == LEASE_LOST else _NO_EXCEPTION)
    return TaskError(
        exception_class_path=kind if "." in kind else f"builtins.{kind}",
        traceback=entry.get("traceback") or f"{entry['error']}\n",
    )


_NO_EXCEPTION = "stanchion.errors.StanchionError"
"""The class of an error that no exception has caused, such as an operator's text."""


def local(at: datetime) -> datetime:
    """Return a time as Django has it: naive and local with USE_TZ=False."""
    return at if settings.USE_TZ else timezone.make_naive(at)


def _local(at: datetime | None) -> datetime | None:
    return None if at is None else local(at)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
