"""The figures of queues: a few reads for all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stanchion.alerts.snapshot import Snapshot
from stanchion.core.partition_names import logical_name
from stanchion.ops.web.live.sampler import Sample
from stanchion.ops.web.show.words import duration, listed, number, plural, seconds_since
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Sizes
from stanchion.stores.records.workers import CONSUMER, HOLDER, WorkerRow

QUICK = 0.2
"""Seconds of a reading up to which each page reads the figures of queues again."""

MISSED_BEATS = 3
"""Missed heartbeats after which a worker counts as dead."""


def is_late(worker: WorkerRow, now: int) -> bool:
    """Return whether a worker is so late that others take its jobs."""
    return worker.state != HOLDER and now - worker.last_seen_at > MISSED_BEATS * worker.heartbeat * SECOND


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue. `lag`: seconds that its oldest due job has waited; None if no job is due. `workers`: live ones."""

    settings: QueueSettings
    sizes: Sizes
    totals: Counts
    lag: float | None
    workers: tuple[WorkerRow, ...]

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.settings.name

    @property
    def threads(self) -> int:
        """Jobs that its live workers can run at once, for all their queues together."""
        return sum(worker.threads for worker in self.workers)

    @property
    def done(self) -> int:
        """Jobs done since the queue was made."""
        return self.totals.committed + self.totals.popped + self.totals.moved

    @property
    def trouble(self) -> str:
        """What is wrong in a few words; empty if nothing is."""
        if self.settings.paused and self.sizes.ready:
            return "paused"
        if self.sizes.ready and not self.workers:
            return "no worker"
        return ""

    @property
    def sentence(self) -> str:
        """Whether it keeps up, as a sentence."""
        ready = plural(self.sizes.ready, "ready job")
        if self.settings.paused:
            return f"{self.name} is paused" + (f" with {ready}" if self.sizes.ready else "")
        if self.sizes.ready and not self.workers:
            return f"{self.name} has {ready} and no worker"
        if self.sizes.ready:
            return f"{self.name} has {ready}, the oldest for {duration(self.lag)}"
        if self.sizes.total:
            return f"{self.name} keeps up: no job is ready"
        return f"{self.name} is empty"


def figures(
    store: Store, settings: Sequence[QueueSettings], workers: Sequence[WorkerRow], now: int
) -> list[QueueFigures]:
    """Return the figures of these queues, those in trouble first, then by the age of their oldest due job."""
    stats = store.stats([one.name for one in settings], ["states", "totals", "next_due"]) if settings else {}
    live = [worker for worker in workers if worker.state not in (HOLDER, CONSUMER) and not is_late(worker, now)]
    found = [_figures(one, stats[one.name], live, now) for one in settings]
    return sorted(found, key=_by_trouble)


def _by_trouble(one: QueueFigures) -> tuple[bool, float, str]:
    return not one.trouble, -(one.lag or 0.0), one.name


def is_quick(sample: Sample) -> bool:
    """Return whether the figures of queues can be read for each page."""
    return sample.seconds <= QUICK


def figures_of(store: Store, sample: Sample, settings: Sequence[QueueSettings], now: int) -> list[QueueFigures]:
    """Return the figures of these queues, as `figures`; from the last reading if that took long.

    Stores count live jobs one by one. Queues that are newer than the reading are read now.
    """
    if is_quick(sample):
        return figures(store, settings, store.workers(), now)
    seen = {one.name: figures_seen(sample.seen, one, now) for one in settings}
    new = figures(store, [one for one in settings if seen[one.name] is None], sample.seen.workers, now)
    return sorted([*(one for one in seen.values() if one is not None), *new], key=_by_trouble)


def figures_seen(seen: Snapshot, settings: QueueSettings, now: int) -> QueueFigures | None:
    """Return the figures of a queue from the last reading, which its settings may be newer than; None without it."""
    sample = next((one for one in seen.queues if one.settings.name == settings.name), None)
    if sample is None:
        return None
    due = min((head.run_at for head in sample.stats.heads), default=None)
    live = [worker for worker in seen.workers if worker.state not in (HOLDER, CONSUMER) and not is_late(worker, now)]
    return _figures(settings, sample.stats._replace(next_due=due), live, now)


def _figures(settings: QueueSettings, stats: QueueStats, live: Sequence[WorkerRow], now: int) -> QueueFigures:
    due = stats.next_due
    lag = None if due is None or due > now else seconds_since(due, now)
    own = tuple(worker for worker in live if settings.name in map(logical_name, worker.queues))
    return QueueFigures(settings, stats.states, stats.totals, lag, own)


def headline(found: Sequence[QueueFigures]) -> str:
    """Return what is to be known of all queues, as a sentence."""
    troubled = [one for one in found if one.trouble]
    if not troubled:
        return "The queue keeps up" if len(found) == 1 else f"All {number(len(found))} queues keep up"
    names = listed([one.name for one in troubled[:3]] + ([f"{len(troubled) - 3} more"] if len(troubled) > 3 else []))
    return f"{names} {'needs' if len(troubled) == 1 else 'need'} attention"
