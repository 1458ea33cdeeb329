"""A job as a document.

The fields are those of JobRow, the id as `_id`; None and False are left out. The contents of chunks are binary. The
three fields of the slot that a job waits for are one, `waits_for`, the text of `cas.entries`. Further fields:

    version     number of changes; a step names the version that it has read
    stamp       of the last step by compare-and-set; after a lost reply, a step recognises its own work by it
    live        true until the job has finished: the index of queued jobs holds only live ones
    unique      the key while the job is live; covered by the unique index
    held_by     the worker, while it holds the job by its heartbeats
    events      counter events that are not yet folded into the counts of their queues; with a number if not of one item
    outbox      outbox entries of its steps: work on slots and flows that is not applied yet
    once        when it was stored, if another process may store it again after its end to complete a dead one's work
    gone        true if the job has finished in a queue without history, or was deleted: only its events and
                outbox entries are still needed, or its id, for an hour from `once` on
    misfit      names of fields whose values of wrong types were rewritten: see `claims/mending.py`
    expires_at  when the TTL index deletes the job, as a date: a day after its retention ends. Maintenance, which
                counts its events first, normally deletes it earlier. A job that uses slots, belongs to a flow node, or
                has continued as others has none: its outbox entries would be lost with it
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any

from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS

from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput
from stanchion.stores.cas.entries import key_of, slot_of
from stanchion.stores.cas.jobs import Change, Seen
from stanchion.stores.fields.jobs import DEATH, HOLDS, LIMITS, LIVE, WAITS, Kind
from stanchion.stores.fields.jobs import FIELDS as TABLE
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.rules.capacity.slots import uses_slots, waits_at
from stanchion.stores.rules.expiry import expiry_of
from stanchion.stores.rules.lifecycle.dead_letters import IN_QUEUE
from stanchion.stores.rules.misfits import RowTypes
from stanchion.stores.rules.set_back import AHEAD

Document = dict[str, Any]

BY_ARRIVAL = [("enqueued_at", 1), ("_id", 1)]
"""The order in which jobs get their order key."""

MAX_CONTENT = 15 << 20
"""Bytes available for the payload and headers of a live job; the rest of a document is for its errors."""

MAX_CHUNK = 3 << 20
"""Maximum bytes of a chunk: a document has room for its payloads on entry, on arrival and now, and for its parts."""

KEPT: Document = {"gone": {"$exists": False}}
"""Filter for visible jobs."""
FINISHED: Document = {"finished_at": {"$exists": True}, **KEPT}
"""Filter for jobs in history."""
LETTER: Document = {DEATH[0]: {"$exists": True}, "live": True, "state": {"$in": sorted(IN_QUEUE)}}
"""Filter for unreserved dead letters."""
NO_LETTER: Document = {DEATH[0]: None}
COUNTED: Document = {"events.queue": {"$exists": False}}
"""Filter for jobs whose events are folded."""
FREE: Document = {"outbox.key": {"$exists": False}}
"""Filter for jobs without outbox entries."""
PLAIN: Document = dict.fromkeys((*LIMITS, "flow_node"))
"""Filter for jobs whose steps have no consequences for others."""

NUMBER: Document = {"$type": "number", "$not": {"$type": "array"}}
"""Condition on a field that another program may have stored as something else."""

_TYPES = RowTypes({int: (Int64,), float: (int, Int64)})
FIELDS = frozenset({*JobRow._fields[1:], "waits_for", "live", "unique", "held_by", "overdue_at", "expires_at", "gone"})
"""The fields derived from the row of a job, except its id."""

_ONCE_KEPT_MICROS = 3600 * SECOND
"""Microseconds after storing a job within which a repeat may store it again."""
_NAMES = JobRow._fields[1:]
_ABSENT = tuple(map(JobRow._field_defaults.get, _NAMES))
_LEFT_OUT = frozenset(one.name for one in TABLE if one.public is None and one.default == 0 and one.name not in HOLDS)
"""Numbers that are left out while they are zero."""
_contents = attrgetter("headers", *(field.name for field in LIVE if field.kind is Kind.CONTENT))
_REMAINS = frozenset({"_id", "queue", "run_at", "enqueued_at", "finished_at"})
GRACE_SECONDS = 86_400
LAST_MOMENT_MS = 253_402_300_799_999
"""The end of the year 9999, which clients can display."""


def document_of(row: JobRow) -> Document:
    """Return the document of a job, without the fields of its last step."""
    fields = {"_id" if name == "id" else name: value for name, value in row._asdict().items()}
    live, slot = row.finished_at is None, row.waits_for
    if slot is not None:
        fields |= {**dict.fromkeys(WAITS), "waits_for": key_of(slot)}
    fields["live"] = live
    fields["unique"] = row.key if live else None
    fields["overdue_at"] = expiry_of(row) if live and row.expires is not None else None
    fields["held_by"] = row.worker if row.state == JobState.RUNNING and row.lease_until is None else None
    return {
        name: value
        for name, value in fields.items()
        if value or (value is not None and value is not False and name not in _LEFT_OUT)
    }


def refuse_large(row: JobRow) -> None:
    """Raise InvalidInput for a job without room for later additions."""
    contents = list(filter(None, _contents(row)))
    if row.items is not None:
        refuse_large_chunk(row.payload)
    if 4 * sum(map(len, contents)) <= MAX_CONTENT:
        return
    size = sum(len(one.encode() if isinstance(one, str) else one) for one in contents)
    if size > MAX_CONTENT:
        raise InvalidInput(
            f"payload and headers take {size:,} bytes, more than the limit of {MAX_CONTENT:,} on MongoDB, where a job "
            f"is one document; store large values elsewhere and pass a reference"
        )


def refuse_large_chunk(payload: Content) -> None:
    """Raise InvalidInput for a chunk that leaves no room for what becomes of it."""
    if isinstance(payload, bytes) and len(payload) > MAX_CHUNK:
        raise InvalidInput(
            f"a chunk has {len(payload):,} bytes, more than the limit of {MAX_CHUNK:,} on MongoDB, where its document "
            f"also holds its parts; set max_payload to {MAX_CHUNK} at most, so that chunks are cut smaller"
        )


def row_of(document: Mapping[str, Any], *, whole: bool = False) -> JobRow:
    """Return the job of a document. `whole`: all fields that a job must have were read."""
    found = JobRow(document["_id"], *map(document.get, _NAMES, _ABSENT))
    row = _TYPES.fitted(found, mended if isinstance(mended := document.get("misfit"), list) else (), whole=whole)
    return row._replace(**waits_at(slot_of(document["waits_for"]))) if "waits_for" in document else row


def queued(queue: str) -> Document:
    """Return the filter for the queued jobs of a queue."""
    return {"live": True, "queue": queue, "state": QUEUED}


def queued_in(queues: Collection[str]) -> Document:
    """Return the filter for the queued jobs of several queues."""
    return {"live": True, "queue": {"$in": list(queues)}, "state": QUEUED}


def claim_order(job: Document) -> tuple[float, float, str]:
    """Return the sort key of claims, because the order of the parts of $unionWith is undefined."""
    run_at = job["run_at"]
    return -rank_in(job), run_at if isinstance(run_at, (int, float)) else 0, str(job["_id"])


def rank_in(job: Document) -> float:
    """Return the rank of a document; the server sorts values of another program before all ranks."""
    rank = job.get("rank")
    return rank if isinstance(rank, (int, float)) and not isinstance(rank, bool) else math.inf


def seen_in(document: Document, at: int) -> Seen:
    """Return the job of a document, and its version; `at`: the server's clock."""
    return Seen(row_of(document, whole=True), document.get("version"), at)


