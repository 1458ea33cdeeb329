"""The contenders of each database, by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from benchmarks.contenders.base import ConcurrentContender, Contender, Place

POSTGRESQL: dict[str, str] = {
    "raw": "raw_postgres:RawPostgres",
    "procrastinate": "procrastinate_pg:ProcrastinateContender",
    "pgqueuer": "pgqueuer_pg:PgQueuerContender",
    "stanchion": "stanchion_app:StanchionPostgres",
}

SQLITE: dict[str, str] = {
    "raw": "raw_sqlite:RawSqlite",
    "huey": "huey_app:HueySqlite",
    "stanchion": "stanchion_app:StanchionSqlite",
}

LIMITED_POSTGRESQL: dict[str, str] = {
    "stanchion": "stanchion_app:StanchionPostgres",
    "limited": "stanchion_limited:LimitedPostgres",
    "parked": "stanchion_limited:ParkedPostgres",
}

LIMITED_SQLITE: dict[str, str] = {
    "stanchion": "stanchion_app:StanchionSqlite",
    "limited": "stanchion_limited:LimitedSqlite",
    "parked": "stanchion_limited:ParkedSqlite",
}

MARIADB: dict[str, str] = {
    "raw": "raw_mariadb:RawMariaDB",
    "stanchion": "stanchion_app:StanchionContender",
}

REDIS: dict[str, str] = {
    "raw": "raw_redis:RawRedis",
    "huey": "huey_app:HueyRedis",
    "dramatiq": "dramatiq_redis:DramatiqContender",
    "taskiq": "taskiq_redis:TaskiqContender",
    "arq": "arq_redis:ArqContender",
    "celery": "celery_redis:CeleryContender",
    "rq": "rq_redis:RqContender",
    "bullmq": "bullmq_redis:BullMQContender",
    "stanchion": "stanchion_app:StanchionContender",
}


def load(reference: str) -> type[Contender]:
    """Return the class behind ``module:Class``, a reference from the tables above."""
    module, _, name = reference.partition(":")
    return cast(type[Contender], getattr(import_module(f"{__name__}.{module}"), name))


__all__ = [
    "LIMITED_POSTGRESQL",
    "LIMITED_SQLITE",
    "MARIADB",
    "POSTGRESQL",
    "REDIS",
    "SQLITE",
    "ConcurrentContender",
    "Contender",
    "Place",
    "load",
]
