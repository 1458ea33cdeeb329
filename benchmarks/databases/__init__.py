"""The databases that a run measures on; each is imported when it is asked for."""

from benchmarks.databases.base import Counters, Database, per_job

__all__ = ["Counters", "Database", "per_job"]
