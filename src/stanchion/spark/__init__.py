"""Spark over the jobs of any store: a session, the data source `stanchion`, and what is built on them.

Spark imports this package in each of its Python processes, and gives them ten seconds to come up: what these don't need
is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stanchion.errors import MissingExtra
from stanchion.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion.spark.archiving.archive import archive
    from stanchion.spark.archiving.done import Archive
    from stanchion.spark.archiving.replay import Replay, replay
    from stanchion.spark.reporting.report import Report, report

__all__ = ["Archive", "Replay", "Report", "archive", "register", "replay", "report", "session"]

_HOME = {
    "Archive": "archiving.done",
    "archive": "archiving.archive",
    **dict.fromkeys(("Replay", "replay"), "archiving.replay"),
    **dict.fromkeys(("Report", "report"), "reporting.report"),
}
"""In which module each name is."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def register(spark: SparkSession) -> None:
    """Make `format("stanchion")` known to a session.

    There is no need for it where this package is installed for the interpreter of Spark's driver: Spark finds it there.
    """
    try:
        from stanchion.spark.datasource.source import StanchionSource
    except ImportError:
        raise MissingExtra("spark", "the data source") from None
    spark.dataSource.register(StanchionSource)
