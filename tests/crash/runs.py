"""Which reservations ran when, as far as the journals tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import inf
from typing import NamedTuple

from tests.crash.journal import LOST, Event


class Run(NamedTuple):
    """One reservation, from its start until its outcome was asked for, it was taken back, or last heard of."""

    began: float
    ended: float
    job: str


def runs(events: Iterable[Event], jobs: Collection[str]) -> list[Run]:
    """Return the runs of these jobs, in the order of their starts.

    A run whose outcome was refused lasted, for the store, until a recovery took the reservation from it. Where the
    process that recovered it died before it could write that down, the run is left out.
    """
    events = sorted(events)
    lost = {(event.job, event.token) for event in events if event.detail == LOST}
    asked: dict[tuple[str, str], float] = {}
    recovered: dict[str, list[float]] = {}
    last: dict[int, float] = {}
    for event in events:
        last[event.pid] = event.at
        if event.what.startswith("asked") and event.token:
            asked.setdefault((event.job, event.token), event.at)
        elif event.what == "recovered":
            recovered.setdefault(event.job, []).append(event.at)

    def end_of(start: Event) -> float | None:
        taken = next((at for at in recovered.get(start.job, []) if at > start.at), None)
        if (start.job, start.token) in lost:
            return taken
        return min(asked.get((start.job, start.token), last[start.pid]), taken or inf)

    starts = [event for event in events if event.what == "started" and event.job in jobs]
    ends = [(start, end_of(start)) for start in starts]
    return [Run(start.at, end, start.job) for start, end in ends if end is not None]


def most_at_once(found: Iterable[Run]) -> int:
    """Return how many of the runs went on at the same time, at most."""
    steps = sorted(step for run in found for step in ((run.began, 1), (run.ended, -1)))
    return max(_sums(step for _, step in steps), default=0)


def _sums(steps: Iterable[int]) -> Iterator[int]:
    total = 0
    for step in steps:
        total += step
        yield total


def first_starts(found: Iterable[Run]) -> list[str]:
    """Return the jobs in the order in which they were first begun."""
    return list(dict.fromkeys(run.job for run in found))
