"""The figures of queues: a few reads for all of them together."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stanchion.alerts.snapshot import QueueSample, Snapshot, StreamSample
from stanchion.alerts.words import NAMED, named
from stanchion.core.text.durations import spelled
from stanchion.ops.reads.workers import live_workers
from stanchion.ops.words import number, plural, seconds_since
from stanchion.stores.letters import Letters, read_letters
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import EMPTY, Counts, QueueSettings, QueueStats, Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.serving import by_served_queue
from stanchion.telemetry.times import Times, by_queue


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue. `lag`: seconds that its oldest due job has waited; None if no job is due. `workers`: live workers.

    `next_due`: when its first queued job is due, by the store's clock. `takes_letters`: dead letters of others go
    there; `letters`: how many lie there, which are in no other figure.
    `times`: waiting and run times of the last five minutes; None if no worker reports them. `streamed`: a stream reads
    it, so it needs a driver instead of a worker. `items`: the live items, more than jobs where it has chunks.
    """

    settings: QueueSettings
    sizes: Sizes
    totals: Counts
    lag: float | None
    workers: tuple[WorkerRow, ...]
    next_due: int | None = None
    takes_letters: bool = False
    letters: int = 0
    times: Times | None = None
    streamed: bool = False
    items: Sizes = EMPTY

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.settings.name

    @property
    def threads(self) -> int:
        """Jobs that its live workers can run concurrently, for all their queues together."""
        return sum(worker.threads for worker in self.workers)

    @property
    def done(self) -> int:
        """Jobs done since the queue was made."""
        return self.totals.committed + self.totals.popped + self.totals.moved

    @property
    def trouble(self) -> str:
        """The queue's trouble in a few words; empty without any."""
        if self.settings.paused and self.sizes.ready:
            return "paused"
        if self.sizes.ready and not self.workers and not self.takes_letters:
            return f"no {self._reader}"
        return ""

    @property
    def _reader(self) -> str:
        return "driver" if self.streamed else "worker"

    @property
    def sentence(self) -> str:
        """Whether it keeps up, as a sentence."""
        ready = plural(self.sizes.ready, "ready job")
        if self.settings.paused:
            return f"{self.name} is paused" + (f" with {ready}" if self.sizes.ready else "")
        if self.letters and not self.sizes.total:
            return f"{self.name} keeps {plural(self.letters, 'dead letter')}"
        if self.sizes.ready and not self.workers:
            return f"{self.name} has {ready} and no {self._reader}"
        if self.sizes.ready:
            return f"{self.name} has {ready}, the oldest for {spelled(self.lag)}"
        if self.sizes.total:
            return f"{self.name} keeps up: no job is ready"
        return f"{self.name} is empty"


def figures(
    store: Store,
    settings: Sequence[QueueSettings],
    workers: Sequence[WorkerRow],
    now: int,
    streams: Iterable[StreamSample],
    letters: Letters | None = None,
) -> list[QueueFigures]:
    """Return the figures of these queues, the ones in trouble first, then by the age of their oldest due job.

    `letters`: the dead letters; None: they are read, of these queues.
    """
    streamed = {one.queue for one in streams}
    stats = store.stats([one.name for one in settings], ["states", "items", "totals", "next_due"]) if settings else {}
    letters = read_letters(store, settings, stats) if letters is None else letters
    known = _Known(by_served_queue(live_workers(workers, now)), by_queue(workers, now), now, letters, streamed)
    found = [_figures(one, stats[one.name], known) for one in settings]
    return sorted(found, key=_by_trouble)


def _by_trouble(one: QueueFigures) -> tuple[bool, float, str]:
    return not one.trouble, -(0.0 if one.takes_letters else one.lag or 0.0), one.name


def figures_as_seen(store: Store, seen: Snapshot, settings: Sequence[QueueSettings], now: int) -> list[QueueFigures]:
    """Return the figures of these queues, as `figures`, from the last reading: stores count live jobs one by one.

    Queues that are newer than the reading are read now.
    """
    known, samples = _known(seen, now), {one.settings.name: one for one in seen.queues}
    found = {one.name: _figures_seen(samples.get(one.name), one, known) for one in settings}
    unseen = [one for one in settings if found[one.name] is None]
    new = figures(store, unseen, seen.workers, now, seen.streams, seen.letters)
    return sorted([*(one for one in found.values() if one is not None), *new], key=_by_trouble)


def figures_seen(seen: Snapshot, settings: QueueSettings, now: int) -> QueueFigures | None:
    """Return the figures of a queue from the last reading, which its settings may be newer than; None without it."""
    sample = next((one for one in seen.queues if one.settings.name == settings.name), None)
    return _figures_seen(sample, settings, _known(seen, now))


class _Known(NamedTuple):
    """Sources of the figures of each queue. `serving`: the live workers, by the queues that they serve."""

    serving: Mapping[str, Sequence[WorkerRow]]
    times: Mapping[str, Times]
    now: int
    letters: Letters
    streamed: Container[str]


def _known(seen: Snapshot, now: int) -> _Known:
    serving = by_served_queue(live_workers(seen.workers, now))
    return _Known(serving, by_queue(seen.workers, now), now, seen.letters, seen.streamed)


def _figures_seen(sample: QueueSample | None, settings: QueueSettings, known: _Known) -> QueueFigures | None:
    if sample is None:
        return None
    due = min((head.run_at for head in sample.stats.heads), default=None)
    return _figures(settings, sample.stats._replace(next_due=due), known)


def _figures(settings: QueueSettings, stats: QueueStats, known: _Known) -> QueueFigures:
    name, due, letters = settings.name, stats.next_due, known.letters
    sizes = letters.work(name, stats.states)
    letters_alone = name in letters.lying and not sizes.ready
    lag = None if due is None or due > known.now or letters_alone else seconds_since(due, known.now)
    apart = name in letters.places, letters.lying.get(name, 0), known.times.get(name), name in known.streamed
    items = letters.work(name, stats.items)
    return QueueFigures(settings, sizes, stats.totals, lag, tuple(known.serving.get(name, ())), due, *apart, items)


def headline(queues: Sequence[str], alerts: Container[str]) -> str:
    """Summarise these queues in a sentence. `alerts`: the queues with an alert."""
    troubled = [name for name in queues if name in alerts]
    if not queues:
        return "No queue"
    if not troubled:
        return "The queue keeps up" if len(queues) == 1 else f"All {number(len(queues))} queues keep up"
    if len(troubled) > NAMED:
        of_all = "" if len(troubled) == len(queues) else f" of {number(len(queues))}"
        return f"{number(len(troubled))}{of_all} queues need attention"
    return f"{named(troubled)} {'needs' if len(troubled) == 1 else 'need'} attention"
