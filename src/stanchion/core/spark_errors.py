"""The errors of streams, archives and typed reads, which `stanchion.spark` exports."""

from __future__ import annotations

from stanchion.errors import StanchionError


class JobsMisfit(StanchionError):
    """Jobs that a query reads do not fit the schema of their queue.

    `misfits`: their number, of `jobs` read together. `job_id`: one of them; `why`: a clause about it.
    """

    def __init__(self, queue: str, version: int, misfits: int, jobs: int, job_id: str, why: str) -> None:
        super().__init__(
            f"{misfits} of {jobs} jobs do not fit the schema of queue {queue!r} (version {version}), such as job "
            f"{job_id}: {why}; cancel them, put a schema in force that they fit, or read with the option misfits, "
            f"which says what becomes of such jobs"
        )
        self.queue, self.version, self.misfits, self.jobs = queue, version, misfits, jobs
        self.job_id, self.why = job_id, why


class LeasesLost(StanchionError):
    """Reservations of a batch are lost: jobs were taken back, or have finished."""

    def __init__(self, queue: str, expected: int, found: int) -> None:
        super().__init__(
            f"{found} of {expected} jobs of this batch from queue {queue!r} are still reserved for it, so nothing was "
            f"changed; run the batch again, which processes the jobs that are left"
        )
        self.queue, self.expected, self.found = queue, expected, found


class StagedJobsLost(StanchionError):
    """Staged jobs of a write are missing, as after a crash of the database."""

    def __init__(self, write: str, expected: int, found: int) -> None:
        super().__init__(
            f"only {found} of {expected} jobs are still staged for the write {write!r}, so none was enqueued; "
            f"run the write again, with the same writeId"
        )
        self.write, self.expected, self.found = write, expected, found


class StreamTaken(StanchionError):
    """Another driver has taken over the stream, or it was released by hand."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"another driver has taken over the stream {stream!r}, or it was released, so nothing was changed; run one "
            f"query on a stream at a time, give a second one another stream name, or start this one again"
        )
        self.stream = stream


class ForeignCheckpoint(StanchionError):
    """A checkpoint, or another log of a driver, does not belong to the stream in the store."""

    def __init__(self, stream: str, why: str) -> None:
        super().__init__(
            f"this checkpoint does not fit the stream {stream!r}: {why}; use the checkpoint that belongs to it, "
            f"or an empty one, which continues after the last acknowledged batch"
        )
        self.stream = stream


class BatchNotKept(StanchionError):
    """An acknowledged batch has to be read again, but some of its jobs are no longer in history."""

    def __init__(self, stream: str, seq: int, expected: int, found: int) -> None:
        super().__init__(
            f"batch {seq} of the stream {stream!r} was acknowledged, and a stateful query has to read it again, but "
            f"history has {found} of its {expected} jobs; start the query with an empty checkpoint, which loses its "
            f"state but no job, and set a longer history_ttl on the queue"
        )
        self.stream, self.seq, self.expected, self.found = stream, seq, expected, found


class StreamStopped(StanchionError):
    """The query of a stream fails in the same way on one job after the other, each alone in its batch."""

    def __init__(self, stream: str, job_id: str, error: str) -> None:
        super().__init__(
            f"the stream {stream!r} stops: job {job_id} has failed alone, in the same way as the one buried before "
            f"it, so the query seems to be at fault; fix it and start it again, which tries this job again, or remove "
            f"the job: stanchion streams release {stream}, stanchion cancel {job_id}. The error: {error}"
        )
        self.stream, self.job_id = stream, job_id


class HistoryPurged(StanchionError):
    """History of a queue does not reach back to where a feed of it continues; finishes may be missing."""

    def __init__(self, queue: str, after: str, kept_from: str) -> None:
        super().__init__(
            f"the feed continues after {after}, and the history of queue {queue!r} begins at {kept_from}: what has "
            f"finished in between may be missing; give the option purged=skip to continue without it, and set a longer "
            f"history_ttl on the queue"
        )
        self.queue, self.after, self.kept_from = queue, after, kept_from


class ArchiveBusy(StanchionError):
    """Another process wrote to the archive at the same time."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"another process has just written to the archive in {folder}, so nothing more was archived or purged; "
            f"run this again once it has finished"
        )
        self.folder = folder


class TableRefused(StanchionError):
    """A Delta table can't take the rows of a batch, through no fault of its jobs."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"the Delta table in {folder} can't take this batch: {why}; nothing of it was added, and its jobs are "
            f"still reserved: start the query again once this is corrected"
        )
        self.folder, self.why = folder, why
