"""Dead letters: jobs that died and were moved to the dead-letter queue, with fields that record how.

Only a dead letter has these: `dead_from`, the queue where it died; `dead_at`, when; `dead_attempts`, after how many
attempts. It is queued in the dead-letter queue, so it can be claimed from there, and its holder may give it back.
Searches, and callers that wait for the job, see it as dead: a dead job of the queue where it died, wherever it lies. A
move, and a retry, which returns it to the queue where it died, make it an ordinary job.
"""

from __future__ import annotations

from collections.abc import Iterable

from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings


def is_letter(row: JobRow) -> bool:
    """Return True if the job is an unreserved dead letter."""
    return row.dead_from is not None and row.state in IN_QUEUE


IN_QUEUE = frozenset({QUEUED, JobState.WAITING.value})
"""The stored states of dead letters that no one has claimed."""


def as_letter(row: JobRow, died: JobRow, now: int) -> JobRow:
    """Return the job as the dead letter of one that dies now."""
    return row._replace(dead_from=died.queue, dead_at=now, dead_attempts=died.attempts)


def revived(row: JobRow) -> JobRow:
    """Return the job as one that is no dead letter, when it goes to another queue."""
    return row if row.dead_from is None else row._replace(dead_from=None, dead_at=None, dead_attempts=None)


def letter_queues(settings: Iterable[QueueSettings]) -> frozenset[str]:
    """Return the queues that take the dead letters of these."""
    return frozenset(one.dead_letter for one in settings if one.dead_letter is not None)
