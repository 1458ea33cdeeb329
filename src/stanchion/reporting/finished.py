"""The finished jobs of a store, as a report counts them: by their items.

A waiting dead letter is a dead job of its first queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from stanchion.core.names.partition_names import logical_name
from stanchion.core.service_levels import BANDS
from stanchion.pipelines.route import FORKED, ROUTE, Stop, route_of
from stanchion.stores.fields.jobs import DEATH
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.query import Condition, Query

USED = (
    *("id", "queue", "state", "task", "tenant", "priority", "run_at", "started_at", "finished_at"),
    *("attempts", "failures", "errors", "headers", "items", *DEATH),
)
"""The fields of jobs that a report reads."""

_AT_ONCE = 5_000
_ROUTE = f'"{ROUTE}"'


class Finished(NamedTuple):
    """A job that has finished. Times are in seconds since 1970, `pickup` and `run` in seconds.

    `items`: the number of items that it stands for, 1 unless it carries a chunk. `run`: of an item, on average. `band`:
    the number of its priority band. `errors`: its stored errors, oldest first. `route`: the stations that it has left.
    """

    id: str
    queue: str
    state: str
    task: str
    tenant: str | None
    attempts: int
    failures: int
    band: int
    finished: float
    pickup: float | None
    run: float | None
    errors: Sequence[dict[str, Any]] = ()
    route: Sequence[Stop] = ()
    items: int = 1


def finished_jobs(
    store: Store, since: datetime | None, until: datetime | None, queues: Sequence[str]
) -> Iterator[list[Finished]]:
    """Yield the jobs that finished within these bounds, in portions; `queues` empty: of all queues.

    Divided chunks are left out, as their items are in their parts.
    """
    within = [] if since is None else [Condition("finished_at", ">=", _micros(since))]
    within += [] if until is None else [Condition("finished_at", "<", _micros(until))]
    for name in queues or [settings.name for settings in store.queues()]:
        where = (Condition("queue", "=", name), *within)
        for page in pages(store, Query("history", where, order="finished", columns=USED, limit=_AT_ONCE)):
            yield [job for row in page if (job := _job(dict(zip(USED, row, strict=True)))).items]
    dead = (Condition("state", "=", JobState.DEAD.value),)
    for page in pages(store, Query("live", dead, columns=USED, limit=_AT_ONCE)):
        letters = (_letter(dict(zip(USED, row, strict=True))) for row in page)
        yield [letter for letter in letters if _within(letter, since, until, queues)]


def _within(job: Finished, since: datetime | None, until: datetime | None, queues: Sequence[str]) -> bool:
    early = since is not None and job.finished < since.timestamp()
    late = until is not None and job.finished >= until.timestamp()
    return not early and not late and (not queues or job.queue in queues)


def _job(row: Mapping[str, Any]) -> Finished:
    headers = json.loads(row["headers"]) if row["headers"] and _ROUTE in row["headers"] else {}
    finished, started = row["finished_at"] / SECOND, row["started_at"]
    ended = started is not None and row["state"] in ("done", "dead")
    items = 1 if row["items"] is None else row["items"]
    return Finished(
        row["id"],
        row["queue"],
        row["state"],
        row["task"] or "",
        row["tenant"],
        row["attempts"],
        row["failures"],
        band_of(row["priority"]),
        finished,
        None if started is None else max(0.0, (started - row["run_at"]) / SECOND),
        max(0.0, finished - started / SECOND) / max(1, items) if ended else None,
        json.loads(row["errors"]) if row["errors"] else (),
        route_of(headers)[headers.get(FORKED, 0) :] if headers else (),
        items,
    )


def _letter(row: Mapping[str, Any]) -> Finished:
    """Return a dead letter as the dead job that it was."""
    home, at, attempts = (row[name] for name in DEATH)
    died = {
        "queue": logical_name(home),
        "state": "dead",
        "finished_at": at or 0,
        "started_at": None,
        "attempts": attempts or 0,
    }
    job = _job({**row, **died})
    return job._replace(failures=len(job.errors))


@cache
def band_of(priority: int) -> int:
    """Return the number of the band of a priority."""
    return next((number for number, band in enumerate(BANDS) if priority >= band.least), len(BANDS) - 1)


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * SECOND)
