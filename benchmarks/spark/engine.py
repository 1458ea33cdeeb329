"""The Spark of a run, and the stores that it is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import Place
from stanchion import Stanchion
from stanchion.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",  # each batch of a measurement is looked at
}
TEXT = "x" * 77
FIRST = 1_000_000
"""The number in the first payload: with so many digits each has 100 bytes."""


@contextmanager
def started(jar: Path | None) -> Iterator[SparkSession]:
    """Run Spark on all cores, with a JDBC driver if there is one."""
    running = session(**SETTINGS, **({"spark.driver.extraClassPath": str(jar)} if jar else {}))
    try:
        yield running
    finally:
        running.stop()


def url_of(place: Place) -> str:
    """Return the URL of a place, as Stanchion has it."""
    if "://" in place.url:
        return place.url
    return f"sqlite:///{place.url}?synchronous={'full' if place.durable else 'normal'}"


@contextmanager
def opened(place: Place) -> Iterator[Stanchion]:
    """Lend an app over the store of a place, whose schema is made."""
    with closing(Stanchion(url_of(place))) as app:
        app.setup()
        yield app


def payloads(count: int) -> Iterator[dict[str, object]]:
    """Yield payloads of 100 bytes."""
    return ({"n": FIRST + number, "text": TEXT} for number in range(count))


def fill(app: Stanchion, queue: str, count: int) -> None:
    """Push so many jobs."""
    app.queue(queue).push_many(payloads(count))
