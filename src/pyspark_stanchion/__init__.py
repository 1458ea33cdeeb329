"""Where Spark finds the data source by itself: it looks for a `DefaultSource` in every module named like this one."""

from stanchion.spark.datasource.source import StanchionSource as DefaultSource

__all__ = ["DefaultSource"]
