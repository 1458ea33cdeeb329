"""Filters on times that Spark makes of numbers, in a form that the server of these numbers can check.

Spark pushes down comparisons of columns alone. A rule for its optimizer turns comparisons of `timestamp_micros(column)`
into comparisons of the column. Both have the same result, so the rule does no harm to other queries of the session.
It is in Java, as Spark calls it for each query, and compiled by what Spark compiles its own queries with.
"""

from __future__ import annotations

import logging
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from stanchion.spark.jvm import java_error, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULE = "stanchion.ComparedTimes"

_SOURCE = "ComparedTimes.java"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_log = logging.getLogger(__name__)


def compare_times(spark: SparkSession) -> None:
    """Add the rule to the optimizer of a session, once. Where that fails, Spark itself checks filters on times."""
    session: Any = spark._jsparkSession  # the only way to the optimizer
    optimizer = session.experimental()
    rules = optimizer.extraOptimizations()
    if RULE in rules.toString():
        return
    try:
        given = rules.appended(_compiled(spark))
    except java_error() as error:
        _log.warning("Spark reads jobs of all times and filters them itself: it can't compile %s: %s", _SOURCE, error)
    else:
        getattr(optimizer, "extraOptimizations_$eq")(given)


def _compiled(spark: SparkSession) -> object:
    """Return the rule, compiled in the process of the driver."""
    loader = jvm_of(spark).org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    compiler = loader.loadClass(_COMPILER).newInstance()
    compiler.setParentClassLoader(loader)
    compiler.cook((files("stanchion.spark") / _SOURCE).read_text(encoding="utf-8"))
    return compiler.getClassLoader().loadClass(RULE).newInstance()
