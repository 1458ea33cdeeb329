"""Samples of the store for `top`, and the rates between two samples."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from stanchion.app import Stanchion
from stanchion.jobs.job import Job, JobState
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, QueueSettings, Sizes
from stanchion.stores.records.workers import WorkerRow

_SHOWN_JOBS = 20
_REMEMBERED = 60


class QueueSample(NamedTuple):
    """One queue in a sample. `lag`: seconds that its oldest due job has waited."""

    settings: QueueSettings
    size: Sizes
    counts: Counts
    lag: float


class Sample(NamedTuple):
    """The state of a store. `at`: the time, by the store's clock."""

    at: int
    store: str
    queues: list[QueueSample]
    workers: list[WorkerRow]
    running: list[Job]
    dead: list[Job]


class QueueRates(NamedTuple):
    """Jobs per second. `failed` counts attempts: given back, lost or dead."""

    pushed: float
    done: float
    failed: float


class Rates:
    """Rates per second, computed between samples."""

    def __init__(self) -> None:
        self._before: Sample | None = None
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
        self._before, self._latest = self._latest, sample
        if self._before is not None:
            self.done.append(sum(rates.done for rates in map(self.of, sample.queues) if rates))

    def of(self, queue: QueueSample) -> QueueRates | None:
        """Return the rates of a queue in the last sample; None if the sample before lacks it."""
        if self._before is None:
            return None
        before = {one.settings.name: one.counts for one in self._before.queues}.get(queue.settings.name)
        seconds = (self.latest.at - self._before.at) / SECOND
        if before is None or seconds <= 0:
            return None

        def rate(*names: str) -> float:
            more: int = sum(getattr(queue.counts, name) - getattr(before, name) for name in names)
            return max(0, more) / seconds

        return QueueRates(
            pushed=rate("pushed"),
            done=rate("committed", "popped", "moved"),
            failed=rate("rolled_back", "buried", "expired"),
        )


def sample(app: Stanchion) -> Sample:
    """Take a sample of the store."""
    store = app.context.fresh_store
    settings = store.queues()
    stats = store.stats([one.name for one in settings], ["states", "totals", "next_due"])
    now = store.now()
    queues = []
    for one in settings:
        states, totals, due = stats[one.name][:3]
        queues.append(QueueSample(one, states, totals, 0.0 if due is None else max(0.0, (now - due) / SECOND)))
    return Sample(
        at=now,
        store=store.capabilities.name,
        queues=queues,
        workers=store.workers(holders=True),
        running=app.find(state=JobState.RUNNING, limit=_SHOWN_JOBS),
        dead=app.find(state=JobState.DEAD, limit=_SHOWN_JOBS),
    )
