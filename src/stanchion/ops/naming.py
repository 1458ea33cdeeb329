"""The name of a job for people: of its task, else key, station, number of items, or the first fields of its payload."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from stanchion.context.context import Context
from stanchion.core.text.redaction import JobRedaction
from stanchion.jobs.job import Job
from stanchion.ops.job_json import readable
from stanchion.pipelines.route import route_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.lifecycle.jobs import state_of

NAMELESS: Final = "payload"
"""The name of a job whose payload says nothing, or can't be read."""

_FIELDS, _CHARACTERS = 3, 48
"""Fields and characters of a payload that make a name."""

_FIRST, _READ = 5, 1_000_000
"""Jobs whose payloads are read first, and the maximum number of characters read of further payloads."""


def job_name(context: Context, job: Job) -> str:
    """Return the name of a job that was read with its payload; hidden values stay hidden."""
    return _short_name(context, job) or _of_payload(job)


def job_names(context: Context, store: Store, jobs: Sequence[Job], now: int) -> dict[str, str]:
    """Return the names of jobs that were read without their payloads, by id.

    Payloads are read only for jobs that have no other name: of all if they are small, else of the first few.
    """
    names = {job.id: _short_name(context, job) for job in jobs}
    left = [job_id for job_id, name in names.items() if not name]
    rows: dict[str, JobRow] = {}
    if left:
        rows.update(store.fetch(left[:_FIRST]))
        size = sum(len(row.payload) for row in rows.values())
        if left[_FIRST:] and size * len(left) <= _READ * _FIRST:
            rows.update(store.fetch(left[_FIRST:]))
    for job_id in left:
        row = rows.get(job_id)
        names[job_id] = NAMELESS if row is None else _of_payload(Job(context, row, state_of(row, now)))
    return names


def _short_name(context: Context, job: Job) -> str:
    """Return the name of a job as far as it needs no payload; empty if it does."""
    return job.task or job.key or _station(context, job) or (f"{job.items:,} items" if job.items else "")


def _station(context: Context, job: Job) -> str:
    """Return the station of an item; empty for a job of no pipeline that is known."""
    queue = job.died_in or job.queue
    known = queue in context.registry.stations or bool(route_of(job.headers))
    return queue.rpartition(".")[2] if known else ""


def _of_payload(job: Job) -> str:
    payload, trouble = readable(job, "payload")
    if trouble is not None:
        return NAMELESS
    shown = JobRedaction(None, payload).call(payload)
    if isinstance(shown, dict):
        name = ", ".join(_fields(shown.items()))
    else:
        name = "" if shown in (None, [], "") else _text(shown)
    return f"{name[: _CHARACTERS - 1]}…" if len(name) > _CHARACTERS else name or NAMELESS


def _fields(items: Iterable[tuple[str, object]]) -> list[str]:
    """Return the first fields with a plain value, as `order 17`."""
    plain = [
        f"{name} {_text(value)}" for name, value in items if not isinstance(value, dict | list) and value is not None
    ]
    return plain[:_FIELDS]


def _text(value: object) -> str:
    """Return a value in one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text[: 4 * _CHARACTERS].split())
