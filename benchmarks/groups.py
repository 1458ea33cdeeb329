"""The groups of measurements, by name: what is measured, where, and of whom."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import rounds
from benchmarks.contenders import LIMITED_POSTGRESQL, LIMITED_SQLITE, MARIADB, POSTGRESQL, REDIS, SQLITE
from benchmarks.rounds import BACKLOGS, SIZES_OF_CLAIMS, TENANTS, Arena, Round
from benchmarks.spark import ENGINES, READERS, SINGLES, SQLITE_READERS, SQLITE_WRITERS, STREAMS, WRITERS
from benchmarks.spark import rounds as spark

_ON_POSTGRES = (Arena("postgresql", "PostgreSQL", POSTGRESQL),)
_ON_SQLITE = tuple(Arena(f"sqlite-{mode}", f"SQLite {mode}", SQLITE) for mode in ("durable", "relaxed"))
_LIMITED_ON_POSTGRES = (Arena("postgresql", "PostgreSQL with limits", LIMITED_POSTGRESQL),)
_LIMITED_ON_SQLITE = (Arena("sqlite-durable", "SQLite with limits", LIMITED_SQLITE),)
_ON_MARIADB = (Arena("mariadb", "MariaDB", MARIADB),)
_ON_REDIS = (Arena("redis", "Redis", REDIS),)


_PARTS: dict[Round, tuple[str, ...]] = {
    rounds.claim: BACKLOGS,
    rounds.tenants: TENANTS,
    rounds.lanes: SIZES_OF_CLAIMS,
    spark.read: spark.READS,
}


def _postgres(contenders: dict[str, str]) -> tuple[Arena, ...]:
    return (Arena("postgresql", "PostgreSQL", contenders),)


def _sqlite(contenders: dict[str, str]) -> tuple[Arena, ...]:
    return (Arena("sqlite-durable", "SQLite durable", contenders),)


@dataclass(frozen=True)
class Group:
    """Measurements that are taken together: of each contender in turn, or of each kind of backlog."""

    name: str
    arenas: tuple[Arena, ...]
    round: Round

    @property
    def once(self) -> bool:
        """True when its one round interleaves what it compares."""
        return self.round in (rounds.claim, rounds.lanes, spark.read)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is measured in turn."""
        return _PARTS.get(self.round) or tuple(self.arenas[0].contenders)


GROUPS = {
    group.name: group
    for group in (
        Group("pg-enqueue", _ON_POSTGRES, rounds.enqueue),
        Group("pg-drain", _ON_POSTGRES, rounds.drain),
        Group("pg-latency", _ON_POSTGRES, rounds.latency),
        Group("pg-committers", _ON_POSTGRES, rounds.committers),
        Group("pg-claim", _ON_POSTGRES, rounds.claim),
        Group("pg-limits", _LIMITED_ON_POSTGRES, rounds.drain),
        Group("sqlite-limits", _LIMITED_ON_SQLITE, rounds.drain),
        Group("sqlite-enqueue", _ON_SQLITE, rounds.enqueue),
        Group("sqlite-drain", _ON_SQLITE, rounds.drain),
        Group("sqlite-latency", _ON_SQLITE[:1], rounds.latency),
        Group("sqlite-claim", _ON_SQLITE[:1], rounds.claim),
        Group("pg-tenants", _ON_POSTGRES, rounds.tenants),
        Group("pg-lanes", _ON_POSTGRES, rounds.lanes),
        Group("sqlite-tenants", _ON_SQLITE[:1], rounds.tenants),
        Group("sqlite-lanes", _ON_SQLITE[:1], rounds.lanes),
        Group("mariadb-lanes", _ON_MARIADB, rounds.lanes),
        Group("mariadb-enqueue", _ON_MARIADB, rounds.enqueue),
        Group("mariadb-drain", _ON_MARIADB, rounds.drain),
        Group("mariadb-latency", _ON_MARIADB, rounds.latency),
        Group("mariadb-claim", _ON_MARIADB, rounds.claim),
        Group("redis-enqueue", _ON_REDIS, rounds.enqueue),
        Group("redis-drain", _ON_REDIS, rounds.drain),
        Group("redis-latency", _ON_REDIS, rounds.latency),
        Group("redis-claim", _ON_REDIS, rounds.claim),
        Group("pg-spark-write", _postgres(WRITERS), spark.write),
        Group("pg-spark-read", _postgres(READERS), spark.read),
        Group("pg-spark-stream", _postgres(STREAMS), spark.stream),
        Group("pg-spark-single", _postgres(SINGLES), spark.single),
        Group("pg-spark-pipeline", _postgres(ENGINES), spark.pipeline),
        Group("sqlite-spark-write", _sqlite(SQLITE_WRITERS), spark.write),
        Group("sqlite-spark-read", _sqlite(SQLITE_READERS), spark.read),
        Group("sqlite-spark-stream", _sqlite(STREAMS), spark.stream),
        Group("sqlite-spark-single", _sqlite(SINGLES), spark.single),
        Group("sqlite-spark-pipeline", _sqlite(ENGINES), spark.pipeline),
    )
}
