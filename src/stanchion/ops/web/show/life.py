"""The life of a job, as a bar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from stanchion.core.text.durations import spelled
from stanchion.core.times import moment
from stanchion.jobs.job import Job, JobState, PastWait
from stanchion.ops.expiry import has_expired
from stanchion.ops.web.show.story import time_in
from stanchion.ops.words import waited


class Piece(NamedTuple):
    """A part of the bar, in percent of the job's life; `number`: of the attempt that it shows."""

    kind: str
    left: float
    width: float
    number: int | None
    label: str


def life(job: Job, now: int, waits: Sequence[PastWait] = ()) -> tuple[str, list[Piece]]:
    """Return how long a job has lived, and the pieces of its bar: its past waits, its last attempt, each failure."""
    begin, end = job.enqueued_at, job.finished_at or moment(now)
    whole = max((end - begin).total_seconds(), 1e-6)

    def place(at: datetime) -> float:
        return min(100.0, max(0.0, 100 * (at - begin).total_seconds() / whole))

    pieces = [Piece("ready", 0.0, 100.0, None, "enqueued and not running")]
    for wait in waits:
        left, label = place(wait.since), waited(wait.kind, wait.name, (wait.until - wait.since).total_seconds())
        pieces.append(Piece("waiting", min(left, 99.3), max(0.7, place(wait.until) - left), None, label))
    if job.started_at is not None:
        left = place(job.started_at)
        right = 100.0 if job.state in (JobState.RUNNING, JobState.DONE, JobState.DEAD) else left
        label = f"attempt {job.attempts}"
        pieces.append(Piece("running", min(left, 99.3), max(0.7, right - left), job.attempts, label))
    for entry in job.errors[:-1] if has_expired(job) else job.errors:
        ended = place(datetime.fromtimestamp(float(entry["at"]), UTC))
        left = place(time_in(entry, "started") or datetime.fromtimestamp(float(entry["at"]), UTC))
        width = max(0.7, ended - left)
        pieces.append(Piece("risk", min(left, 99.3), width, None, f"attempt {entry['attempt']} failed"))
    until = "to its end" if job.finished_at else "until now"
    return f"{spelled(whole)} from enqueue {until}", pieces