def entailing(row: JobRow) -> bool:
    """Return True if the steps of a job may have consequences for others: it is not PLAIN."""
    return uses_slots(row) or row.flow_node is not None


def overdue(field: str, now: int, micros: int) -> Document:
    """Return the filter for documents with a step begun at the time of a field, which `set_back.is_overdue`."""
    return {"$or": [{field: {"$exists": True, "$lt": now - micros}}, {field: {"$exists": True, "$gt": now + AHEAD}}]}


def up_to(moment: int) -> Document:
    """Return the condition that a time is present, and not later than `moment`.

    Indexes of such times contain only documents that have one; a server may use them only if the filter says so.
    """
    return {"$exists": True, "$lte": moment}


def wanted_once(now: int) -> Document:
    """Return the filter for jobs whose ids are needed so that they are not stored again."""
    return {"once": {"$gt": now - _ONCE_KEPT_MICROS}}


def is_wanted_once(job: Document, now: int) -> bool:
    """Return True if the id of a job is needed so that it is not stored again."""
    return bool(job.get("once", 0) > now - _ONCE_KEPT_MICROS)


def unwanted(now: int) -> Document:
    """Return the filter for all other jobs."""
    return {"$or": [{"once": None}, {"once": {"$lte": now - _ONCE_KEPT_MICROS}}]}


def difference(change: Change, stamp: ObjectId, history_ttl: float) -> Document:
    """Return the update that makes a change; the counter is a lone minus if nothing was counted before."""
    (before, *_), after, counted, entry, told = change
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
    if type(change.seen.version) not in (int, Int64):  # another program has stored the job
        update = {"$set": {**changed, "stamp": stamp, "version": 1}}
    if gone:
        update["$unset"] = gone
    pushes: Document = {}
    if told or before.items is not None:
        pushes["events"] = {"$each": [event(stamp, *tally) for tally in change.tallies()]}
    elif counted not in (None, "-"):
        pushes["events"] = event(stamp, before.queue, counted)
    if entry is not None:
        pushes["outbox"] = {"key": entry.key, "written_at": entry.written_at, "queue": entry.queue, "text": entry.text}
    if pushes:
        update["$push"] = pushes
    return update


def remainder(document: Document) -> Document:
    """Return the remainder of a finished job in a queue without history."""
    return {name: value for name, value in document.items() if name in _REMAINS} | {"gone": True}


def event(step: ObjectId, queue: str, what: str, number: int = 1) -> Document:
    """Return the counter event of a step, of a number of items; a leading minus takes back an earlier one."""
    one = {"id": step, "queue": queue, "what": what}
    return one if number == 1 else {**one, "number": number}


def expiry(finished_at: int, history_ttl: float) -> DatetimeMS:
    """Return when the TTL index deletes a finished job."""
    return DatetimeMS(min(int((finished_at + (history_ttl + GRACE_SECONDS) * SECOND) / 1000), LAST_MOMENT_MS))


def micros(date: DatetimeMS) -> int:
    """Return a date as a stored time."""
    return int(date) * 1000
