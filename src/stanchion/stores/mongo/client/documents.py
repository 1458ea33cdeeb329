"""A job as a document.

The fields are those of JobRow, the id as `_id`; one that is None or False is left out. Beside them:

    version     counts the changes: a step names the version that it has seen
    stamp       of the last step by compare-and-set: a step whose reply was lost knows its own work by it
    live        true until the job has finished: the index of queued jobs holds live ones alone
    unique      the key, as long as the job is live: what the unique index holds
    held_by     the worker, while it holds the job
    events      counter events that are not folded into the counts of its queues yet
    duties      outbox entries of its steps: work on slots and flows that is not applied yet
    once        when it was stored, if that may be done again after its end, by whoever finishes what another has left
    gone        true when the job has finished in a queue that keeps no history, or was deleted: only its events and
                outbox entries are still wanted, or its id is, for an hour from `once` on
    expires_at  when the TTL index deletes the job, as a date: a day after history no longer keeps it. Maintenance,
                which counts its events first, comes before, unless nobody does any. A job that uses slots or
                belongs to a flow, or has gone on as others, has none: with it its outbox entries would be lost
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import ObjectId
from bson.datetime_ms import DatetimeMS

from stanchion.errors import InvalidInput
from stanchion.stores.cas.jobs import Change, Seen
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.rules.dead_letters import is_marked
from stanchion.stores.rules.slots import gated

Document = dict[str, Any]

MAX_CONTENT = 15 << 20
"""The bytes that a live job's payload and headers may take: what is left of a document is for its errors."""

KEPT: Document = {"gone": {"$exists": False}}
"""The filter for jobs that can be seen."""
FINISHED: Document = {"finished_at": {"$exists": True}, **KEPT}
"""The filter for jobs in history."""
LETTER: Document = {"letter": True, "live": True, "state": {"$in": [QUEUED, JobState.WAITING.value]}}
"""The filter for dead letters that nobody has reserved."""
COUNTED: Document = {"events.queue": {"$exists": False}}
"""The filter for jobs whose events are folded."""
FREE: Document = {"duties.mark": {"$exists": False}}
"""The filter for jobs without outbox entries."""
PLAIN: Document = {"order_key": None, "limits": None, "flow": None}
"""The filter for jobs whose steps entail nothing elsewhere."""

_KEPT_ONCE = 3600 * SECOND
"""For so long after a job was stored nobody holds back with storing it again."""
_DEFAULTS = JobRow._field_defaults
_REMAINS = frozenset({"_id", "queue", "run_at", "enqueued_at", "finished_at"})
GRACE_SECONDS = 86_400
LAST_MOMENT_MS = 253_402_300_799_999
"""The end of the year 9999, which clients can show."""


def document_of(row: JobRow) -> Document:
    """Return the document of a job, but for what belongs to its last step."""
    fields = {"_id" if name == "id" else name: value for name, value in row._asdict().items()}
    live = row.finished_at is None
    fields["live"] = live
    fields["unique"] = row.key if live else None
    fields["letter"] = is_marked(row) or None
    fields["held_by"] = row.worker if row.state == JobState.RUNNING else None
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def refuse_large(row: JobRow) -> None:
    """Refuse a job that could not be stored with what is added to it later."""
    texts = (row.payload, row.headers or "")
    if 4 * sum(map(len, texts)) <= MAX_CONTENT:
        return
    size = sum(len(text.encode()) for text in texts)
    if size > MAX_CONTENT:
        raise InvalidInput(
            f"payload and headers take {size:,} bytes, more than the limit of {MAX_CONTENT:,} on MongoDB, where a job "
            f"is one document; store large values elsewhere and pass a reference"
        )


def row_of(document: Mapping[str, Any]) -> JobRow:
    """Return the job of a document."""
    return JobRow(document["_id"], *(document.get(name, _DEFAULTS.get(name)) for name in JobRow._fields[1:]))


def queued(queue: str) -> Document:
    """Return the filter for the queued jobs of a queue."""
    return {"live": True, "queue": queue, "state": QUEUED}


def claim_order(job: Document) -> tuple[int, int, str]:
    """Return what queued jobs are sorted by: in what order the parts of a $unionWith come is not said."""
    return -job["priority"], job["run_at"], job["_id"]


def seen_in(document: Document) -> Seen:
    """Return the job of a document, and its version."""
    return Seen(row_of(document), document["version"])


def entailing(row: JobRow) -> bool:
    """Tell whether the steps of a job may entail something elsewhere: it is not PLAIN."""
    return gated(row) or row.flow is not None


def up_to(moment: int) -> Document:
    """Return the condition that a time is there, and not later.

    The indexes of such times hold those alone that have one, and a server may use them only where that is said.
    """
    return {"$exists": True, "$lte": moment}


def wanted_once(now: int) -> Document:
    """Return the filter for jobs whose ids must be known, so that they are not stored again."""
    return {"once": {"$gt": now - _KEPT_ONCE}}


def is_wanted_once(job: Document, now: int) -> bool:
    """Tell whether the id of a job must be known, so that it is not stored again."""
    return bool(job.get("once", 0) > now - _KEPT_ONCE)


def unwanted(now: int) -> Document:
    """Return the filter for all others."""
    return {"$or": [{"once": None}, {"once": {"$lte": now - _KEPT_ONCE}}]}


def difference(change: Change, stamp: ObjectId, history_ttl: float) -> Document:
    """Return the update that makes a change; what it `counted` as is a minus alone where nothing was counted before."""
    (before, _), after, counted, entry = change
    old, new = document_of(before), document_of(after)
    if after.finished_at is not None and not history_ttl:
        new = remainder(new)
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    gone = {name: "" for name in old if name not in new}
    if after.finished_at is not None and not entailing(before) and entry is None:
        changed["expires_at"] = expiry(after.finished_at, history_ttl)
    elif before.finished_at is not None:
        gone["expires_at"] = ""
    update: Document = {"$set": {**changed, "stamp": stamp}, "$inc": {"version": 1}}
    if gone:
        update["$unset"] = gone
    noted: Document = {}
    if counted not in (None, "-"):
        noted["events"] = event(stamp, before.queue, counted)
    if entry is not None:
        noted["duties"] = {"mark": entry.key, "noted_at": entry.noted_at, "queue": entry.queue, "text": entry.text}
    if noted:
        update["$push"] = noted
    return update


def remainder(document: Document) -> Document:
    """Return what is left of a finished job that no history keeps."""
    return {name: value for name, value in document.items() if name in _REMAINS} | {"gone": True}


def event(step: ObjectId, queue: str, what: str) -> Document:
    """Return the event of a step; one with a minus before it takes back one that was counted."""
    return {"id": step, "queue": queue, "what": what}


def expiry(finished_at: int, history_ttl: float) -> DatetimeMS:
    """Return when the TTL index is to delete a finished job."""
    return DatetimeMS(min(int((finished_at + (history_ttl + GRACE_SECONDS) * SECOND) / 1000), LAST_MOMENT_MS))


def micros(date: DatetimeMS) -> int:
    """Return a date as a stored time."""
    return int(date) * 1000
