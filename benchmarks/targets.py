"""What Stanchion sets out to reach, as ratios to what was measured in the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.readings import Readings
from benchmarks.rounds import SIZES_OF_CLAIMS, TENANTS
from benchmarks.spark.rounds import READS

STANCHION = "stanchion"
WORKERS = "workers"
PEERS = ("pgqueuer", "procrastinate")
PYTHON_PEERS = ("huey", "dramatiq", "taskiq", "arq", "celery", "rq")


@dataclass(frozen=True)
class Target:
    """One aim; `seen` returns None for a run without the readings it takes."""

    text: str
    limit: float
    seen: Callable[[Readings], float | None]
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Say whether a value reaches the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


def _ratio(table: str, *others: str, of: str = STANCHION) -> Callable[[Readings], float | None]:
    return lambda readings: readings.ratio(table, of, others)


def _value(table: str) -> Callable[[Readings], float | None]:
    return lambda readings: readings.typical(table, STANCHION)


def _growth(table: str) -> Callable[[Readings], float | None]:
    return lambda readings: readings.ratio(table, "large backlog", ["small backlog"])


def _beside(table: str, kind: str) -> Callable[[Readings], float | None]:
    return lambda readings: readings.ratio(table, kind, [STANCHION])


def _slowed(table: str) -> Callable[[Readings], float | None]:
    def ratio(readings: Readings) -> float | None:
        alone, beside = (readings.samples(table, name) for name in TENANTS)
        return _p99(beside) / _p99(alone) if alone and beside else None

    return ratio


def _p99(samples: list[float]) -> float:
    return quantiles(samples, n=100, method="inclusive")[98]


def _lanes(table: str) -> Callable[[Readings], float | None]:
    return lambda readings: readings.ratio(table, "64 lanes", ["one lane"])


TARGETS = [
    Target("PostgreSQL, drain: to the faster of PgQueuer and Procrastinate", 2.5, _ratio("PostgreSQL, drain", *PEERS)),
    Target("PostgreSQL, drain: to raw statements", 0.6, _ratio("PostgreSQL, drain", "raw")),
    Target("PostgreSQL, bulk enqueue: to PgQueuer", 1.0, _ratio("PostgreSQL, bulk enqueue", "pgqueuer")),
    Target("PostgreSQL, bulk enqueue: to raw statements", 0.6, _ratio("PostgreSQL, bulk enqueue", "raw")),
    Target("PostgreSQL, single enqueue: to raw statements", 0.6, _ratio("PostgreSQL, single enqueue", "raw")),
    Target("PostgreSQL, pick-up: median, ms", 2.0, _value("PostgreSQL, pick-up"), at_least=False),
    Target("SQLite durable, drain: to Huey with fsync", 5.0, _ratio("SQLite durable, drain", "huey")),
    Target("SQLite relaxed, drain: to Huey without fsync", 1.5, _ratio("SQLite relaxed, drain", "huey")),
    *(
        Target(f"{database}, drain: {what}", least, _beside(f"{database}, drain", kind))
        for database in ("PostgreSQL with limits", "SQLite with limits")
        for what, kind, least in (
            ("a limit on every job, to none", "limited", 0.8),
            ("beside 100,000 parked jobs, to none", "parked", 0.9),
        )
    ),
    Target("MariaDB, drain: to raw statements", 0.6, _ratio("MariaDB, drain", "raw")),
    Target("Redis, drain: to the fastest Python peer", 5.0, _ratio("Redis, drain", *PYTHON_PEERS)),
    Target("Redis, drain: to BullMQ", 1.0, _ratio("Redis, drain", "bullmq")),
    Target("Redis, pick-up: median, ms", 1.2, _value("Redis, pick-up"), at_least=False),
    *(
        Target(
            f"{database}, claim: large to small backlog of {kind} jobs",
            1.2,
            _growth(f"{database}, claim beside {kind} jobs"),
            at_least=False,
        )
        for database in ("PostgreSQL", "SQLite durable", "MariaDB", "Redis")
        for kind in ("ready", "scheduled", "finished")
    ),
    *(
        Target(f"{database}, light tenants: p99 of pick-ups beside a heavy one, to alone", 2.0, seen, at_least=False)
        for database in ("PostgreSQL", "SQLite durable")
        for seen in [_slowed(f"{database}, pick-up of light tenants")]
    ),
    *(
        Target(f"{database}, claim {size}: 64 lanes to one", 2.0, seen, at_least=False)
        for database in ("PostgreSQL", "SQLite durable", "MariaDB")
        for size in SIZES_OF_CLAIMS
        for seen in [_lanes(f"{database}, claim {size}")]
    ),
    Target("PostgreSQL, Spark write: to COPY by one process", 0.55, _ratio("PostgreSQL, Spark write", "raw")),
    *(
        Target(f"PostgreSQL, Spark read of {columns}: jobs() to Spark's JDBC", 0.95, _ratio(table, "jdbc", of="jobs()"))
        for columns in READS
        for table in [f"PostgreSQL, Spark read of {columns}"]
    ),
    Target("PostgreSQL, Spark stream: jobs/s", 30_000, _value("PostgreSQL, Spark stream")),
    Target(
        "PostgreSQL, one job by a Spark stream: ms",
        280,
        _value("PostgreSQL, one job by a Spark stream"),
        at_least=False,
    ),
]
