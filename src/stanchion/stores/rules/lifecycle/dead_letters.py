"""Dead letters: jobs that died and were moved to the dead-letter queue, with headers that record how.

A dead letter is queued in that queue, so it can be claimed from there. Searches, and callers that wait for the job, see
it as dead: a dead job of the queue where it died, wherever it lies. A header with the job's own id identifies it:
copying the headers does not make another job a dead letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.error_entries import dumps, entries_of

DEAD_FROM: Final = "x-dead-from"
DEAD_AT: Final = "x-dead-at"
DEAD_ATTEMPTS: Final = "x-dead-attempts"
DEAD_ERROR: Final = "x-dead-error"
DEAD_ID: Final = "x-dead-id"
_OURS: Final = "x-dead-"

MARK: Final = f'"{DEAD_ID}":"'
"""Text that precedes the id in the stored headers of a dead letter."""


def is_letter(row: JobRow) -> bool:
    """Return True if the job is an unreserved dead letter."""
    return row.headers is not None and row.state in _IN_QUEUE and is_marked(row)


def is_marked(row: JobRow) -> bool:
    """Return True if the job is a dead letter, queued or reserved."""
    return row.headers is not None and f'{MARK}{row.id}"' in row.headers


class Death(NamedTuple):
    """How a dead letter died. `queue`: where, a partition named like its queue; `at`: microseconds."""

    queue: str
    at: int
    attempts: int


def death_in(job_id: str, headers: str | None) -> Death | None:
    """Return how a job died, by its stored headers; None unless they are its own as a dead letter."""
    if headers is None or f'{MARK}{job_id}"' not in headers:
        return None
    told = headers_in(headers)
    try:
        check_story(told)
    except InvalidInput:  # written by another program
        told = {}
    return Death(
        logical_name(told.get(DEAD_FROM, "")), round(told.get(DEAD_AT, 0) * SECOND), told.get(DEAD_ATTEMPTS, 0)
    )


def letter_queues(settings: Iterable[QueueSettings]) -> frozenset[str]:
    """Return the queues that take the dead letters of these."""
    return frozenset(one.dead_letter for one in settings if one.dead_letter is not None)


_IN_QUEUE = frozenset({QUEUED, JobState.WAITING.value})


def headers_in(text: str | None) -> dict[str, Any]:
    """Return the headers in a stored text; none if another program stored something other than a JSON object."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def check_story(headers: Mapping[str, Any]) -> None:
    """Raise InvalidInput for dead-letter headers that can't be parsed."""
    for name, (kinds, form) in _STORY.items():
        if not isinstance(headers.get(name, kinds[0]()), kinds) or isinstance(headers.get(name), bool):
            raise InvalidInput(f"the header {name} is written by dead letters, and must be {form}; leave it out")
    if not 0 <= headers.get(DEAD_AT, 0) < _YEAR_9999:
        raise InvalidInput(f"the header {DEAD_AT} is written by dead letters, as seconds since 1970; leave it out")


_YEAR_9999: Final = 253_370_764_800

_STORY: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    **dict.fromkeys((DEAD_FROM, DEAD_ERROR, DEAD_ID), ((str,), "a text")),
    DEAD_AT: ((int, float), "seconds since 1970"),
    DEAD_ATTEMPTS: ((int,), "a whole number"),
}


def headers_of_letter(row: JobRow, now: int) -> str:
    """Return the headers of a job that dies now and is moved."""
    entries = entries_of(row)
    return dumps(
        {
            **headers_in(row.headers),
            DEAD_FROM: row.queue,
            DEAD_AT: now / SECOND,
            DEAD_ATTEMPTS: row.attempts,
            DEAD_ERROR: entries[-1].get("error", "") if entries else "",
            DEAD_ID: row.id,
        }
    )


def without_story(headers: dict[str, object]) -> str | None:
    """Return the headers of a dead letter that returns to the queue where it died."""
    kept = {name: value for name, value in headers.items() if not name.startswith(_OURS)}
    return dumps(kept) if kept else None


def unmarked(headers: str | None) -> str | None:
    """Return the headers of a job that leaves a dead-letter queue: they stay, but it is no dead letter any more."""
    if headers is None or MARK not in headers:
        return headers
    return dumps({name: value for name, value in headers_in(headers).items() if name != DEAD_ID})
