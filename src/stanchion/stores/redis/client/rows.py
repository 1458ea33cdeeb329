"""Jobs as text: the fields of a job between separators that no field can hold.

Names are printable and everything else is JSON, where control characters are escaped.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from stanchion.stores.cas.entries import key_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.fields.jobs import HOLDS
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.redis.client.layout import FIELD, STATE, read_row, write_body, write_new_body, write_state
from stanchion.stores.rules.capacity.slots import slots_of, uses_slots
from stanchion.stores.rules.lifecycle.jobs import created, due_at, is_part

ROW: Final = "\x1e"
APART: Final = "\x1d"
"""Separates the body of a job from the fields that are read and stored apart from it."""
_KEPT: Final = "\x1c"
"""Separates its past waits from its kept payloads there."""
STATE_FIELDS: Final = len(STATE)
"""Fields of a state; the state is between the id and the body."""
_holds: Final = attrgetter(*HOLDS)


def state_text(row: JobRow, rev: int) -> str:
    """Return the fields of a job that change often."""
    return write_state(row, rev, _waits(row), _bound(row))


def _bound(job: JobRow | NewJob) -> str:
    """Return a text for a job whose steps have consequences for others, '' otherwise: the first slot it takes.

    "1": the job is only a member of a flow node, or a chunk, whose items are counted. "2": it has only a rate, or holds
    its order key or a semaphore.
    """
    if not uses_slots(job):
        return "1" if job.flow_node or isinstance(job.payload, bytes) else ""
    # A job with a hold token does not wait first for its first slot.
    holds = isinstance(job, JobRow) and any(_holds(job))
    return "2" if holds else next(map(key_of, slots_of(job)), "2")


def _waits(job: JobRow | NewJob) -> str:
    """Return the key of the slot that a job waits for, or ''."""
    slot = job.waits_for
    return "" if slot is None else key_of(slot)


def is_bound(state: str) -> bool:
    """Return True if the steps of a job in this state have consequences for others."""
    return state.rpartition(FIELD)[2] != ""


def body_text(job: JobRow | NewJob) -> str:
    """Return the fields of a job that rarely change."""
    return write_body(job) if isinstance(job, JobRow) else write_new_body(job)


def whole_body(row: JobRow) -> str:
    """Return the body of a job, followed by the fields that are stored apart from it, if it has any."""
    return f"{body_text(row)}{APART}{apart}" if (apart := apart_text(row)) else body_text(row)


def apart_text(row: JobRow) -> str:
    """Return the fields of a job that no worker needs: its past waits, and its kept payloads; "" if it has none."""
    waits = row.past_waits or ""
    return waits if row.kept_payloads is None else f"{waits}{_KEPT}{row.kept_payloads}"


def new_text(job: NewJob, once: str, now: int) -> str:
    """Return a new job as the script `push` takes it; jobs with one idempotency key `once` are stored in one call.

    `now`: the store's clock, with which the row of a part of a chunk is made here.
    """
    due = due_at(job, 0)  # a delay counts from the time when the script runs
    run_at, delay = (str(due), "") if job.run_at is not None else ("", str(due))
    key, waits_for, order_key = job.key or "", "" if job.waits_kind is None else _waits(job), job.order_key or ""
    place = (str(job.priority), str(job.lane), run_at, delay)
    ttl = "" if job.key_ttl is None else str(int(job.key_ttl * SECOND))
    expires = "" if job.expires is None else str(int(job.expires * SECOND))
    given = (job.id, job.on_duplicate, *place, key, waits_for, order_key, _bound(job), once, ttl, expires)
    if is_part(job):
        row = created(job, now)
        return FIELD.join((*given, "1", state_text(row, 0), body_text(row)))
    return FIELD.join((*given, "", write_new_body(job)))


def seen_in(text: str, queue: str, at: int) -> list[Seen]:
    """Return the jobs of a reply, with their state texts as versions; `at`: the store's clock."""
    return [_seen(row, queue, at) for row in text.split(ROW)] if text else []


def rows_in(text: str, queue: str) -> list[JobRow]:
    """Return the jobs of a reply."""
    if APART not in text:
        return [read_row(row.split(FIELD), queue) for row in text.split(ROW)] if text else []
    return [_whole(row, queue)[0] for row in text.split(ROW)]


def rev_of(version: str) -> int:
    """Return the number of changes of a job."""
    return int(version.partition(FIELD)[0])


def _seen(text: str, queue: str, at: int) -> Seen:
    row, fields = _whole(text, queue)
    return Seen(row, FIELD.join(fields[1 : 1 + STATE_FIELDS]), at)


def _whole(text: str, queue: str) -> tuple[JobRow, list[str]]:
    """Return a job with the fields that are stored apart, and its other fields."""
    text, _, apart = text.partition(APART)
    fields = text.split(FIELD)
    row = read_row(fields, queue)
    if not apart:
        return row, fields
    waits, _, kept = apart.partition(_KEPT)
    return row._replace(past_waits=waits or None, kept_payloads=kept or None), fields
