"""The bytes of chunks that outcomes carry: calls with many of them are bounded by these."""

from __future__ import annotations

from stanchion.core.values.framing import Content
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Rollback


def bytes_of(outcome: Outcome | None) -> int:
    """Return the bytes of the chunks in an outcome; single items don't count."""
    match outcome:
        case Commit():
            return _sum(outcome.result, outcome.payload, *(job.payload for job in outcome.jobs))
        case Rollback() | Move():
            return _sum(outcome.payload)
        case Pass():
            kept = (passage.kept for passage in outcome.passages)
            return _sum(outcome.payload, *kept) + bytes_of(outcome.then)
    return 0


def _sum(*contents: Content | None) -> int:
    return sum(len(one) for one in contents if isinstance(one, bytes))
