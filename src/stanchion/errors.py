"""Every error that Stanchion raises; each message says what to do next."""

from __future__ import annotations


class StanchionError(Exception):
    """The base of all errors of this package."""


class InvalidInput(StanchionError, ValueError):
    """An argument was refused before anything was stored."""


class UnknownTask(StanchionError, LookupError):
    """A task name that no code of this app has registered."""


class DuplicateKey(StanchionError):
    """A live job of the queue already has this key, and the caller asked to be told so."""

    def __init__(self, queue: str, key: str, job_id: str) -> None:
        super().__init__(
            f"queue {queue!r} already has the live job {job_id} with key {key!r}; wait until it has finished, "
            f"cancel it, or enqueue with on_duplicate='return' or 'replace'"
        )
        self.queue, self.key, self.job_id = queue, key, job_id


class LeaseLost(StanchionError):
    """The reservation is no longer this caller's: it ran out, was taken back, or the job is finished."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} is no longer reserved under this token, so nothing was changed; drop this attempt's "
            f"work, and reserve with a longer lease or call extend() in time"
        )
        self.job_id = job_id


class LeasesLost(StanchionError):
    """Jobs of a batch are no longer this caller's: they were taken back, or another finished them."""

    def __init__(self, queue: str, expected: int, found: int) -> None:
        super().__init__(
            f"{found} of {expected} jobs of this batch from queue {queue!r} are still reserved for it, so nothing was "
            f"changed; run the batch again: it gets those that are left"
        )
        self.queue, self.expected, self.found = queue, expected, found


class StagedJobsLost(StanchionError):
    """Jobs that were laid aside for a write are not all there any more, as after a crash of the database."""

    def __init__(self, write: str, expected: int, found: int) -> None:
        super().__init__(
            f"{found} jobs are staged for the write {write!r} where {expected} were, so none was enqueued; "
            f"run the write again, with the same writeId"
        )
        self.write, self.expected, self.found = write, expected, found


class StreamTaken(StanchionError):
    """Another driver reads the stream by now, or it was released by hand."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"the stream {stream!r} is read by another driver by now, or was released, so nothing was changed; run one "
            f"query on a stream at a time, give a second one another stream name, or start this one again"
        )
        self.stream = stream


class ForeignCheckpoint(StanchionError):
    """A checkpoint, or another log of a driver, does not belong to the stream as the store has it."""

    def __init__(self, stream: str, why: str) -> None:
        super().__init__(
            f"this checkpoint does not fit the stream {stream!r}: {why}; go on with the checkpoint that belongs to it, "
            f"or start with an empty one: then it goes on behind what was acknowledged"
        )
        self.stream = stream


class BatchNotKept(StanchionError):
    """A batch was acknowledged, has to be read again, and is no longer in history as a whole."""

    def __init__(self, stream: str, seq: int, expected: int, found: int) -> None:
        super().__init__(
            f"batch {seq} of the stream {stream!r} was acknowledged, and a query with state has to read it again, yet "
            f"history has {found} of its {expected} jobs; start the query with an empty checkpoint, which loses its "
            f"state but no job, and set a longer history_ttl on the queue"
        )
        self.stream, self.seq, self.expected, self.found = stream, seq, expected, found


class StreamStopped(StanchionError):
    """The query of a stream fails on one job after the other, each alone in its batch, in the same way."""

    def __init__(self, stream: str, job_id: str, error: str) -> None:
        super().__init__(
            f"the stream {stream!r} stops here: job {job_id} has failed alone, in the same way as the one buried "
            f"before it, so the query seems to be at fault; correct it and start it again, which tries this job again; "
            f"or take the job away: stanchion streams release {stream}, stanchion cancel {job_id}. The error: {error}"
        )
        self.stream, self.job_id = stream, job_id


class ArchiveBusy(StanchionError):
    """Another process has written into the archive at the same time."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"another process has just written into the archive in {folder}, so nothing more was archived or purged; "
            f"run this again when that one has ended"
        )
        self.folder = folder


class CannotJoin(StanchionError):
    """The given transaction is not one that this store can take part in."""


class StoreUnavailable(StanchionError):
    """The store did not answer within its deadline, or refused the connection.

    `lasting`: time won't mend it, as with a wrong password; who waits for the store gives up at once.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class SchemaMismatch(StanchionError):
    """The tables in the store are missing, or of another version than this code."""


class MissingExtra(StanchionError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'stanchion[{extra}]'")
        self.extra = extra


class JobNotFound(StanchionError, LookupError):
    """No job of that id is live or in history, or none in the queue that was asked.

    `queue`, `found_in`: the queue that was asked, and the one that has the job.
    """

    def __init__(self, job_id: str, queue: str | None = None, found_in: str | None = None) -> None:
        super().__init__(
            f"no job {job_id} is live or in history; it may have been purged: raise the queue's history_ttl "
            f"to keep finished jobs longer"
            if found_in is None
            else f"job {job_id} is not in queue {queue!r}, but in {found_in!r}; act on it there"
        )
        self.job_id = job_id


class JobFailed(StanchionError):
    """The job whose result was asked for is dead."""


class JobCancelled(StanchionError):
    """The job whose result was asked for was cancelled."""


class FlowNotFound(StanchionError, LookupError):
    """No flow of that id is known."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"no flow {flow_id} is known; a flow is forgotten a week after it has ended")
        self.flow_id = flow_id


class FlowFailed(StanchionError):
    """A member of the flow whose result was asked for is dead or cancelled.

    `job_id`: that member, None where it is not known any more.
    """

    def __init__(self, flow_id: str, job_id: str | None, error: str, task: str | None = None) -> None:
        name = f"{task} (job {job_id})" if task else f"job {job_id}"
        who = f", as {name} did not succeed" if job_id else ""
        super().__init__(
            f"flow {flow_id} has failed{who}: {error}; the others' results are with its members(). "
            f"A retry of that job mends the job, not the flow: enqueue it anew"
        )
        self.flow_id, self.job_id, self.error = flow_id, job_id, error


class FlowCancelled(StanchionError):
    """The flow whose result was asked for was cancelled."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"flow {flow_id} was cancelled; what had ended by then is with its members()")
        self.flow_id = flow_id


class FlowClosed(StanchionError):
    """The flow takes no more members."""

    def __init__(self, flow_id: str) -> None:
        super().__init__(
            f"flow {flow_id} takes no more members, as it was closed or cancelled; an event group's name is good for "
            f"one group: give the next one another, such as one with a number in it"
        )
        self.flow_id = flow_id


class ResultTimeout(StanchionError, TimeoutError):
    """The job did not finish within the time that the caller would wait."""


class TaskTimeout(StanchionError):
    """Raised inside a task that ran longer than its timeout."""
