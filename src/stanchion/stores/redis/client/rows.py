"""Jobs as text: the fields of a job between separators that no field can hold.

Names are printable and everything else is JSON, where control characters are escaped.
"""

from __future__ import annotations

from typing import Final

from stanchion.stores.cas.jobs import Seen
from stanchion.stores.cas.slot_keys import key_of, slot_of
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.rules.jobs import due_at
from stanchion.stores.rules.slots import slots_of

FIELD: Final = "\x1f"
ROW: Final = "\x1e"
WAITS: Final = "\x1d"
"""Separates the body of a job from its past waits, which are read and stored apart from it."""
STATE_FIELDS: Final = 26
"""Fields of a state; the state is between the id and the body."""
_BODY_FIELDS: Final = 15
_FIELDS: Final = 1 + STATE_FIELDS + _BODY_FIELDS


_NO_SLOT: Final = (None, None, None)


def state_text(row: JobRow, rev: int) -> str:
    """Return the fields of a job that change often, in the order of prelude.lua."""
    return FIELD.join(
        (
            str(rev),
            row.state,
            str(row.attempts),
            row.token or "",
            row.worker or "",
            _text(row.lease_until),
            _text(row.started_at),
            "1" if row.cancel_requested else "",
            _text(row.progress),
            str(row.lane),
            str(row.priority),
            str(row.rank),
            str(row.run_at),
            str(row.enqueued_at),
            str(row.failures),
            _text(row.finished_at),
            row.key or "",
            row.errors or "",
            row.result or "",
            str(row.slots_held) if row.slots_held else "",
            row.order_hold or "",
            row.slots_hold or "",
            _waits(row),
            _text(row.waits_since),
            row.order_key or "",
            _bound(row),
        )
    )


def _bound(job: JobRow | NewJob) -> str:
    """Return a text for a job whose steps have consequences for others, '' otherwise: the first slot it takes.

    "1": the job is only a member of a flow node. "2": it has only a rate, or holds its order key or a semaphore.
    """
    if not (job.order_key or job.limits):
        return "1" if job.flow_node else ""
    # A job with a hold token does not wait first for its first slot.
    holds = isinstance(job, JobRow) and bool(job.slots_held or job.order_hold or job.slots_hold)
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
    return FIELD.join(
        (
            job.payload,
            job.task or "",
            job.headers or "",
            job.tenant or "",
            job.limits or "",
            job.flow_root or "",
            job.flow_node or "",
            _text(job.flow_index),
            job.flow_after or "",
            job.origin or "",
            str(job.max_attempts),
            _text(job.timeout),
            (job.arrival_payload or "") if isinstance(job, JobRow) else "",
            job.trail or "",
            (job.entry_payload or "") if isinstance(job, JobRow) else "",
        )
    )


def whole_body(row: JobRow) -> str:
    """Return the body of a job, followed by its past waits, if any."""
    return body_text(row) if row.past_waits is None else f"{body_text(row)}{WAITS}{row.past_waits}"


def new_text(job: NewJob, once: str = "") -> str:
    """Return a new job as the script `push` takes it; jobs with one idempotency key `once` are stored in one call."""
    due = due_at(job, 0)  # a delay counts from the time when the script runs
    run_at, delay = (str(due), "") if job.run_at is not None else ("", str(due))
    key, waits_for, order_key = job.key or "", _waits(job), job.order_key or ""
    place = (str(job.priority), str(job.lane), run_at, delay)
    ttl = "" if job.key_ttl is None else str(int(job.key_ttl * SECOND))
    given = (job.id, job.on_duplicate, *place, key, waits_for, order_key, _bound(job), once, ttl)
    return FIELD.join((*given, body_text(job)))


def seen_in(text: str, queue: str, at: int) -> list[Seen]:
    """Return the jobs of a reply, with their state texts as versions; `at`: the store's clock."""
    return [_seen(row, queue, at) for row in text.split(ROW)] if text else []


def rows_in(text: str, queue: str) -> list[JobRow]:
    """Return the jobs of a reply."""
    if WAITS not in text:
        return [_row(row.split(FIELD), queue) for row in text.split(ROW)] if text else []
    return [_with_waits(row, queue)[0] for row in text.split(ROW)]


def rev_of(version: str) -> int:
    """Return the number of changes of a job."""
    return int(version.partition(FIELD)[0])


def _seen(text: str, queue: str, at: int) -> Seen:
    row, fields = _with_waits(text, queue)
    return Seen(row, FIELD.join(fields[1 : 1 + STATE_FIELDS]), at)


def _with_waits(text: str, queue: str) -> tuple[JobRow, list[str]]:
    """Return a job with its past waits, and its other fields."""
    text, _, waited = text.partition(WAITS)
    fields = text.split(FIELD)
    row = _row(fields, queue)
    return (row._replace(past_waits=waited) if waited else row), fields


def _row(fields: list[str], queue: str) -> JobRow:
    if len(fields) < _FIELDS:  # stored before its body had all fields
        fields = fields + [""] * (_FIELDS - len(fields))
    (
        job_id, _, state, attempts, token, worker, lease_until, started_at, stop, progress, lane, priority, rank,
        run_at, enqueued_at, failures, finished_at, key, errors, result, slots_held, order_hold, slots_hold,
        waits_for, waits_since, order_key, _, payload, task, headers, tenant, limits, flow_root, flow_node,
        flow_index, flow_after, origin, max_attempts, timeout, arrival_payload, trail, entry_payload,
    ) = fields  # fmt: skip
    waits_kind, waits_queue, waits_name = slot_of(waits_for) if waits_for else _NO_SLOT
    # Each claimed job needs its row: the constructor, a Python function, or a loop over the fields would take longer.
    return tuple.__new__(
        JobRow,
        (
            job_id,
            queue,
            int(lane),
            state,
            int(priority),
            int(rank),
            int(run_at),
            int(enqueued_at),
            payload,
            task or None,
            headers or None,
            tenant or None,
            key or None,
            order_key or None,
            limits or None,
            flow_root or None,
            flow_node or None,
            int(flow_index) if flow_index else None,
            flow_after or None,
            origin or None,
            int(attempts),
            int(failures),
            int(max_attempts),
            float(timeout) if timeout else None,
            errors or None,
            float(progress) if progress else None,
            token or None,
            worker or None,
            int(lease_until) if lease_until else None,
            int(started_at) if started_at else None,
            stop == "1",
            int(slots_held or 0),
            order_hold or None,
            slots_hold or None,
            waits_kind,
            waits_queue,
            waits_name,
            int(waits_since) if waits_since else None,
            arrival_payload or None,
            trail or None,
            entry_payload or None,
            None,
            int(finished_at) if finished_at else None,
            result or None,
        ),
    )


def _text(value: float | None) -> str:
    return "" if value is None else str(value)
