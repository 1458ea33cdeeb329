"""The JVM of Spark's driver, through py4j, which has no types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """Return the JVM of a session's driver, the only way to ask for a class; None over Spark Connect."""
    from pyspark.sql.utils import is_remote

    return None if is_remote() else spark._jvm


def java_error() -> type[Exception]:
    """Return the class of errors of calls of the JVM."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # py4j has no types

    found: type[Exception] = Py4JError
    return found
