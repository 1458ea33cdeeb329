"""Spark over the jobs of any store: a session, the data source `stanchion`, and what is built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stanchion.errors import MissingExtra
from stanchion.spark.archiving import Archive, archive
from stanchion.spark.replaying import Replay, replay
from stanchion.spark.reports import Report, report
from stanchion.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Archive", "Replay", "Report", "archive", "register", "replay", "report", "session"]


def register(spark: SparkSession) -> None:
    """Make `format("stanchion")` known to a session.

    There is no need for it where this package is installed for the interpreter of Spark's driver: Spark finds it there.
    """
    try:
        from stanchion.spark.source import StanchionSource
    except ImportError:
        raise MissingExtra("spark", "the data source") from None
    spark.dataSource.register(StanchionSource)
