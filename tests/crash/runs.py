"""Which reservations ran when, as far as the journals tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tests.crash.journal import LOST, Event


class Run(NamedTuple):
    """One reservation, from its start until its outcome was asked for, or its process was last heard of."""

    began: float
    ended: float
    job: str


def runs(events: Iterable[Event], jobs: Collection[str]) -> list[Run]:
    """Return the runs of these jobs, in the order of their starts, but for those that were in vain: taken for dead."""
    events = list(events)
    lost = {(event.job, event.token) for event in events if event.detail == LOST}
    ends: dict[tuple[str, str], float] = {}
    last: dict[int, float] = {}
    for event in events:
        last[event.pid] = max(event.at, last.get(event.pid, event.at))
        if event.what.startswith("asked") and event.token:
            ends.setdefault((event.job, event.token), event.at)
    found = [
        Run(event.at, ends.get((event.job, event.token), last[event.pid]), event.job)
        for event in events
        if event.what == "started" and event.job in jobs and (event.job, event.token) not in lost
    ]
    return sorted(found)


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
