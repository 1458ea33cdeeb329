"""The metrics of a worker: attempts, their run times and pick-up delays, and how busy it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stanchion.core.partition_names import logical_name
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.telemetry.prometheus import client, new_registry

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

RUN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 90, 300, 600, 3600)
DELAY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 180, 600, 5400, 14_400)
"""Seconds. The limits of the priority bands are among them, so that the share that keeps its service level is exact."""

OUTCOMES = {
    outcomes.Commit: "done",
    outcomes.Rollback: "retried",
    outcomes.Move: "moved",
    outcomes.Bury: "dead",
    outcomes.Abandon: "cancelled",
    outcomes.Continue: "continued",
}

Observe = Callable[[float], None]


class JobMetrics:
    """The metrics of one worker; each has `queue` as a label. Any thread may call."""

    def __init__(self) -> None:
        prometheus = client()
        self.registry: CollectorRegistry = new_registry()
        self._attempts = prometheus.Counter(
            "stanchion_job_attempts",
            "Attempts that have ended, by outcome: done, retried, moved, dead and others.",
            ["queue", "task", "outcome"],
            registry=self.registry,
        )
        self._run = prometheus.Histogram(
            "stanchion_job_run_seconds",
            "Run time of attempts.",
            ["queue", "task"],
            buckets=RUN_BUCKETS,
            registry=self.registry,
        )
        self._delay = prometheus.Histogram(
            "stanchion_job_pickup_delay_seconds",
            "Time from due to start of jobs, by the clock of the store.",
            ["queue"],
            buckets=DELAY_BUCKETS,
            registry=self.registry,
        )
        self._gauges = {name: self._gauge(prometheus, name, said, mode) for name, said, mode in _GAUGES}
        self._known: dict[tuple[str, str | None, str], tuple[Observe, Observe, Observe]] = {}

    def _gauge(self, prometheus: Any, name: str, said: str, mode: str) -> Any:
        return prometheus.Gauge(f"stanchion_worker_{name}", said, registry=self.registry, multiprocess_mode=mode)

    def ended(self, row: JobRow, seconds: float, outcome: Outcome | None) -> None:
        """Record the end of an attempt that ran for `seconds`; None: the task settled its job itself."""
        key = row.queue, row.task, _name_of(outcome)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._children(*key)
        count, ran, waited = found
        count(1.0)
        ran(seconds)
        waited(max(0, (row.started_at or row.run_at) - row.run_at) / SECOND)

    def sample(self, **figures: float) -> None:
        """Set how busy the worker is now."""
        for name, value in figures.items():
            self._gauges[name].set(value)

    def _children(self, queue: str, task: str | None, outcome: str) -> tuple[Observe, Observe, Observe]:
        """Return what counts, by labels; looking labels up costs as much as the rest."""
        labels = logical_name(queue), task or ""
        return (
            self._attempts.labels(*labels, outcome).inc,
            self._run.labels(*labels).observe,
            self._delay.labels(labels[0]).observe,
        )


_GAUGES = (
    ("slots", "Jobs that the worker can run at once.", "livesum"),
    ("running_jobs", "Jobs that run.", "livesum"),
    ("reserved_jobs", "Jobs that the worker holds, running or about to run.", "livesum"),
    ("unstored_outcomes", "Ends of attempts that are not stored yet.", "livesum"),
    ("healthy", "1 while the worker reaches its store and no event loop is blocked.", "livemin"),
)


def _name_of(outcome: Outcome | None) -> str:
    if outcome is None:
        return "settled"
    if type(outcome) is outcomes.Rollback and outcome.refund:
        return "given_back"
    return OUTCOMES.get(type(outcome), "other")
