"""Handing queued jobs over from one store to another: adopted there, then deleted here.

Each job is in at least one store at any time, and may be repeated by its id. Between the two steps it is in both, so
one of the queues must not hand it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stanchion.core.batches import batches_within
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import arriving

_CHARACTERS = 8 * 1024 * 1024
"""Characters of jobs in one call, unless a single job has more."""


QUEUED = Query("live", (Condition("state", "in", ("scheduled", "ready", "waiting")),), limit=500)
"""Jobs that are not running, without dead letters."""


class Handed(NamedTuple):
    """The number of jobs handed over, and the ids of jobs whose key a live job of the destination has."""

    moved: int = 0
    refused: tuple[str, ...] = ()


def hand_over(
    source: Store, destination: Store, rows: Sequence[JobRow], stand: Callable[[], None] = lambda: None
) -> Handed:
    """Move jobs as they were read, by one call of each verb. `stand` is called before the destination is written to.

    A job that the source has delivered or ended since stays there, and is deleted in the destination.
    """
    stand()
    there = destination.adopt(rows)
    refused = tuple(row.id for row, adopted in zip(rows, there, strict=True) if not adopted)
    adopted = [row.ref for row, adopted in zip(rows, there, strict=True) if adopted]
    deleted = source.delete(adopted) if adopted else []
    left = [ref for ref, gone in zip(adopted, deleted, strict=True) if not gone]
    # Jobs still in the source were delivered after all. Missing ones were deleted there by another caller, so the
    # destination has the only copy.
    known = source.fetch([ref.id for ref in left]) if left else {}
    if kept := [ref for ref in left if ref.id in known]:
        stand()
        destination.delete(kept)
    return Handed(len(adopted) - len(kept), refused)


def chunks(rows: Sequence[JobRow]) -> Iterator[list[JobRow]]:
    """Split jobs so that each chunk fits into one call."""
    return batches_within(_CHARACTERS, rows, weight)


def queued_portions(
    store: Store, queue: str, keep: Callable[[JobRow], bool] = lambda _row: True
) -> Iterator[list[JobRow]]:
    """Yield the jobs of a queue that are not running, as the other store receives them, in chunks for one call.

    Each page is read once its predecessor was taken.
    """
    query: Query | None = QUEUED.also(Condition("queue", "=", queue))
    while query is not None:
        page, now = store.select(query), store.now()
        yield from chunks([arriving(row, now) for row in page.rows if keep(row)])
        query = None if page.next is None else query.following(page.next, fitting(page.rows, QUEUED.limit))


def fitting(rows: Sequence[JobRow], most: int) -> int:
    """Return how many jobs, about as large as these, fit into one call; at most `most`."""
    return max(1, min(most, _CHARACTERS * len(rows) // max(1, sum(map(weight, rows)))))


def weight(row: JobRow) -> int:
    """Return the approximate size of a job, in characters."""
    kept = (row.arrival_payload, row.entry_payload, row.trail, row.past_waits, row.kept_payloads)
    texts = (row.payload, *kept, row.headers, row.errors, row.result)
    return 200 + sum(len(text) for text in texts if text)
