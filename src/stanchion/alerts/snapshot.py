"""The reader's snapshot of a store, the only input of the rules. Times are microseconds by the store's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from stanchion.alerts.owners import Owner
from stanchion.alerts.thresholds import Thresholds
from stanchion.context.queues.pauses import Pause
from stanchion.core.service_levels import Band, band_of
from stanchion.stores.letters import Letters
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.managers import ManagerStatus
from stanchion.stores.records.queues import Counts, Head, QueueSettings, QueueStats, SemaphoreRow
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.capacity.slots import priority_of
from stanchion.stores.rules.leases.liveness import alive
from stanchion.stores.rules.leases.serving import by_served_queue, divided_queues
from stanchion.stores.rules.lifecycle.dead_letters import letter_queues
from stanchion.telemetry.failures import Failures


class QueueSample(NamedTuple):
    """A queue: its settings, and its sizes, totals and heads. Dead letters that lie there are not in the sizes."""

    settings: QueueSettings
    stats: QueueStats


class LiveJob(NamedTuple):
    """A live job. `state`: as callers see it."""

    id: str
    queue: str
    state: str
    priority: int
    run_at: int
    attempts: int
    failures: int


class RunningJob(NamedTuple):
    """A running job. `timeout`: seconds that its attempts may run, None without a time-out."""

    id: str
    queue: str
    task: str | None
    priority: int
    attempts: int
    started_at: int
    worker: str | None
    timeout: float | None = None


class DeadJob(NamedTuple):
    """A job that died, in history or as a dead letter. `queue`: where it died."""

    id: str
    queue: str
    priority: int
    died_at: int


class PutOff(NamedTuple):
    """A job that no worker knew the work of; `times`: how often it was put off, since `since`."""

    id: str
    queue: str
    work: str
    times: int
    since: int


class Holder(NamedTuple):
    """A job that holds a slot; `started_at`: None before it runs."""

    priority: int
    started_at: int | None


class SemaphoreSample(NamedTuple):
    """A semaphore that jobs wait for: since when its head of line has waited, and its holders."""

    row: SemaphoreRow
    head_since: int | None
    holders: tuple[Holder, ...]


class StreamSample(NamedTuple):
    """A stream; `last_beat`: of its driver, None if that is not known any more."""

    name: str
    queue: str
    live: bool
    last_beat: int | None
    pending: bool
    replays: int
    stopped: bool
    error: str | None


class ScheduleSample(NamedTuple):
    """A schedule that should fire; `tick`: its oldest tick that is not handled."""

    name: str
    queue: str
    declared: bool
    tick: int | None


class Station(NamedTuple):
    """A station of a pipeline; `before`: the queues of the stations that send to it; `on_spark`: only Spark runs it."""

    pipeline: str
    station: str
    queue: str
    before: tuple[str, ...]
    on_spark: bool = False


class ErrorSample(NamedTuple):
    """A group of errors of a queue. `key`, `type`: of the group; `failed`: attempts within the last hour by it.

    `dead`: jobs that died of it, as long as the workers have tallied it.
    """

    key: str
    type: str
    task: str
    failed: int
    dead: int


class Overdue(NamedTuple):
    """The oldest job in the history of queues with the same retention, in seconds."""

    queue: str
    finished_at: int
    history_ttl: float


class Window(NamedTuple):
    """Totals of queues some time ago, at `at`."""

    at: int
    totals: dict[str, Counts]


@dataclass(frozen=True)
class Snapshot:
    """A reading of a store.

    `trouble`: why it could not be read; all else is empty then. `seconds`: the duration of a single call. `live`:
    the oldest live jobs; `whole`: they are all. `running`: the oldest. `dead`: jobs that died within the last hour.
    `letters`: the waiting dead letters. `tallies`: failures tallied by workers, of the queues with recent failures;
    `errors`: the heaviest of these in the last hour. `pauses`: who paused queues, and why. `arrivals`:
    jobs that arrived in paused queues in the last five minutes. `recent`, `hour`: totals of some minutes, and of about
    an hour ago.
    `limits`: stored for all processes. `owners`: the owners of alerts, by key.
    """

    at: int = 0
    trouble: str | None = None
    seconds: float = 0.0
    queues: tuple[QueueSample, ...] = ()
    workers: tuple[WorkerRow, ...] = ()
    live: tuple[LiveJob, ...] = ()
    whole: bool = True
    running: tuple[RunningJob, ...] = ()
    dead: tuple[DeadJob, ...] = ()
    letters: Letters = field(default_factory=Letters)
    put_off: tuple[PutOff, ...] = ()
    tallies: dict[str, dict[str, Failures]] = field(default_factory=dict)
    errors: dict[str, tuple[ErrorSample, ...]] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)
    semaphores: tuple[SemaphoreSample, ...] = ()
    streams: tuple[StreamSample, ...] = ()
    schedules: tuple[ScheduleSample, ...] = ()
    stations: tuple[Station, ...] = ()
    overdue: tuple[Overdue, ...] = ()
    managers: tuple[ManagerStatus, ...] = ()
    recent: Window | None = None
    hour: Window | None = None
    limits: dict[str, float] = field(default_factory=dict)
    owners: dict[str, Owner] = field(default_factory=dict)

    def ago(self, then: int) -> float:
        """Return the seconds since a time, 0 for one ahead."""
        return max(0.0, (self.at - then) / SECOND)

    @cached_property
    def letter_queues(self) -> frozenset[str]:
        """The dead-letter queues, which have no workers."""
        return letter_queues(one.settings for one in self.queues)

    def run_limits(self, limits: Thresholds) -> dict[str, float]:
        """Return the seconds for which each running job may run before it is an alert, by its id.

        A limit of the queue has precedence. Else a job with a time-out, by the job or by its queue, may run that long,
        and at least as long as its band allows.
        """
        of_queues = {one.settings.name: one.settings.timeout for one in self.queues}
        return {
            one.id: limits.run_limit(one.queue, band_of(one.priority).name, one.timeout or of_queues.get(one.queue))
            for one in self.running
        }

    @cached_property
    def serving(self) -> dict[str, list[WorkerRow]]:
        """The live workers, and consumers with heartbeats, that take jobs of each queue."""
        return by_served_queue(one for one in self.workers if alive(one, self.at))

    @cached_property
    def divided(self) -> frozenset[str]:
        """The queues that workers, dead ones too, divide by lanes."""
        return divided_queues(self.workers)

    @cached_property
    def streamed(self) -> frozenset[str]:
        """The queues that streams read, or are to read: they take drivers and no workers."""
        on_spark = (one.queue for one in self.stations if one.on_spark)
        return frozenset((*(one.queue for one in self.streams), *on_spark))

    def due(self, queue: QueueSample) -> Iterator[tuple[Band, Head]]:
        """Yield the claimable jobs among the heads of a queue, each with its band; dead letters alone are none."""
        letters_alone = queue.settings.name in self.letters.lying and not queue.stats.states.ready
        for head in queue.stats.heads if not letters_alone else ():
            if head.due_in <= 0:
                yield band_of(priority_of(head.rank)), head
