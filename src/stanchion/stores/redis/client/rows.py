"""Jobs as text: the fields of a job between separators that no field can hold.

Names are printable and everything else is JSON, where control characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stanchion.stores.cas.jobs import Seen
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.jobs import due_at
from stanchion.stores.rules.slots import gates_of

FIELD: Final = "\x1f"
ROW: Final = "\x1e"
STATE_FIELDS: Final = 24
"""Fields of a state; it follows the id and comes before the body."""


def state_text(row: JobRow, rev: int) -> str:
    """Return what changes in the life of a job, in the order of prelude.lua."""
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
            str(row.run_at),
            str(row.enqueued_at),
            str(row.failures),
            _text(row.finished_at),
            row.key or "",
            row.errors or "",
            row.result or "",
            str(row.held) if row.held else "",
            row.permit or "",
            row.waits_for or "",
            _text(row.waits_since),
            row.order_key or "",
            _bound(row),
        )
    )


def _bound(job: JobRow | NewJob) -> str:
    """Return something for a job whose steps entail more than themselves: the slot that it takes first, if any."""
    if not (job.order_key or job.limits or job.flow):
        return ""
    # One with a hold token holds its order key or a semaphore, so no other has to make way for it.
    holds = isinstance(job, JobRow) and bool(job.held or job.permit)
    return "1" if holds else next(iter(gates_of(job)), "1")


def is_bound(state: str) -> bool:
    """Tell whether the steps of a job in this state entail more than themselves."""
    return state.rpartition(FIELD)[2] != ""


def body_text(job: JobRow | NewJob) -> str:
    """Return what rarely changes."""
    return FIELD.join(
        (
            job.payload,
            job.task or "",
            job.headers or "",
            job.tenant or "",
            job.limits or "",
            job.flow or "",
            job.origin or "",
            str(job.max_attempts),
            _text(job.timeout),
        )
    )


def new_text(job: NewJob, once: str = "") -> str:
    """Return a new job as push.lua takes it; all with the same idempotency key `once` are stored in one call."""
    due = due_at(job, 0)  # with a delay: from the moment at which the script runs
    run_at, delay = (str(due), "") if job.run_at is not None else ("", str(due))
    key, waits_for, order_key = job.key or "", job.waits_for or "", job.order_key or ""
    place = (str(job.priority), str(job.lane), run_at, delay)
    return FIELD.join((job.id, job.on_duplicate, *place, key, waits_for, order_key, _bound(job), once, body_text(job)))


def seen_in(text: str, queue: str) -> list[Seen]:
    """Return the jobs of an answer, with the text of their state as their version."""
    return [_seen(row, queue) for row in text.split(ROW)] if text else []


def rows_in(text: str, queue: str) -> list[JobRow]:
    """Return the jobs of an answer."""
    return [_row(row.split(FIELD), queue) for row in text.split(ROW)] if text else []


def rev_of(version: str) -> int:
    """Return how often a job has been changed."""
    return int(version.partition(FIELD)[0])


def _seen(text: str, queue: str) -> Seen:
    fields = text.split(FIELD)
    return Seen(_row(fields, queue), FIELD.join(fields[1 : 1 + STATE_FIELDS]))


def _row(fields: Iterable[str], queue: str) -> JobRow:
    (
        job_id, _, state, attempts, token, worker, lease_until, started_at, stop, progress, lane, priority, run_at,
        enqueued_at, failures, finished_at, key, errors, result, held, permit, waits_for, waits_since,
        order_key, _, payload, task, headers, tenant, limits, flow, origin, max_attempts, timeout,
    ) = fields  # fmt: skip
    return JobRow(
        job_id,
        queue,
        int(lane),
        state,
        int(priority),
        int(run_at),
        int(enqueued_at),
        payload,
        task or None,
        headers or None,
        tenant or None,
        key or None,
        order_key or None,
        limits or None,
        flow or None,
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
        int(held or 0),
        permit or None,
        waits_for or None,
        int(waits_since) if waits_since else None,
        int(finished_at) if finished_at else None,
        result or None,
    )


def _text(value: float | None) -> str:
    return "" if value is None else str(value)
