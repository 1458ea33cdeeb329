"""Every error that Stanchion raises; each message says what to do next."""

from __future__ import annotations

from collections.abc import Sequence


class StanchionError(Exception):
    """The base of all errors of this package."""


class InvalidInput(StanchionError, ValueError):
    """An argument was refused before anything was stored."""


class PayloadMisfit(InvalidInput):
    """A payload does not fit the schema of its queue.

    `field`: the path of the field, empty for the whole payload; `reason`: why; `row`: its number in a batch, from 1.
    """

    def __init__(self, queue: str, version: int, field: str, reason: str, row: int | None = None) -> None:
        what = "a payload" if row is None else f"payload {row} of the batch"
        super().__init__(
            f"{what} does not fit the schema of queue {queue!r} (version {version}): "
            f"{f'field {field}' if field else 'it'} {reason}; correct it, or declare another schema"
        )
        self.queue, self.version, self.field, self.reason, self.row = queue, version, field, reason, row


class SchemaRefused(InvalidInput):
    """A declared schema does not go together with the one of the queue; only nullable fields may be added."""

    def __init__(self, queue: str, version: int, field: str, why: str) -> None:
        super().__init__(
            f"the declared schema of queue {queue!r} can't follow the stored one (version {version}): field {field} "
            f"{why}; only nullable fields may be added: give the field another name, use another queue, or, where "
            f"no job of the old kind matters, put the schema in force with queue.configure(schema=...)"
        )
        self.queue, self.version, self.field, self.why = queue, version, field, why


class ArgumentMisfit(InvalidInput):
    """An argument of a task does not fit the model in the task's annotation.

    `field`: the path of the field in it, empty for the whole argument; `reason`: why.
    """

    def __init__(self, task: str, argument: str, model: str, field: str, reason: str) -> None:
        super().__init__(
            f"the argument {argument} of task {task!r} does not fit {model}: "
            f"{f'field {field}' if field else 'it'} {reason}; correct the call"
        )
        self.task, self.argument, self.model, self.field, self.reason = task, argument, model, field, reason


class ResultMisfit(InvalidInput):
    """The result of a task does not fit the model that the task says it returns.

    `field`: the path of the field in it, empty for the whole result; `reason`: why.
    """

    def __init__(self, task: str, model: str, field: str, reason: str) -> None:
        super().__init__(
            f"the result of task {task!r} does not fit {model}: {f'field {field}' if field else 'it'} {reason}; "
            f"correct the task or its annotation; job.result has the plain value of a stored one"
        )
        self.task, self.model, self.field, self.reason = task, model, field, reason


class UnknownTask(StanchionError, LookupError):
    """A task name that no code of this app has registered."""


class DuplicateKey(StanchionError):
    """A job of the queue already has this key, and on_duplicate is "raise"."""

    def __init__(self, queue: str, key: str, job_id: str, *, finished: bool = False) -> None:
        super().__init__(
            f"queue {queue!r} has finished the job {job_id} with key {key!r} within key_ttl; use another key, "
            f"leave out key_ttl, or enqueue with on_duplicate='return'"
            if finished
            else f"queue {queue!r} already has the live job {job_id} with key {key!r}; wait until it has finished, "
            f"cancel it, or enqueue with on_duplicate='return' or 'replace'"
        )
        self.queue, self.key, self.job_id = queue, key, job_id


class SearchTooWide(StanchionError):
    """A search looked into as many jobs as one may, and there are more.

    `found`: the ids of those that it found so far. `after`: the id to continue the search from, with `after=`.
    """

    def __init__(self, looked_at: int, found: Sequence[str], after: str) -> None:
        super().__init__(
            f"the search looked into {looked_at:,} jobs, found {len(found):,}, and there are more; narrow it by queue, "
            f"state, task, tenant or times, ask for fewer by limit, or continue with after={after!r}"
        )
        self.looked_at, self.found, self.after = looked_at, list(found), after


