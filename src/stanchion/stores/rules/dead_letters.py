"""Dead letters: jobs that died and were moved to the dead-letter queue of theirs, with headers that tell their story.

A letter lies queued there, so it can be taken from that queue. To all who wait for it, or look for it, it is dead.
It is known by a header with its own id: a copy of its headers makes no other job a letter.
"""

from __future__ import annotations

import json
from typing import Final

from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.rules.error_entries import dumps, entries_of

DEAD_FROM: Final = "x-dead-from"
DEAD_AT: Final = "x-dead-at"
DEAD_ATTEMPTS: Final = "x-dead-attempts"
DEAD_ERROR: Final = "x-dead-error"
DEAD_ID: Final = "x-dead-id"
_OURS: Final = "x-dead-"

MARK: Final = f'"{DEAD_ID}":"'
"""What comes before the id in the headers of a letter, as text."""


def is_letter(row: JobRow) -> bool:
    """Tell whether the job is a dead letter that nobody has in hand."""
    return row.headers is not None and row.state in _IN_QUEUE and is_marked(row)


def is_marked(row: JobRow) -> bool:
    """Tell whether the job is a dead letter, in its queue or in hand."""
    return row.headers is not None and f'{MARK}{row.id}"' in row.headers


_IN_QUEUE = frozenset({QUEUED, JobState.WAITING.value})


def headers_of_letter(row: JobRow, now: int) -> str:
    """Return the headers of a job that dies now, to be moved."""
    entries = entries_of(row)
    return dumps(
        {
            **(json.loads(row.headers) if row.headers else {}),
            DEAD_FROM: row.queue,
            DEAD_AT: now / SECOND,
            DEAD_ATTEMPTS: row.attempts,
            DEAD_ERROR: entries[-1]["error"] if entries else "",
            DEAD_ID: row.id,
        }
    )


def without_story(headers: dict[str, object]) -> str | None:
    """Return the headers of a letter that goes back to where it died."""
    kept = {name: value for name, value in headers.items() if not name.startswith(_OURS)}
    return dumps(kept) if kept else None


def unmarked(headers: str | None) -> str | None:
    """Return the headers of a job that goes on from a dead-letter queue: its story stays, but it is no letter."""
    if headers is None or MARK not in headers:
        return headers
    return dumps({name: value for name, value in json.loads(headers).items() if name != DEAD_ID})
