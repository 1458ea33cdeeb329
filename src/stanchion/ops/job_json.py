"""A job as JSON values, as `stanchion show --json` and the JSON API show it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from stanchion.core.hiding import Hidden
from stanchion.core.redaction import REDACTION, JobRedaction, Texts
from stanchion.core.times import iso, moment
from stanchion.errors import StanchionError
from stanchion.jobs.facts import has_older_waits
from stanchion.jobs.job import Job, PastWait


def job_json(job: Job, hidden: Hidden | None = None, *, reveal: bool = False) -> dict[str, Any]:
    """Return all fields of a job, ready for JSON, with what people are not to see masked, unless `reveal`.

    `hidden`: what its task hides. Values encrypted with an unknown key are null, and `unreadable` says why.
    """
    found = _fields(job)
    if reveal:
        return found
    redaction = JobRedaction(hidden, found["payload"])
    for error in found["errors"]:
        error |= {name: redaction.text(error[name]) for name in ("error", "traceback") if error[name] is not None}
    calls = {name: redaction.call(found[name]) for name in ("payload", "entry_payload")}
    return {**found, **calls, **{name: redaction.value(found[name]) for name in ("checkpoint", "headers", "result")}}


def last_error(job: Job, redaction: Texts = REDACTION) -> str:
    """Return the first line of a job's last error, redacted; empty without one."""
    lines = redaction.text(str(job.errors[-1].get("error", ""))).splitlines() if job.errors else []
    return lines[0][:300] if lines else ""


def _fields(job: Job) -> dict[str, Any]:
    payload, trouble = readable(job, "payload")
    checkpoint, _ = readable(job, "checkpoint")
    entry_payload, _ = readable(job, "entry_payload")
    result, also = readable(job, "result")
    return {
        "id": job.id,
        "queue": job.queue,
        "partition": job.partition,
        "state": str(job.state),
        "task": job.task,
        "payload": payload,
        "checkpoint": checkpoint,
        "entry_payload": entry_payload,
        "headers": job.headers,
        "result": result,
        "unreadable": trouble or also,
        "priority": job.priority,
        "tenant": job.tenant,
        "lane": job.lane,
        "key": job.key,
        "order_key": job.order_key,
        "limits": job.limits,
        "run_at": iso(job.run_at),
        "enqueued_at": iso(job.enqueued_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "pickup_delay": job.pickup_delay,
        "run_time": run_time(job),
        "attempts": job.attempts,
        "failures": job.failures,
        "max_attempts": job.max_attempts,
        "timeout": job.timeout,
        "progress": float(job.progress),
        "cancelled": job.cancelled,
        "worker": job.worker,
        "origin": job.origin,
        "trail": [
            {"queue": stop.queue, "entered_at": iso(stop.entered_at), "attempts": stop.attempts} for stop in job.trail
        ],
        "flow": job.flow,
        "errors": [
            {
                "attempt": error.get("attempt"),
                "at": iso(moment_of(error)),
                "put_off": error.get("times"),
                "since": iso(moment_of(error, "since")),
                "error": error.get("error"),
                "type": error.get("type"),
                "traceback": error.get("traceback"),
            }
            for error in job.errors
        ],
    }


def past_waits_json(job: Job, over: Iterable[PastWait]) -> dict[str, Any]:
    """Return the waits of a job that are over, as they are in JSON."""
    waits = [one._asdict() | {"since": iso(one.since), "until": iso(one.until)} for one in over]
    return {"past_waits": waits, "older_waits": has_older_waits(job)}


def run_time(job: Job) -> float | None:
    """Return the duration of a finished job's last attempt, in seconds."""
    if job.started_at is None or job.finished_at is None:
        return None
    return (job.finished_at - job.started_at).total_seconds()


def readable(job: Job, name: str) -> tuple[Any, str | None]:
    """Return a stored value, or why it can't be read."""
    try:
        return getattr(job, name), None
    except StanchionError as error:
        return None, f"{error} (on the command line: --app module:app)"


def moment_of(error: dict[str, Any], which: str = "at") -> datetime | None:
    """Return a time of a stored error."""
    at = error.get(which)
    return None if at is None else moment(round(at * 1_000_000))
