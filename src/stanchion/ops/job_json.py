"""A job as JSON values, as `stanchion show --json` and the JSON API show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.text.hiding import Hidden
from stanchion.core.text.redaction import REDACTION, JobRedaction, Texts
from stanchion.core.times import iso, moment
from stanchion.errors import StanchionError
from stanchion.jobs.facts import has_older_waits
from stanchion.jobs.job import Job, JobState, PastWait
from stanchion.stores.fields.jobs import PUBLIC, Kind


def job_json(job: Job, hidden: Hidden | None = None, *, reveal: bool = False) -> dict[str, object]:
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
    contents = {name: readable(job, name) for name in _CONTENTS}
    return {
        **{name: plain(getattr(job, name)) for name in _PLAIN},
        **{name: value for name, (value, _) in contents.items()},
        "unreadable": contents["payload"][1] or contents["result"][1],
        "run_time": run_time(job),
        "progress": float(job.progress),
        "trail": [{name: plain(value) for name, value in stop._asdict().items()} for stop in job.trail],
        "errors": [_error(error) for error in job.errors],
    }


SHOWN: Final = tuple(
    field for field in PUBLIC if hasattr(Job, field.shown_as) and field.name not in ("past_waits", "waits_since")
)
"""The fields that are shown; waits are read apart."""

_CONTENTS: Final = ("checkpoint", *(field.name for field in SHOWN if field.kind is Kind.CONTENT))
_PLAIN: Final = (
    *(
        one.shown_as
        for one in SHOWN
        if one.kind is not Kind.CONTENT and one.name not in ("trail", "errors", "progress")
    ),
    *("partition", "cancelled", "pickup_delay"),
)
"""Attributes of jobs that need no key."""


def plain(value: object) -> object:
    """Return a value of an attribute of a job as JSON has it."""
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, JobState) else value


def _error(error: dict[str, object]) -> dict[str, object]:
    return {
        "attempt": error.get("attempt"),
        "at": iso(moment_of(error)),
        "put_off": error.get("times"),
        "since": iso(moment_of(error, "since")),
        "error": error.get("error"),
        "type": error.get("type"),
        "traceback": error.get("traceback"),
    }


def past_waits_json(job: Job, over: Iterable[PastWait]) -> dict[str, object]:
    """Return the waits of a job that are over, as they are in JSON."""
    waits = [one._asdict() | {"since": iso(one.since), "until": iso(one.until)} for one in over]
    return {"past_waits": waits, "older_waits": has_older_waits(job)}


def run_time(job: Job) -> float | None:
    """Return the duration of a finished job's last attempt, in seconds."""
    if job.started_at is None or job.finished_at is None:
        return None
    return (job.finished_at - job.started_at).total_seconds()


def readable(job: Job, name: str) -> tuple[object, str | None]:
    """Return a stored value, as `shown`, or why it can't be read."""
    try:
        return shown(getattr(job, name)), None
    except StanchionError as error:
        return None, f"{error} (on the command line: --app module:app)"


def shown(value: object) -> object:
    """Return a value of a job for people: of a chunk, the number of its items and their bytes."""
    return {"items": len(value), "bytes": len(value.encoded())} if isinstance(value, Chunk) else value


def moment_of(error: Mapping[str, object], which: str = "at") -> datetime | None:
    """Return a time of a stored error."""
    at = error.get(which)
    return moment(round(at * 1_000_000)) if isinstance(at, int | float) else None
