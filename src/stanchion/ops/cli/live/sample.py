"""Samples of the store for `top`, and the rates between two samples."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from stanchion.alerts.reading.parts import read_streams
from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.jobs.job import Job, JobState
from stanchion.ops.naming import job_names
from stanchion.ops.reads.filters import JobFilter
from stanchion.ops.reads.lists import page_of
from stanchion.ops.reads.queues import QueueFigures, figures
from stanchion.ops.reads.track import Rates, between
from stanchion.ops.reads.workers import Item, items_of
from stanchion.telemetry.rollups import Point, point_of, sum_of

_SHOWN_JOBS = 20
_REMEMBERED = 60


class Sample(NamedTuple):
    """The state of a store, with the queues and workers in trouble first. `at`: the time, by the store's clock."""

    at: int
    store: str
    queues: list[QueueFigures]
    workers: list[Item]
    running: list[Job]
    dead: list[Job]
    names: dict[str, str]
    """Of the running jobs, by id."""


class Samples:
    """The last sample, and the rates a second between it and the one before."""

    def __init__(self) -> None:
        self._before: dict[str, Point] = {}
        self._points: dict[str, Point] = {}
        self._latest: Sample | None = None
        self.done: deque[float] = deque(maxlen=_REMEMBERED)
        """Total jobs done per second, oldest first."""

    @property
    def latest(self) -> Sample:
        """The last sample."""
        assert self._latest is not None  # noqa: S101 - asked for after the first add
        return self._latest

    def add(self, sample: Sample) -> None:
        """Add the next sample."""
        before, self._latest = self._latest, sample
        self._before = self._points
        self._points = {one.name: point_of(sample.at, one.sizes, one.totals, one.lag or 0.0) for one in sample.queues}
        if before is not None:
            known = [name for name in self._points if name in self._before]
            then = sum_of([self._before[name] for name in known], before.at)
            self.done.append(between(then, sum_of([self._points[name] for name in known], sample.at)).done)

    def rates_of(self, queue: str) -> Rates | None:
        """Return the rates of a queue in the last sample; None if the sample before lacks it."""
        before = self._before.get(queue)
        return None if before is None else between(before, self._points[queue])


def sample(app: Stanchion) -> Sample:
    """Take a sample of the store."""
    context, store = context_of(app), context_of(app).fresh_store
    settings, workers, now = store.queues(), store.workers(holders=True), store.now()

    def jobs(state: JobState) -> list[Job]:
        return page_of(context, store, JobFilter((state,)).query(now), now, None, _SHOWN_JOBS).jobs

    running = jobs(JobState.RUNNING)
    return Sample(
        at=now,
        store=store.capabilities.name,
        queues=figures(store, settings, workers, now, read_streams(store, workers, now)),
        workers=items_of(workers, now),
        running=running,
        dead=jobs(JobState.DEAD),
        names=job_names(context, store, running, now),
    )
