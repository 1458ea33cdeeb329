"""A store for tests with Spark, and what is in it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from stanchion import Stanchion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def opened(url: str, **options: Any) -> Iterator[Stanchion]:
    """Set up the store of a URL and lend an app over it."""
    with closing(Stanchion(url, **options)) as app:
        app.setup()
        yield app


def read(spark: "SparkSession", app: Stanchion, **options: Any) -> "DataFrame":
    """Return what the data source reads from the app's store."""
    return spark.read.format("stanchion").options(url=app.url, **options).load()


def write(frame: "DataFrame", app: Stanchion, **options: Any) -> None:
    """Write rows as jobs into the app's store."""
    frame.write.format("stanchion").mode("append").options(url=app.url, **options).save()
