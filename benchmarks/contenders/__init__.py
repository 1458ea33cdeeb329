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
    "huey": "huey_sqlite:HueyContender",
    "stanchion": "stanchion_app:StanchionSqlite",
}


def load(reference: str) -> type[Contender]:
    """Return the class behind ``module:Class``, a reference from the tables above."""
    module, _, name = reference.partition(":")
    return cast(type[Contender], getattr(import_module(f"{__name__}.{module}"), name))


__all__ = ["POSTGRESQL", "SQLITE", "ConcurrentContender", "Contender", "Place", "load"]
