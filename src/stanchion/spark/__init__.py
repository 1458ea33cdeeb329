"""Spark for the jobs of any store: a session, the data source `stanchion`, and what builds on them.

Spark imports this package in each of its Python processes, which have ten seconds to start. Names that they do not
need are imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stanchion.core.spark_errors import (
    ArchiveBusy,
    BatchNotKept,
    ForeignCheckpoint,
    HistoryPurged,
    JobsMisfit,
    LeasesLost,
    StagedJobsLost,
    StreamStopped,
    StreamTaken,
    TableRefused,
)
from stanchion.errors import MissingExtra
from stanchion.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion.reporting.report import Report
    from stanchion.spark.archiving.archive import archive
    from stanchion.spark.archiving.done import Archive
    from stanchion.spark.archiving.replay import Replay, replay
    from stanchion.spark.reporting.report import report
    from stanchion.spark.table import jobs

__all__ = [  # noqa: RUF022 - in groups
    "Archive",
    "Replay",
    "Report",
    "archive",
    "jobs",
    "register",
    "replay",
    "report",
    "session",
    # Errors
    "ArchiveBusy",
    "BatchNotKept",
    "ForeignCheckpoint",
    "HistoryPurged",
    "JobsMisfit",
    "LeasesLost",
    "StagedJobsLost",
    "StreamStopped",
    "StreamTaken",
    "TableRefused",
]

_HOME = {
    "Archive": "archiving.done",
    "archive": "archiving.archive",
    **dict.fromkeys(("Replay", "replay"), "archiving.replay"),
    **dict.fromkeys(("Report", "report"), "reporting.report"),
    "jobs": "table",
}
"""The module of each name."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})


def register(spark: SparkSession) -> None:
    """Register `format("stanchion")` with a session.

    Not needed if this package is installed for the interpreter of Spark's driver, where Spark finds it.
    """
    try:
        from stanchion.spark.datasource.source import StanchionSource
    except ImportError:
        raise MissingExtra("spark", "the data source") from None
    spark.dataSource.register(StanchionSource)
