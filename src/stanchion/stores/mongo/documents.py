"""A job as a document.

The fields are those of JobRow, the id as `_id`; one that is None or False is left out. Beside them:

    version     counts the changes: a step names the version that it has seen
    stamp       of the last step by compare-and-set: a step whose answer was lost knows its own work by it
    live        true until the job has finished: what the index of the queue's line holds
    unique      the key, as long as the job is live: what the unique index holds
    held_by     the worker, while it holds the job
    expires_at  when history no longer keeps the job, as a date for the TTL index
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.datetime_ms import DatetimeMS

from stanchion.stores.records import SECOND, JobRow, JobState

Document = dict[str, Any]

FINISHED: Document = {"finished_at": {"$exists": True}}
"""The filter for jobs that have ended."""

_DEFAULTS = JobRow._field_defaults
LAST_MOMENT_MS = 253_402_300_799_999
"""The end of the year 9999, which clients can show."""


def document_of(row: JobRow) -> Document:
    """Return the document of a job, but for what belongs to its last step."""
    fields = {"_id" if name == "id" else name: value for name, value in row._asdict().items()}
    live = row.finished_at is None
    fields["live"] = live
    fields["unique"] = row.key if live else None
    fields["held_by"] = row.worker if row.state == JobState.RUNNING else None
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def row_of(document: Mapping[str, Any]) -> JobRow:
    """Return the job of a document."""
    return JobRow(document["_id"], *(document.get(name, _DEFAULTS.get(name)) for name in JobRow._fields[1:]))


def difference(before: JobRow, after: JobRow, stamp: Any, history_ttl: float) -> Document:
    """Return the update that makes one job of the other."""
    old, new = document_of(before), document_of(after)
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    gone = {name: "" for name in old if name not in new}
    if after.finished_at is not None:
        changed["expires_at"] = expiry(after.finished_at, history_ttl)
    elif before.finished_at is not None:
        gone["expires_at"] = ""
    update: Document = {"$set": {**changed, "stamp": stamp}, "$inc": {"version": 1}}
    return {**update, "$unset": gone} if gone else update


def expiry(finished_at: int, history_ttl: float) -> DatetimeMS:
    """Return the date from which history no longer keeps a job."""
    return DatetimeMS(min(int((finished_at + history_ttl * SECOND) / 1000), LAST_MOMENT_MS))


def micros(date: DatetimeMS) -> int:
    """Return a date as a stored time."""
    return int(date) * 1000