class LeaseLost(StanchionError):
    """The reservation is lost: its lease expired, the job was taken back, or it has finished."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} is no longer reserved under this token, so nothing was changed; discard this attempt's "
            f"work, and reserve with a longer lease or call extend() in time"
        )
        self.job_id = job_id


class BatchLeasesLost(StanchionError):
    """Jobs of a batch are no longer reserved: `job_ids`."""

    def __init__(self, job_ids: Sequence[str], jobs: int) -> None:
        super().__init__(
            f"{len(job_ids)} of {jobs} jobs of this batch are no longer reserved under their tokens, so nothing was "
            f"changed for them; discard their work, and take smaller batches, reserve with a longer lease, or call "
            f"extend() in time"
        )
        self.job_ids = list(job_ids)


class CannotJoin(StanchionError):
    """This store can't join the given transaction."""


class StoreUnavailable(StanchionError):
    """The store did not answer within its deadline, or refused the connection.

    `lasting`: waiting does not help, as with a wrong password; waits for the store end immediately.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class NotPermitted(StanchionError, PermissionError):
    """The manager's token does not permit this."""


class SchemaMismatch(StanchionError):
    """The tables in the store are missing, or their version does not match this code."""


class MissingExtra(StanchionError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'stanchion[{extra}]'")
        self.extra = extra


class JobNotFound(StanchionError, LookupError):
    """No job of that id is live or in history, or it is not in the given queue.

    `queue`, `found_in`: the given queue, and the one that has the job.
    """

    def __init__(self, job_id: str, queue: str | None = None, found_in: str | None = None) -> None:
        super().__init__(
            f"no job {job_id} is live or in history; it may have been purged: raise the queue's history_ttl "
            f"to keep finished jobs longer"
            if found_in is None
            else f"job {job_id} is not in queue {queue!r} but in {found_in!r}; use that queue"
        )
        self.job_id = job_id


class JobFailed(StanchionError):
    """The job whose result was requested is dead."""


class JobCancelled(StanchionError):
    """The job whose result was requested was cancelled."""


class FlowNotFound(StanchionError, LookupError):
    """No flow has that id."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"no flow {flow_id} is known; flows are deleted a week after their end")
        self.flow_id = flow_id


class FlowFailed(StanchionError):
    """A member of the flow whose result was requested is dead or cancelled.

    `job_id`: that member; None if it is no longer known.
    """

    def __init__(self, flow_id: str, job_id: str | None, error: str, task: str | None = None) -> None:
        name = f"{task} (job {job_id})" if task else f"job {job_id}"
        who = f", as {name} did not succeed" if job_id else ""
        super().__init__(
            f"flow {flow_id} has failed{who}: {error}; members() gives the results of the others. "
            f"Retrying that job does not resume the flow: enqueue the flow again"
        )
        self.flow_id, self.job_id, self.error = flow_id, job_id, error


class FlowCancelled(StanchionError):
    """The flow whose result was requested was cancelled."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"flow {flow_id} was cancelled; members() gives the results of jobs that were done by then")
        self.flow_id = flow_id


class FlowClosed(StanchionError):
    """The flow takes no more members."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(
            f"flow {flow_id} takes no more members, as it was closed or cancelled; each event group needs a new name, "
            f"such as one with a number in it"
        )
        self.flow_id = flow_id


class ResultTimeout(StanchionError, TimeoutError):
    """The job or flow did not finish within the timeout."""


class TaskTimeout(StanchionError):
    """A task ran longer than its timeout."""


class TaskInterrupted(BaseException):
    """Raised inside a sync task that runs longer than its timeout.

    It is no Exception, so that an `except Exception` of the task does not swallow it. Outside of the task it is a
    TaskTimeout.
    """


def seen_outside(error: TaskInterrupted) -> TaskTimeout:
    """Return the interruption of a task as its job and its listeners get it."""
    return TaskTimeout(str(error)).with_traceback(error.__traceback__)
