"""The story of a job, newest first: its known steps, and its life as a bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import Texts
from stanchion.core.times import moment
from stanchion.jobs.facts import has_older_waits
from stanchion.jobs.job import Job, JobState, PastWait, is_deferred
from stanchion.ops.web.show.foreign import cut
from stanchion.ops.words import waited
from stanchion.telemetry.failures import LOST

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Step(NamedTuple):
    """What happened at a time. `error`, `traceback`: redacted."""

    at: datetime
    mark: str
    title: str
    text: str = ""
    error: str = ""
    traceback: str = ""
    took: str = ""


class Piece(NamedTuple):
    """A part of the bar, in percent of the job's life; `number`: of the attempt that it shows."""

    kind: str
    left: float
    width: float
    number: int | None
    label: str


def attempts(count: int) -> str:
    """Return `one attempt`, `five attempts`, `25 attempts`."""
    return f"{_NUMBERS[count] if count < len(_NUMBERS) else count} {'attempt' if count == 1 else 'attempts'}"


def sentence(job: Job, waits_for: str | None) -> str:
    """Return the state of a job as a sentence without its subject."""
    match job.state:
        case JobState.DEAD:
            return f"is dead after {attempts(job.attempts)}" if job.attempts else "is dead, and never ran"
        case JobState.DONE:
            return "is done" if job.attempts < 2 else f"is done after {attempts(job.attempts)}"
        case JobState.CANCELLED:
            return "is cancelled"
        case JobState.RUNNING:
            return "is asked to stop" if job.cancelled else "is running"
        case JobState.WAITING:
            return f"waits for {waits_for}" if waits_for else "waits"
        case JobState.SCHEDULED:
            if is_deferred(job):
                return "is put off by its rate"
            return "backs off after a failed attempt" if job.failures else "is scheduled"
        case _:
            return "is ready"


def steps(job: Job, redaction: Texts, waits_for: str | None, waits: Sequence[PastWait] = ()) -> list[Step]:
    """Return the known steps of a job, newest first. `waits`: finished ones."""
    order = {"now": 3, "wait": 2, "error": 1}
    found = [(step.at, order["error"], step) for step in _failures(job, redaction)]
    found += [(step.at, 0, step) for step in _way(job)]
    found += [(step.at, order["wait"], step) for step in _waits(job, waits)]
    if (last := _last(job, waits_for)) is not None:
        found.append((last.at, order["now"], last))
    return [step for _, _, step in sorted(found, key=lambda one: one[:2], reverse=True)]


def _failures(job: Job, redaction: Texts) -> Iterator[Step]:
    for entry in job.errors:
        at, began, until = (_time(entry, name) for name in ("at", "started", "until"))
        assert at is not None  # noqa: S101 - each entry has it
        error, trace = (redaction.text(cut(str(entry.get(name) or ""))) for name in ("error", "traceback"))
        took = spelled((at - began).total_seconds()) if began and at >= began else ""
        said = [f"On {entry['worker']}."] if entry.get("worker") else []
        if until is not None:
            wait = (until - at).total_seconds()
            said.append(
                f"Backed off for {spelled(wait)}, until {until:%H:%M:%S}." if wait > 0 else "Ready again at once."
            )
        yield Step(at, "risk", _title(entry), " ".join(said), error, trace, took)


def _waits(job: Job, waits: Sequence[PastWait]) -> Iterator[Step]:
    for number, (kind, name, since, until) in enumerate(waits):
        older = (
            " It has waited before; only the last ten waits are kept." if has_older_waits(job) and not number else ""
        )
        title = waited(kind, name, (until - since).total_seconds())
        yield Step(since, "waiting", title, f"Until {until:%H:%M:%S}.{older}")


def _title(entry: Mapping[str, object]) -> str:
    if times := entry.get("times"):
        return f"Put off {times} times: no worker knows its task"
    if str(entry.get("error", "")).startswith(LOST):
        return f"Attempt {entry['attempt']} lost its worker" if entry.get("worker") else "Lost its lease"
    return f"Attempt {entry['attempt']} failed"


def _time(entry: dict[str, Any], name: str) -> datetime | None:
    return datetime.fromtimestamp(float(entry[name]), UTC) if name in entry else None


def _way(job: Job) -> Iterator[Step]:
    stops = job.trail
    for before, stop in pairwise(stops):
        count = before.attempts or 0
        yield Step(stop.entered_at, "ready", f"Moved to {stop.queue}", f"From {before.queue}, after {attempts(count)}.")
    origin = f"As a copy of {job.origin}." if job.origin else ""
    yield Step(stops[0].entered_at if stops else job.enqueued_at, "ready", f"Enqueued in {stops[0].queue}", origin)


def _last(job: Job, waits_for: str | None) -> Step | None:
    """Return the step that describes the present state of the job."""
    ended, started = job.finished_at, job.started_at
    took = spelled((ended - started).total_seconds()) if ended and started and ended >= started else ""
    on = f"On {job.worker}." if job.worker else ""
    match job.state:
        case JobState.DEAD if ended is not None:
            return Step(ended, job.state, f"Dead: {_death(job)}")
        case JobState.DONE if ended is not None:
            return Step(ended, job.state, "Done", on, took=took)
        case JobState.CANCELLED if ended is not None:
            return Step(ended, job.state, "Cancelled")
        case JobState.RUNNING if started is not None:
            return Step(started, "running", f"Attempt {job.attempts} runs", on)
        case JobState.WAITING:
            return Step(job.waits_since or job.run_at, "waiting", f"Parked: waits for {waits_for or 'a slot'}")
        case JobState.SCHEDULED:
            return Step(job.run_at, "scheduled", "Put off by its rate until then" if is_deferred(job) else "Due then")
        case _:
            return Step(job.run_at, "ready", "Due since then, and not taken yet") if job.failures else None


def _death(job: Job) -> str:
    """Return why a job is dead, as far as its attempts show. The step before this one shows the error."""
    if job.attempts >= job.max_attempts:
        return "its one attempt is used up" if job.attempts == 1 else f"its {attempts(job.attempts)} are used up"
    return "it was not to be tried again" if job.attempts else "it never ran"


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
    for entry in job.errors:
        ended = place(datetime.fromtimestamp(float(entry["at"]), UTC))
        left = place(_time(entry, "started") or datetime.fromtimestamp(float(entry["at"]), UTC))
        width = max(0.7, ended - left)
        pieces.append(Piece("risk", min(left, 99.3), width, None, f"attempt {entry['attempt']} failed"))
    until = "to its end" if job.finished_at else "until now"
    return f"{spelled(whole)} from enqueue {until}", pieces
